//! `convoy doctor`: what can be seen here, and how to see more.

use std::fmt::Write as _;
use std::io::Write as _;

use convoy_capture::doctor::{facts, Facts, ProgramFacts, Sources};
use convoy_capture::{ErrorKind, Refusal, Trouble};
use convoy_report::human::{bytes, duration};

use crate::args::Doctor;
use crate::exit::Status;
use crate::message::Message;

/// Prints the findings; fails if nothing can be recorded here.
pub fn doctor(doctor: &Doctor) -> Status {
    let program = (!doctor.program.is_empty()).then_some(doctor.program.as_slice());
    let facts = match facts(program) {
        Ok(facts) => facts,
        Err(error) => {
            Message::from(error.trouble()).print();
            return Status::Failure;
        }
    };
    let (text, works) = describe(&facts);
    // Whoever read it has seen enough.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    if works {
        Status::Success
    } else {
        Status::Failure
    }
}

/// One fact: good, worth knowing, or in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Good,
    Limit,
    Bad,
}

#[derive(Debug, Default)]
struct Sheet {
    text: String,
    bad: bool,
}

impl Sheet {
    fn title(&mut self, title: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{title}");
    }

    fn fact(&mut self, mark: Mark, fact: &str, fix: &str) {
        let sign = match mark {
            Mark::Good => "ok   ",
            Mark::Limit => "limit",
            Mark::Bad => "FAIL ",
        };
        self.bad |= mark == Mark::Bad;
        let fact: String = fact
            .chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect();
        let _ = writeln!(self.text, "  {sign}  {fact}");
        if !fix.is_empty() {
            let _ = writeln!(self.text, "         fix: {fix}");
        }
    }

    fn trouble(&mut self, mark: Mark, trouble: &Trouble) {
        let text = format!("{}: {}", trouble.found, trouble.effect);
        self.fact(mark, &text, &trouble.fix);
    }
}

/// The text, and whether recording works.
fn describe(facts: &Facts) -> (String, bool) {
    let mut sheet = Sheet::default();
    machine(&mut sheet, facts);
    recording(&mut sheet, facts);
    scheduler(&mut sheet, facts);
    if let Some(program) = &facts.program {
        about_program(&mut sheet, program, &facts.sources);
    }
    leftovers(&mut sheet, facts);
    sheet.title(if sheet.bad {
        "convoy cannot record here: see FAIL above."
    } else {
        "convoy can record here."
    });
    (sheet.text, !sheet.bad)
}

fn machine(sheet: &mut Sheet, facts: &Facts) {
    let m = &facts.machine;
    sheet.title("Machine");
    let cpus = if m.cpus_allowed < m.cpus_online {
        format!("{} of {} CPUs may be used", m.cpus_allowed, m.cpus_online)
    } else {
        format!("{} CPUs", m.cpus_online)
    };
    let text = format!(
        "{cpus}, {}, {}, kernel {}, {}",
        m.cpu_model,
        bytes(m.memory_bytes),
        m.kernel,
        m.libc
    );
    let mark = if m.cpus_allowed == 1 {
        Mark::Limit
    } else {
        Mark::Good
    };
    let fix = if m.cpus_allowed == 1 {
        "with one CPU nothing runs in parallel: gains are small, and waits are mostly preemption"
    } else {
        ""
    };
    sheet.fact(mark, &text, fix);
    if facts.cycle_counter {
        sheet.fact(
            Mark::Good,
            "the processor's cycle counter is a steady clock: times cost 10 ns",
            "",
        );
    } else {
        sheet.fact(
            Mark::Limit,
            "the processor's cycle counter is not steady: times come from the kernel, 20-50 ns each",
            "",
        );
    }
    if m.mutex_pair_ns > 0.0 {
        let text = format!(
            "an uncontended lock and unlock takes {}",
            duration(m.mutex_pair_ns)
        );
        sheet.fact(Mark::Good, &text, "");
    }
    for sign in &facts.container {
        sheet.fact(Mark::Limit, &format!("this is a container: {sign}"), "");
    }
}

