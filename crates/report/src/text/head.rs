//! What ran, and how parallel it was.

use convoy_analysis::counters::Parallelism;
use convoy_model::{kernel_share, Model, Object, ProcessId};
use convoy_profile::{Exit, Meta, ObjectKind};

use super::critical;
use super::page::{plain, toned, Page, Tone};
use crate::human::{count, count_of, duration, few, percent};
use crate::{names, subject, verdict, Report};

const LABEL: usize = 9;

/// Share of the CPU time from which on it is a reason to look what system calls are made.
const HIGH_KERNEL_SHARE: f64 = 0.2;

/// The lines above the findings, the verdict included.
pub fn write(page: &mut Page, report: &Report<'_>) {
    run(page, report);
    if let Some(row) = report.critical.map(|c| &c.parallelism) {
        critical::parallelism::head(page, row, LABEL);
    }
    if let Some(main) = most_telling(report) {
        parallelism(page, report, main);
    }
    unexplained(page, report);
    page.gap();
    verdict(page, report);
}

/// What is wrong, or that nothing is.
pub fn verdict(page: &mut Page, report: &Report<'_>) {
    let verdict = verdict::of(report);
    if !verdict.is_empty() {
        let verdict = vec![toned(Tone::Strong, verdict)];
        page.hang(0, toned(Tone::Title, "Verdict"), LABEL, verdict);
    }
}

/// Reasons to look further, also where there is a finding: it may be about something else.
pub fn unexplained(page: &mut Page, report: &Report<'_>) {
    let analysis = report.analysis;
    // Without one the verdict says it.
    if analysis.unexplained.is_empty() || analysis.findings.is_empty() {
        return;
    }
    let texts: Vec<_> = analysis.unexplained.iter().map(|e| &*e.text).collect();
    let text = format!(
        "what explains {}: {}",
        texts.join(", "),
        analysis.sources.remedy.text()
    );
    page.hang(0, toned(Tone::Warn, "not seen"), LABEL, vec![plain(text)]);
}

/// The command, the machine, and how it ended.
pub fn run(page: &mut Page, report: &Report<'_>) {
    let meta = &report.model.meta;
    let command = names::clip(&meta.command.join(" "), page.width() * 2);
    page.hang(
        0,
        toned(Tone::Title, "convoy"),
        LABEL,
        vec![toned(Tone::Strong, command)],
    );

    let machine = &meta.machine;
    let mut cpus = count_of(machine.cpus_allowed.into(), "CPU", "CPUs");
    if machine.cpus_online > machine.cpus_allowed {
        cpus += &format!(" (of {})", machine.cpus_online);
    }
    let wall = duration(meta.end_ns.saturating_sub(meta.start_ns) as f64);
    let threads = report.model.threads.len() as u64;
    let mut facts = vec![format!("{wall} on {cpus}")];
    // A session keeps threads by their curves only.
    if report.model.live_curves.is_none() {
        facts.push(count_of(threads, "thread", "threads"));
    }
    if report.model.processes.len() > 1 {
        facts.push(format!("{} processes", report.model.processes.len()));
    }
    let mut line = vec![plain(facts.join(page.dot()))];
    line.push(plain(page.dot()));
    line.push(exit(meta));
    page.hang(0, plain("ran"), LABEL, line);
}

fn exit(meta: &Meta) -> super::page::Span {
    match meta.exit {
        Exit::Status(0) => plain("exit status 0"),
        Exit::Status(status) => toned(Tone::Warn, format!("exit status {status}")),
        Exit::Signal(signal) => toned(Tone::Bad, format!("killed by {}", signal_name(signal))),
        // Nobody but its parent learns with which status a process ends.
        Exit::Running if meta.all_ended() => plain("ended"),
        Exit::Running => plain("still running"),
        Exit::Unknown => toned(Tone::Warn, "end not seen"),
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return format!("signal {signal}"),
    };
    name.into()
}

