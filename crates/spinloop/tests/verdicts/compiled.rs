//! Loops of known nature, compiled by gcc and clang.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;

use convoy_spinloop::{judge_with, Verdict, Why};
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};

/// Which compiler of a pair, and its flags. More of them find nothing new and take a minute.
const WAYS: [(usize, &[&str]); 3] = [
    (0, &["-O0", "-fPIC", "-fno-omit-frame-pointer"]),
    (0, &["-O2", "-fcf-protection"]),
    (1, &["-O2"]),
];

/// A function: where it is, and its section's code and relocated calls.
struct Function {
    name: String,
    start: u64,
    end: u64,
}

struct Compiled {
    functions: Vec<Function>,
    code: Vec<u8>,
    base: u64,
    /// Names by the address right behind a call's operand.
    callees: HashMap<u64, String>,
}

fn have(compiler: &str) -> bool {
    let there = Command::new(compiler).arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped: no {compiler} here");
    }
    there
}

fn compile(compiler: &str, flags: &[&str], source: &str) -> Compiled {
    let dir = tempfile::tempdir().expect("a directory");
    let object = dir.path().join("a.o");
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/verdicts/programs")
        .join(source);
    let out = Command::new(compiler)
        .args(["-w", "-c", "-o"])
        .arg(&object)
        .args(flags)
        .arg(&source)
        .output()
        .expect("the compiler starts");
    assert!(
        out.status.success(),
        "{compiler}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    let bytes = std::fs::read(&object).expect("an object");
    let file = object::File::parse(&*bytes).expect("an object");
    let text = file.section_by_name(".text").expect("code");
    let mut callees = HashMap::new();
    for (at, relocation) in text.relocations() {
        if let RelocationTarget::Symbol(index) = relocation.target() {
            let symbol = file.symbol_by_index(index).expect("a symbol");
            callees.insert(at + 4, symbol.name().unwrap_or_default().to_owned());
        }
    }
    let functions = file
        .symbols()
        .filter(|s| s.kind() == SymbolKind::Text && s.section_index() == Some(text.index()))
        .map(|s| Function {
            name: s.name().unwrap_or_default().to_owned(),
            start: s.address(),
            end: s.address() + s.size(),
        })
        .collect();
    Compiled {
        functions,
        code: text.data().expect("code").to_vec(),
        base: text.address(),
        callees,
    }
}

impl Compiled {
    fn judge(&self, ip: u64) -> Verdict {
        judge_with(&self.code, self.base, ip, &|at| {
            self.callees.get(&at).cloned()
        })
    }

    /// The instructions of a function; with whether one lies between a backward branch and its target.
    fn instructions(&self, f: &Function) -> BTreeMap<u64, bool> {
        let code = &self.code[(f.start - self.base) as usize..(f.end - self.base) as usize];
        let all: Vec<_> = Decoder::with_ip(64, code, f.start, DecoderOptions::NONE)
            .iter()
            .collect();
        let branches = all.iter().filter(|i| {
            matches!(
                i.flow_control(),
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
            ) && i.near_branch_target() <= i.ip()
                && i.near_branch_target() >= f.start
        });
        let ranges: Vec<(u64, u64)> = branches.map(|i| (i.near_branch_target(), i.ip())).collect();
        all.iter()
            .map(|i| {
                (
                    i.ip(),
                    ranges.iter().any(|(lo, hi)| (*lo..=*hi).contains(&i.ip())),
                )
            })
            .collect()
    }
}

/// Waiting loops that are not known as such: unrolled or spread too widely. None of them is said to work.
fn is_missed(compiler: &str, function: &str) -> bool {
    compiler.starts_with("clang") && matches!(function, "w_ticket_backoff" | "w_weak")
}

/// Without optimisation the variables of a loop around loops are in memory, where they are not followed.
fn is_out_of_reach(flags: &[&str], function: &str) -> bool {
    flags.contains(&"-O0") && ["w_redis_main", "w_least"].contains(&function)
}

/// Judges every instruction of every loop; what went wrong, and how many functions there were.
fn check_waits(compiler: &str, flags: &[&str], source: &str) -> (Vec<String>, usize) {
    let compiled = compile(compiler, flags, source);
    let mut wrong = Vec::new();
    let functions: Vec<_> = compiled
        .functions
        .iter()
        .filter(|f| f.name.starts_with("w_") && !is_out_of_reach(flags, &f.name))
        .collect();
    for f in &functions {
        let mut found = 0;
        for (ip, _) in compiled
            .instructions(f)
            .into_iter()
            .filter(|(_, inside)| *inside)
        {
            match compiled.judge(ip) {
                Verdict::Waits(l) => {
                    assert!(l.lo <= l.hi && l.lo >= f.start && l.hi < f.end, "{l:?}");
                    assert!(!l.evidence.is_empty());
                    match f.name.as_str() {
                        "w_locked" => assert!(l.awaits_memory, "{flags:?} {l:?}"),
                        "w_rest_of_sleep" => assert!(!l.awaits_memory, "{flags:?} {l:?}"),
                        _ => {}
                    }
                    found += 1;
                }
                // Between the branch and its target, but on a way out.
                Verdict::Unknown(Why::NoLoop) => {}
                Verdict::Unknown(_) if is_missed(compiler, &f.name) => {}
                other => wrong.push(format!(
                    "{compiler} {flags:?} {}+{:#x}: {other:?}",
                    f.name,
                    ip - f.start
                )),
            }
        }
        if found < 2 && !is_missed(compiler, &f.name) {
            wrong.push(format!(
                "{compiler} {flags:?} {}: {found} instructions wait",
                f.name
            ));
        }
    }
    (wrong, functions.len())
}

fn check_works(compiler: &str, flags: &[&str], source: &str) -> (Vec<String>, usize) {
    let compiled = compile(compiler, flags, source);
    let mut wrong = Vec::new();
    let functions: BTreeSet<_> = compiled.functions.iter().map(|f| f.name.as_str()).collect();
    for f in &compiled.functions {
        for (ip, _) in compiled.instructions(f) {
            if let Verdict::Waits(l) = compiled.judge(ip) {
                wrong.push(format!(
                    "{compiler} {flags:?} {}+{:#x}: {l:?}",
                    f.name,
                    ip - f.start
                ));
            }
        }
    }
    (wrong, functions.len())
}

fn all_levels(
    compilers: [&str; 2],
    check: impl Fn(&str, &[&str]) -> (Vec<String>, usize),
    least: usize,
) {
    let mut wrong = Vec::new();
    for (which, flags) in WAYS {
        let compiler = compilers[which];
        if have(compiler) {
            let (w, functions) = check(compiler, flags);
            assert!(functions >= least, "{functions} functions");
            wrong.extend(w);
        }
    }
    assert!(wrong.is_empty(), "{}: {:#?}", wrong.len(), wrong);
}

#[test]
fn waiting_loops_in_c_are_found() {
    all_levels(["gcc", "clang"], |c, f| check_waits(c, f, "waits.c"), 40);
}

#[test]
fn waiting_loops_in_cpp_are_found() {
    all_levels(
        ["g++", "clang++"],
        |c, f| check_waits(c, f, "waits.cpp"),
        10,
    );
}

#[test]
fn working_loops_never_wait() {
    all_levels(["gcc", "clang"], |c, f| check_works(c, f, "works.c"), 60);
}