fn recording(sheet: &mut Sheet, facts: &Facts) {
    sheet.title("Locks and threads: the agent (no rights needed)");
    match &facts.agent {
        Ok(path) => sheet.fact(
            Mark::Good,
            &format!("agent ready at {}", path.display()),
            "",
        ),
        Err(trouble) => sheet.trouble(Mark::Bad, trouble),
    }
    let mut usable = 0;
    for place in &facts.places {
        let kind = if place.in_memory {
            "memory"
        } else {
            "disk: slower"
        };
        let dir = place.dir.display();
        if place.writable {
            usable += 1;
            let small = place.free_bytes < 64 << 20;
            let mark = if small { Mark::Limit } else { Mark::Good };
            let fix = if small {
                "free some of it; many locks and threads need more"
            } else {
                ""
            };
            let text = format!(
                "sessions may be in {dir} ({kind}, {} free)",
                bytes(place.free_bytes)
            );
            sheet.fact(mark, &text, fix);
        } else {
            sheet.fact(
                Mark::Limit,
                &format!("{dir} is missing or not writable"),
                "",
            );
        }
    }
    if usable == 0 {
        sheet.fact(
            Mark::Bad,
            "no directory for the recording",
            "make /dev/shm or TMPDIR writable",
        );
    }
}

fn about_program(sheet: &mut Sheet, program: &ProgramFacts, sources: &Sources) {
    sheet.title(&format!("Program {}", program.path.display()));
    if let Some(elf) = program
        .elf_path
        .as_ref()
        .filter(|elf| **elf != program.path)
    {
        sheet.fact(
            Mark::Good,
            &format!("a script; what runs is {}", elf.display()),
            "",
        );
    }
    match &program.refusal {
        Some(refusal) => {
            let gains_rights = refusal.kind() == ErrorKind::Refused(Refusal::Privileged);
            // As when it is recorded: the scheduler's events are enough.
            let seen = sources.bpf.is_ok() || (sources.perf.is_ok() && !gains_rights);
            if seen {
                sheet.trouble(Mark::Limit, refusal.trouble());
                sheet.fact(
                    Mark::Good,
                    "its scheduler events are recorded without the agent",
                    "",
                );
            } else {
                sheet.trouble(Mark::Bad, refusal.trouble());
            }
        }
        None => sheet.fact(Mark::Good, "the loader will load the agent into it", ""),
    }
    if !program.uses_threads {
        sheet.fact(
            Mark::Limit,
            "it does not import thread functions itself; a library or child may",
            "",
        );
    }
    match (
        &program.debug_file,
        program.debug_info,
        program.symbol_table,
    ) {
        (Some(file), ..) => {
            sheet.fact(
                Mark::Good,
                &format!("functions and lines, from {}", file.display()),
                "",
            );
        }
        (None, true, _) => sheet.fact(Mark::Good, "functions and lines", ""),
        (None, false, true) => sheet.fact(
            Mark::Limit,
            "functions, but no lines",
            "compile with -g, or install its debug symbols (-dbgsym, -debuginfo)",
        ),
        (None, false, false) => sheet.fact(
            Mark::Limit,
            "stripped: only exported functions have names",
            &format!(
                "compile with -g, or install its debug symbols (build-id {})",
                if program.build_id.is_empty() {
                    "missing"
                } else {
                    &program.build_id
                }
            ),
        ),
    }
}

/// Where scheduler events come from, what is lost with that, and the one thing that enables more.
fn scheduler(sheet: &mut Sheet, facts: &Facts) {
    let Sources { bpf, perf, limits } = &facts.sources;
    sheet.title("Scheduler: what runs while others wait, in any language");
    match bpf {
        Ok(()) => {
            sheet.fact(Mark::Good, "eBPF: switches, wake-ups, reasons, samples", "");
            for trouble in limits {
                sheet.trouble(Mark::Limit, trouble);
            }
            sheet.fact(
                Mark::Good,
                "running processes (-p, --cgroup): all, also of other users",
                "",
            );
        }
        Err(no_bpf) => {
            let mut fix = no_bpf.fix.clone();
            if facts.uid != 0 {
                fix += "; or for all who may run this file, once: \
                        sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep \"$(command -v convoy)\"";
            }
            sheet.fact(Mark::Limit, &format!("no eBPF: {}", no_bpf.found), &fix);
            without_bpf(sheet, perf);
        }
    }
    if facts.seccomp {
        sheet.fact(
            Mark::Limit,
            "a filter of system calls (seccomp) is active: some may be refused",
            "",
        );
    }
}

