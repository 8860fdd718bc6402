//! Every instruction of libraries as they are installed: almost nothing waits in them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use convoy_spinloop::{judge, Verdict};
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use object::{Object, ObjectSection, ObjectSymbol, SectionKind};

/// The waiting loops of a library: by first and last address, with the function.
fn waiting_loops(path: &str, step: usize) -> Option<BTreeMap<(u64, u64), String>> {
    let bytes = std::fs::read(Path::new(path)).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let mut symbols: Vec<(u64, u64, &str)> = file
        .dynamic_symbols()
        .chain(file.symbols())
        .filter(|s| s.size() > 0)
        .filter_map(|s| Some((s.address(), s.address() + s.size(), s.name().ok()?)))
        .collect();
    symbols.sort_unstable();
    let mut found = BTreeMap::new();
    for section in file.sections().filter(|s| s.kind() == SectionKind::Text) {
        let (base, code) = (section.address(), section.data().ok()?);
        for ip in in_small_loops(code, base).into_iter().step_by(step) {
            let at = (ip - base) as usize;
            let from = at.saturating_sub(2048);
            let near = &code[from..code.len().min(at + 2048)];
            if let Verdict::Waits(l) = judge(near, base + from as u64, ip) {
                let function = symbols.iter().rfind(|s| s.0 <= ip && ip < s.1);
                let name = function.map_or("?", |s| s.2);
                let text = format!("{name}: {:?}: {}", l.kind, l.evidence);
                found.insert((l.lo, l.hi), text);
            }
        }
    }
    Some(found)
}

/// Instructions between a branch and its target at most 256 bytes before.
fn in_small_loops(code: &[u8], base: u64) -> BTreeSet<u64> {
    let mut starts: Vec<u64> = Vec::new();
    let mut inside = BTreeSet::new();
    for instr in &mut Decoder::with_ip(64, code, base, DecoderOptions::NONE) {
        starts.push(instr.ip());
        let branches = matches!(
            instr.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        let to = instr.near_branch_target();
        if branches && to <= instr.ip() && instr.ip() - to <= 256 {
            inside.extend(starts.iter().rev().take_while(|&&s| s >= to));
        }
    }
    inside
}

#[test]
#[ignore = "for people: prints every waiting loop of the libraries named in LIBRARIES"]
fn loops_of_libraries() {
    let libraries = std::env::var("LIBRARIES").expect("LIBRARIES=/lib/a.so:/lib/b.so");
    for path in libraries.split(':') {
        let began = std::time::Instant::now();
        let found = waiting_loops(path, 1).expect("a library");
        println!("{path}: {} in {:?}", found.len(), began.elapsed());
        for ((lo, hi), text) in found {
            println!("  {lo:#x}..{hi:#x} {text}");
        }
    }
}

/// Only locks, and little else: a rule that lets work pass would find hundreds among its thousands of loops.
#[test]
fn little_of_libc_waits() {
    let Some(found) = waiting_loops("/lib/x86_64-linux-gnu/libc.so.6", 3) else {
        eprintln!("skipped: no libc here");
        return;
    };
    let polling = found.values().filter(|t| t.contains(": Polling:")).count();
    assert!(found.len() >= 5 && found.len() <= 40, "{found:#?}");
    assert!(polling <= 15, "{found:#?}");
    assert!(
        !found
            .values()
            .any(|t| t.starts_with("mem") || t.starts_with("str")),
        "{found:#?}"
    );
}