/// The process of the first finding, else the one that ran most.
fn most_telling<'a>(report: &Report<'a>) -> Option<&'a Parallelism> {
    let rows = &report.analysis.parallelism;
    let wanted: Option<ProcessId> = report
        .analysis
        .findings
        .first()
        .and_then(|finding| subject::process(report.model, finding));
    rows.iter()
        .find(|row| Some(row.process) == wanted)
        .or_else(|| {
            rows.iter()
                .max_by_key(|row| (row.cpu_ns, row.thread_time_ns))
        })
}

fn parallelism(page: &mut Page, report: &Report<'_>, row: &Parallelism) {
    let several = report.analysis.parallelism.len() > 1;
    let all = report.critical.map(|critical| &critical.parallelism);
    let all = all.filter(|all| several && all.cpus > 0);
    if let Some(all) = all {
        // Of all processes together; what follows is of one.
        cpus(page, report.model, all.running_mean, all.cpus);
    }
    if several {
        if let Some(process) = report.model.processes.get(row.process.0 as usize) {
            let text = format!(
                "{} (pid {}), {} of {}",
                process.name,
                process.pid,
                count_of(row.threads as u64, "thread", "threads"),
                count(report.model.threads.len() as u64)
            );
            page.hang(0, plain("here"), LABEL, vec![plain(text)]);
        }
    }
    if all.is_none() && row.cpus > 0 {
        cpus(page, report.model, row.cpus_busy, row.cpus);
    }
    let process = report.model.processes.get(row.process.0 as usize);
    let seen = Seen {
        agent: !process.is_some_and(|p| p.without_agent),
        scheduler: report.critical.is_some(),
    };
    page.hang(0, plain("threads"), LABEL, thread_time(page, row, seen));
    let locks = if seen.agent {
        lock_totals(report, row.process)
    } else {
        "not seen: this process carries no agent".into()
    };
    page.hang(0, plain("locks"), LABEL, vec![plain(locks)]);
    if let Some(critical) = report.critical {
        critical::reasons::head(page, &critical.reasons, LABEL);
    }
}

/// `model`: of whose run the kernel's share is said; it is counted of all processes together.
fn cpus(page: &mut Page, model: &Model, busy: f64, of: u32) {
    let ratio = (busy / f64::from(of)).min(1.0);
    let (bar, busy, share) = (page.bar(ratio, 20), few(busy), percent(ratio));
    let text = format!("{bar}  {busy} of {of} busy on average ({share})");
    let mut spans = vec![plain(text)];
    if let Some(kernel) = kernel_share(model) {
        let tone = match kernel >= HIGH_KERNEL_SHARE {
            true => Tone::Warn,
            false => Tone::Plain,
        };
        spans.push(plain(page.dot()));
        let text = format!("{} of it in the kernel", percent(kernel));
        spans.push(toned(tone, text));
    }
    page.hang(0, plain("CPUs"), LABEL, spans);
}

/// Who saw the threads of a process.
#[derive(Debug, Clone, Copy)]
struct Seen {
    agent: bool,
    scheduler: bool,
}

/// Where the threads' time went, largest part first; the parts add up to the whole.
fn thread_time(page: &Page, row: &Parallelism, seen: Seen) -> Vec<super::page::Span> {
    let total = row.thread_time_ns.max(1) as f64;
    // A thread that was woken but has no CPU yet is in its wait and runnable at once. Here it counts
    // as waiting: without the wait it would not have given up the CPU.
    let waits = row.lock_wait_ns + row.event_wait_ns + row.idle_wait_ns;
    let others = row.cpu_ns + waits + row.off_cpu_ns;
    // What a thread runs in a wait, in the kernel and in looking again, is running.
    let run_in_waits = others.saturating_sub(row.thread_time_ns).min(waits);
    let asleep = 1.0 - run_in_waits as f64 / waits.max(1) as f64;
    let asleep = |ns: u64| (ns as f64 * asleep) as u64;
    let runnable = row
        .thread_time_ns
        .saturating_sub(others)
        .min(row.run_delay_ns.unwrap_or(0));
    // Only the agent tells waits for locks from the others. Where the scheduler tells, the line on it does.
    let off_cpu = match (seen.agent, seen.scheduler) {
        (true, false) => "in I/O or asleep",
        (true, true) => "otherwise blocked",
        (false, _) => "blocked",
    };
    let mut parts = vec![
        (row.cpu_ns, "running", Tone::Plain),
        (runnable, "runnable without a CPU", Tone::Plain),
        (asleep(row.lock_wait_ns), "waiting for locks", Tone::Bad),
        (
            asleep(row.event_wait_ns),
            "waiting for slower threads",
            Tone::Bad,
        ),
        (asleep(row.idle_wait_ns), "idle", Tone::Plain),
        (row.off_cpu_ns, off_cpu, Tone::Plain),
    ];
    parts.sort_by_key(|(ns, ..)| std::cmp::Reverse(*ns));
    let mut spans = vec![toned(Tone::Dim, format!("{} in all: ", duration(total)))];
    for (ns, what, tone) in parts {
        let share = ns as f64 / total;
        if share < 0.005 {
            continue;
        }
        if spans.len() > 1 {
            spans.push(plain(page.dot()));
        }
        let tone = if share < 0.05 { Tone::Plain } else { tone };
        spans.push(toned(tone, format!("{} {what}", percent(share))));
    }
    spans
}

