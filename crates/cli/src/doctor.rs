//! `convoy doctor`: what can be seen here, and how to see more.

use std::fmt::Write as _;
use std::io::Write as _;

use convoy_capture::doctor::{facts, Facts, Kernel, ProgramFacts};
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
}

/// The text, and whether recording works.
fn describe(facts: &Facts) -> (String, bool) {
    let mut sheet = Sheet::default();
    machine(&mut sheet, facts);
    recording(&mut sheet, facts);
    if let Some(program) = &facts.program {
        about_program(&mut sheet, program);
    }
    more(&mut sheet, &facts.kernel, facts.uid);
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
    sheet.title("Recording (no rights needed)");
    match &facts.agent {
        Ok(path) => sheet.fact(
            Mark::Good,
            &format!("agent ready at {}", path.display()),
            "",
        ),
        Err(trouble) => {
            sheet.fact(
                Mark::Bad,
                &format!("{}: {}", trouble.found, trouble.effect),
                &trouble.fix,
            );
        }
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

fn about_program(sheet: &mut Sheet, program: &ProgramFacts) {
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
            let trouble = refusal.trouble();
            sheet.fact(
                Mark::Bad,
                &format!("{}: {}", trouble.found, trouble.effect),
                &trouble.fix,
            );
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

/// What later tiers would need. Nothing of it is needed to record.
fn more(sheet: &mut Sheet, kernel: &Kernel, uid: u32) {
    sheet.title("Kernel (not needed for locks and threads)");
    let root = uid == 0;
    let bpf = root
        || kernel
            .capabilities
            .iter()
            .any(|c| *c == "CAP_BPF" || *c == "CAP_SYS_ADMIN");
    let btf = if kernel.btf { "with" } else { "without" };
    if bpf {
        sheet.fact(
            Mark::Good,
            &format!("BPF programs are allowed, kernel {btf} type information"),
            "",
        );
    } else {
        sheet.fact(
            Mark::Limit,
            "BPF programs need root: static and Go programs cannot be seen",
            "",
        );
    }
    if let Some(level) = kernel.perf_event_paranoid {
        let (mark, fix) = if level <= 2 || root {
            (Mark::Good, "")
        } else {
            (Mark::Limit, "sudo sysctl kernel.perf_event_paranoid=2")
        };
        sheet.fact(mark, &format!("kernel.perf_event_paranoid is {level}"), fix);
    }
    if let Some(scope) = kernel.ptrace_scope {
        sheet.fact(
            Mark::Good,
            &format!("kernel.yama.ptrace_scope is {scope}"),
            "",
        );
    }
    if kernel.seccomp {
        sheet.fact(
            Mark::Limit,
            "a seccomp filter is active: some system calls may be refused",
            "",
        );
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
