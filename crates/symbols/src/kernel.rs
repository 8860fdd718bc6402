//! Names of the kernel's own functions: `/proc/kallsyms`.
//!
//! One symbol a line: `ADDRESS KIND name [module]`, in hex. Without privilege all addresses are zero.

use std::fs::File;
use std::io::{BufRead, BufReader};

use convoy_profile::Sched;

use crate::demangle::clean;

/// The function of the kernel that each of these addresses is in; empty where it is not known. Reads the kernel's table, which
/// takes tens of milliseconds: ask once, for all addresses.
pub fn kernel_names(addresses: &[u64]) -> Vec<String> {
    if addresses.is_empty() {
        return Vec::new();
    }
    match File::open("/proc/kallsyms") {
        Ok(table) => names(addresses, BufReader::new(table)),
        Err(_) => vec![String::new(); addresses.len()],
    }
}

/// Names the kernel's side of waits where the recorder could not, and left addresses; and takes away what all have.
pub fn resolve_kernel(sched: &mut Sched) {
    let stacks = sched.offs.iter_mut().map(|off| &mut off.kernel_stack);
    let mut frames: Vec<(u64, &mut String)> = stacks
        .flatten()
        .filter_map(|text| {
            let address = u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
            Some((address, text))
        })
        .collect();
    let addresses: Vec<u64> = frames.iter().map(|(address, _)| *address).collect();
    for ((_, text), name) in frames.iter_mut().zip(kernel_names(&addresses)) {
        if !name.is_empty() {
            **text = name;
        }
    }
    for off in &mut sched.offs {
        let own = own_frames(&off.kernel_stack);
        off.kernel_stack.drain(..own);
    }
}

/// Innermost frames that every wait has: the tracepoint that looked at it, and the scheduler itself.
fn own_frames(stack: &[String]) -> usize {
    const SCHEDULER: [&str; 3] = ["__schedule", "schedule", "preempt_schedule_irq"];
    let in_scheduler = |name: &String| SCHEDULER.contains(&name.as_str());
    let Some(first) = stack.iter().position(in_scheduler) else {
        return 0;
    };
    first
        + stack[first..]
            .iter()
            .take_while(|name| in_scheduler(name))
            .count()
}

/// Of a table of this form; what can be read of it.
fn names(addresses: &[u64], mut table: impl BufRead) -> Vec<String> {
    let mut places: Vec<u64> = addresses.to_vec();
    places.sort_unstable();
    places.dedup();
    // The table has megabytes in no order, and symbols have no sizes: of each place that function is kept which begins last of
    // those that begin between the place before and itself.
    let mut nearest = vec![(0, Vec::new()); places.len()];
    let mut line = Vec::new();
    while table.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        if let Some((start, name)) = function(line.trim_ascii_end()) {
            match nearest.get_mut(places.partition_point(|place| *place < start)) {
                Some(kept) if kept.0 < start => {
                    kept.0 = start;
                    kept.1.clear();
                    kept.1.extend_from_slice(name);
                }
                _ => {} // one of several names, or further away
            }
        }
        line.clear();
    }
    let mut found = Vec::with_capacity(places.len());
    for (start, name) in nearest {
        found.push(match start {
            0 => found.last().cloned().unwrap_or_default(), // in the function of the place before
            _ => clean(&name),
        });
    }
    let name = |address| found[places.partition_point(|place| place < address)].clone();
    addresses.iter().map(name).collect()
}

fn function(line: &[u8]) -> Option<(u64, &[u8])> {
    let mut fields = line.split(|b| matches!(b, b' ' | b'\t'));
    let address = std::str::from_utf8(fields.next()?).ok()?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let code = matches!(fields.next()?, b"t" | b"T" | b"w" | b"W");
    let name = fields.next().filter(|name| !name.is_empty())?;
    (code && address != 0).then_some((address, name))
}

#[cfg(test)]
mod tests {
    use super::{kernel_names, names, own_frames};

    #[test]
    fn what_every_wait_has_is_left_out() {
        let stack = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let full = stack(&[
            "bpf_trace_run4",
            "__schedule",
            "schedule",
            "io_schedule",
            "f",
        ]);
        assert_eq!(own_frames(&full), 3);
        assert_eq!(own_frames(&stack(&["0xffff", "0xfffe"])), 0);
        assert_eq!(own_frames(&[]), 0);
    }

    #[test]
    fn addresses_get_the_function_that_begins_before_them() {
        let table =
            b"ffffffff81000100 T second\nffffffff81000000 T first\nffffffff81000000 T alias\n\
                      ffffffff81000180 D data\nffffffffc0000000 t in_module\t[nf]\nbroken\n";
        let asked = [
            0xffff_ffff_8100_01ff,
            0xffff_ffff_8100_0000,
            0xffff_ffff_8100_00ff,
            0xffff_ffff_c000_0001,
            0x1000,
        ];
        assert_eq!(
            names(&asked, &table[..]),
            ["second", "first", "first", "in_module", ""]
        );
    }

    #[test]
    fn without_privilege_nothing_has_a_name() {
        let hidden = b"0000000000000000 T first\n0000000000000000 T second\n";
        assert_eq!(names(&[1, u64::MAX], &hidden[..]), ["", ""]);
        assert_eq!(names(&[1], &b""[..]), [""]);
        assert!(kernel_names(&[]).is_empty());
    }
}