/// Says that locks were seen also when nothing is wrong with them.
pub(super) fn lock_totals(report: &Report<'_>, process: ProcessId) -> String {
    let rows = report.analysis.locks.iter().filter(|row| {
        report
            .model
            .objects
            .get(row.object.0 as usize)
            .is_some_and(|o| o.process == process)
    });
    let (mut locks, mut acquisitions, mut contended, mut wait_ns, mut hidden) = (0, 0, 0, 0, 0u64);
    let (mut tries, mut failed) = (0, 0);
    for row in rows {
        locks += 1;
        wait_ns += row.stats.wait_ns;
        contended += row.stats.contended;
        tries += row.stats.try_calls;
        failed += row.stats.try_failed;
        // Of raw futexes only the calls that had to wait are seen.
        if row.stats.contention_ratio.is_some() {
            acquisitions += row.stats.acquisitions;
        } else if row.stats.try_calls == 0 {
            hidden += 1;
        }
    }
    if locks == 0 {
        // Rust's are words that nobody sees until a thread has to wait.
        let is_own = |o: &Object| o.process == process && o.kind == ObjectKind::Futex;
        return match report.model.objects.iter().any(is_own) {
            true => "seen only where threads wait: inlined locks".into(),
            // Those of the C library itself, and inlined ones that nobody waits at, are not seen.
            false => "no pthread lock was used".into(),
        };
    }
    let on = count_of(locks, "lock", "locks");
    let mut text = match acquisitions {
        0 if hidden > 0 => format!("{} contended acquisitions on {on}", count(contended)),
        0 if tries > 0 => String::new(),
        n => format!(
            "{} contended of {} on {on}",
            count(contended),
            count_of(n, "acquisition", "acquisitions")
        ),
    };
    if tries > 0 {
        let (tried, share) = (
            count_of(tries, "trylock", "trylocks"),
            failed as f64 / tries as f64,
        );
        text += match text.is_empty() {
            true => "",
            false => ", ",
        };
        text += &format!("{tried} ({} failed)", percent(share));
        if acquisitions == 0 && hidden == 0 {
            text += &format!(" on {on}");
        }
    }
    if wait_ns > 0 {
        text += &format!(", {} waited", duration(wait_ns as f64));
    }
    if hidden > 0 {
        text += &format!(" ({} with only the contended calls visible)", count(hidden));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_attached_to_and_has_ended_does_not_run_any_more() {
        let said = |notes: &[&str]| {
            let meta = Meta {
                exit: Exit::Running,
                notes: notes.iter().map(|&note| note.into()).collect(),
                ..Meta::default()
            };
            format!("{:?}", exit(&meta))
        };
        assert!(said(&[]).contains("\"still running\""));
        assert!(said(&["another", convoy_profile::ALL_ENDED]).contains("\"ended\""));
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(signal_name(11), "SIGSEGV");
        assert_eq!(signal_name(42), "signal 42");
    }
}