fn without_bpf(sheet: &mut Sheet, perf: &Result<(), Trouble>) {
    match perf {
        Ok(()) => {
            let lost = Sources::LOST_WITH_PERF;
            let text = format!("perf events instead: switches and samples; not known: {lost}");
            sheet.fact(Mark::Good, &text, "");
            let text =
                "running processes (-p, --cgroup): your own, and none that has gained rights";
            sheet.fact(Mark::Good, text, "");
        }
        Err(no_perf) => {
            let text = format!("no perf events either: {}", no_perf.found);
            sheet.fact(Mark::Limit, &text, &no_perf.fix);
            let text = format!("not known: {}", Sources::LOST_WITHOUT);
            sheet.fact(Mark::Limit, &text, "");
            let text = "running processes (-p, --cgroup) cannot be recorded";
            sheet.fact(Mark::Limit, text, "");
        }
    }
}

fn leftovers(sheet: &mut Sheet, facts: &Facts) {
    if facts.leftovers.is_empty() {
        return;
    }
    sheet.title("Left by convoys that were killed");
    for left in &facts.leftovers {
        let dir = left.dir.display();
        let text = format!("{dir}: {} ({})", left.command.join(" "), bytes(left.bytes));
        sheet.fact(Mark::Limit, &text, &format!("convoy recover {dir}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(bpf: bool, perf: bool, uid: u32) -> Facts {
        let refused = |what: &str, works: bool| match works {
            true => Ok(()),
            false => Err(Trouble::new(
                format!("{what} is forbidden"),
                "bad",
                format!("allow {what}"),
            )),
        };
        Facts {
            machine: convoy_profile::Machine::default(),
            cycle_counter: true,
            uid,
            places: Vec::new(),
            agent: Ok("/agent".into()),
            sources: Sources {
                bpf: refused("bpf()", bpf),
                perf: refused("perf", perf),
                limits: vec![Trouble::new("no timers", "no samples", "allow timers")],
            },
            seccomp: false,
            container: Vec::new(),
            leftovers: Vec::new(),
            program: None,
        }
    }

    fn said(facts: &Facts) -> String {
        let mut sheet = Sheet::default();
        scheduler(&mut sheet, facts);
        assert!(!sheet.bad, "locks are recorded all the same");
        sheet.text
    }

    #[test]
    fn the_best_source_is_told_with_what_it_lacks() {
        let best = said(&facts(true, true, 0));
        assert!(best.contains("ok     eBPF"), "{best}");
        assert!(
            best.contains("no timers: no samples\n         fix: allow timers"),
            "{best}"
        );
        assert!(
            !best.contains("forbidden") && !best.contains("setcap"),
            "{best}"
        );
    }

    #[test]
    fn what_is_lost_without_rights_has_a_way_back() {
        let perf = said(&facts(false, true, 1000));
        assert!(perf.contains("bpf() is forbidden"), "{perf}");
        assert!(perf.contains("allow bpf(); or for all"), "{perf}");
        assert!(perf.contains(Sources::LOST_WITH_PERF), "{perf}");
        assert!(perf.contains("your own"), "{perf}");
        let root = said(&facts(false, true, 0));
        assert!(!root.contains("setcap"), "it would change nothing: {root}");
    }

    #[test]
    fn without_any_source_no_running_process_can_be_recorded() {
        let none = said(&facts(false, false, 1000));
        assert!(none.contains("perf is forbidden"), "{none}");
        assert!(none.contains(Sources::LOST_WITHOUT), "{none}");
        assert!(none.contains("(-p, --cgroup) cannot be recorded"), "{none}");
    }

    #[test]
    fn a_program_without_the_agent_is_judged_by_the_sources() {
        let judged = |kind, sources: &Sources| {
            let refusal = Trouble::new("it is static", "no agent", "link it");
            let program = ProgramFacts {
                path: "/bin/x".into(),
                elf_path: None,
                refusal: Some(convoy_capture::Error::new(
                    ErrorKind::Refused(kind),
                    refusal,
                )),
                uses_threads: true,
                debug_info: true,
                symbol_table: true,
                build_id: String::new(),
                debug_file: None,
            };
            let mut sheet = Sheet::default();
            about_program(&mut sheet, &program, sources);
            sheet.bad
        };
        for (bpf, perf, fails, fails_with_rights) in [
            (true, true, false, false),
            (false, true, false, true),
            (false, false, true, true),
        ] {
            let sources = facts(bpf, perf, 0).sources;
            assert_eq!(judged(Refusal::Static, &sources), fails);
            assert_eq!(judged(Refusal::Privileged, &sources), fails_with_rights);
        }
    }
}
