//! Damaged arenas: whatever stands in one, what is read of it is consistent.

use std::collections::HashMap;

use convoy_profile::{Memory, Process};

use super::{latest_ns, read, sample, Context};

/// Every index of a process must be valid, whatever it was read from.
fn check(p: &Process) {
    let (modules, frames, stacks) = (p.modules.len(), p.frames.len(), p.stacks.len());
    let (threads, objects) = (p.threads.len(), p.objects.len());
    assert!(p.stacks[0].is_empty() && p.end_ns >= p.start_ns);
    assert!(p
        .frames
        .iter()
        .all(|f| f.module.is_none_or(|m| (m as usize) < modules)));
    assert!(p.stacks.iter().flatten().all(|f| (*f as usize) < frames));
    for t in &p.threads {
        assert!(
            (t.create_stack as usize) < stacks && t.start.is_none_or(|f| (f as usize) < frames)
        );
        assert!(t.end_ns >= t.start_ns);
    }
    for o in &p.objects {
        assert!(
            (o.init_stack as usize) < stacks && o.module.is_none_or(|m| (m as usize) < modules)
        );
        assert!(!matches!(o.memory, Memory::Stack(t) if t as usize >= threads));
    }
    for c in &p.counts {
        assert!(
            (c.object as usize) < objects
                && (c.frame as usize) < frames
                && (c.thread as usize) < threads
        );
    }
    for u in &p.unattributed {
        assert!((u.frame as usize) < frames && (u.thread as usize) < threads);
    }
    for d in &p.details {
        assert!(
            (d.object as usize) < objects
                && (d.stack as usize) < stacks
                && (d.thread as usize) < threads
        );
    }
    for x in &p.pairs {
        assert!(
            (x.object as usize) < objects
                && (x.stack as usize) < stacks
                && (x.thread as usize) < threads
        );
        assert!(x.peer.is_none_or(|t| (t as usize) < threads) && (x.peer_stack as usize) < stacks);
        assert!(x.peer_frame.is_none_or(|f| (f as usize) < frames));
    }
}

#[test]
fn random_damage_is_survived() {
    let (builder, _) = sample();
    let good = builder.finish();
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    // Most of the arena is empty: aim at what is not.
    let targets: Vec<usize> = (0..good.len())
        .filter(|at| good[*at] != 0 || at % 61 == 0)
        .collect();
    let interesting = [0x00, 0x01, 0x7f, 0x80, 0xff];
    for _ in 0..4_000 {
        let mut bad = good.clone();
        for _ in 0..1 + random(8) {
            let near = targets[random(targets.len())] + random(4);
            if let Some(byte) = bad.get_mut(near) {
                *byte = if random(2) == 0 {
                    interesting[random(5)]
                } else {
                    random(256) as u8
                };
            }
        }
        let polled = HashMap::new();
        if let Ok(p) = read(
            &bad,
            Context {
                seen_end_ns: 9_500,
                polled: &polled,
            },
        ) {
            check(&p);
        }
        let _ = latest_ns(&bad, u64::MAX);
    }
}

#[test]
fn every_truncation_is_survived() {
    let (builder, _) = sample();
    let good = builder.finish();
    for cut in (0..=good.len())
        .step_by(64)
        .chain([1, 63, 4_097, good.len() - 1])
    {
        if let Ok(p) = read(
            &good[..cut].to_vec(),
            Context {
                seen_end_ns: 9_500,
                polled: &HashMap::new(),
            },
        ) {
            check(&p);
        }
    }
}
