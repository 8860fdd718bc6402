//! What goroutines of Go's programs waited for.

use convoy_model::{bucket_floor, GoProgram, GoWait, ProcessId};

use super::remark;
use crate::human::{count, duration};
use crate::sched_names;
use crate::text::page::{plain, toned, Page, Tone};
use crate::text::table::INDENT;
use crate::Report;

/// Programs that are listed: those that most goroutines were seen of.
const PROGRAMS: usize = 8;
/// Places that are listed of one program.
const ROWS: usize = 10;
/// Callers that are named.
const CALLERS: usize = 3;
/// Columns of the number in front.
const LABEL: usize = 10;
/// Fewer goroutines than this on average are not worth a line.
const LEAST: f64 = 0.05;

/// The section: nothing where no program is one of Go.
pub fn write(page: &mut Page, report: &Report<'_>) {
    let programs = report.model.sched.iter().flat_map(|s| &s.goroutines);
    let (shown, rest) = shown(programs);
    if !shown.is_empty() {
        page.title("Goroutines");
    }
    for program in shown {
        one(page, report, program);
    }
    if rest > 0 {
        remark(
            page,
            format!("and {rest} more programs of Go: --format json has all"),
        );
    }
}

/// Programs that something is said of, and how many more there are.
fn shown<'a>(programs: impl Iterator<Item = &'a GoProgram>) -> (Vec<&'a GoProgram>, usize) {
    let told = programs.filter(|p| p.looks > 0 || !p.unknown.is_empty());
    let mut all: Vec<&GoProgram> = told.collect();
    let rest = all.len().saturating_sub(PROGRAMS);
    if rest > 0 {
        all.sort_by_key(|program| std::cmp::Reverse(program.goroutines));
        all.truncate(PROGRAMS);
    }
    (all, rest)
}

fn one(page: &mut Page, report: &Report<'_>, program: &GoProgram) {
    let name = name(report, program.process);
    if !program.unknown.is_empty() {
        remark(
            page,
            format!(
                "{name}: what its goroutines wait for is not known: {}",
                program.unknown
            ),
        );
        return;
    }
    let looks = program.looks as f64;
    let mean = |of: &dyn Fn(&convoy_model::GoState) -> u64| {
        let states = program.states.iter();
        let sum = states.fold(0u64, |sum, s| sum.saturating_add(of(s).saturating_mul(s.n)));
        sum as f64 / looks
    };
    let all = program.goroutines as f64 / looks;
    let mut text = format!(
        " ({}): {all:.1} goroutines of its own on average",
        program.version
    );
    match program.states.iter().map(|s| s.procs).max() {
        Some(procs) => {
            text += &format!(
                ", {:.1} run, {:.1} wait for one of {procs} processors (GOMAXPROCS), {:.1} are in system calls",
                mean(&|s| u64::from(s.running)),
                mean(&|s| bucket_floor(s.runnable as usize) as u64),
                mean(&|s| u64::from(s.in_calls)),
            );
        }
        None => text += ", too many to look at all of them at once",
    }
    page.line(INDENT, vec![toned(Tone::Strong, name), plain(text)]);
    let mut waits: Vec<&GoWait> = program.waits.iter().collect();
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.n));
    let shown = waits.iter().filter(|wait| wait.n as f64 >= LEAST * looks);
    for wait in shown.take(ROWS) {
        let mean = toned(Tone::Dim, format!("{:.1}", wait.n as f64 / looks));
        let path = sched_names::path_of(report.model, wait.site, CALLERS);
        page.hang(
            2 * INDENT,
            mean,
            LABEL,
            vec![plain(format!("{}: {path}", wait.reason))],
        );
    }
    let cost = duration(program.cost_ns as f64);
    remark(
        page,
        format!(
            "goroutines on average of {} looks, which took {cost} of CPU time",
            count(program.looks)
        ),
    );
}

fn name(report: &Report<'_>, id: ProcessId) -> String {
    let process = report.model.processes.get(id.0 as usize);
    process.map_or_else(String::new, |p| p.name.clone())
}

#[cfg(test)]
mod tests {
    use super::{shown, GoProgram, PROGRAMS};

    #[test]
    fn of_many_programs_those_with_most_goroutines_are_listed() {
        let program = |goroutines| GoProgram {
            looks: 1,
            goroutines,
            ..GoProgram::default()
        };
        let some: Vec<GoProgram> = (0..PROGRAMS as u64).map(program).collect();
        let nobody = GoProgram::default();
        let (all, rest) = shown(some.iter().chain([&nobody]));
        assert!(all.iter().copied().eq(&some), "in the order of processes");
        assert_eq!(rest, 0);
        let many: Vec<GoProgram> = (0..100).map(program).collect();
        let (first, rest) = shown(many.iter());
        assert_eq!((first.len(), rest), (PROGRAMS, 100 - PROGRAMS));
        assert!(first.iter().all(|p| p.goroutines >= rest as u64));
    }
}
