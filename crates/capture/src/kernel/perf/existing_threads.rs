//! Threads that were there when the recording began: what /proc says they are doing.

use std::fs;

use super::record::{comm, What};
use crate::clock::monotonic_ns;
use crate::kernel::raw::{Call, Left};

/// A thread that was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ThreadSnapshot {
    pub(super) tid: u32,
    pub(super) pid: u32,
    pub(super) comm: [u8; 16],
    /// `None`: it could run.
    pub(super) left: Option<Left>,
}

/// Looks at a thread; `None` if it has ended. With the time from just before: what has changed while looking
/// is told by a record that comes after.
pub(super) fn look(pid: u32, tid: u32) -> Option<(u64, What)> {
    let ts = monotonic_ns();
    let stat = fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    // Only for those who may trace it.
    let call = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).unwrap_or_default();
    let (comm, state) = name_and_state(&stat)?;
    let left = match state {
        b'R' => None,
        b'Z' | b'X' | b'x' => return None,
        state => Some(Left {
            state: state_bits(state),
            call: system_call(&call),
            iowait: false,
            key: 0,
        }),
    };
    let there = ThreadSnapshot {
        tid,
        pid,
        comm,
        left,
    };
    Some((ts, What::ThreadSnapshot(Box::new(there))))
}

/// `tid (name) state ...`; the name may hold brackets, so it ends at the last one.
fn name_and_state(stat: &[u8]) -> Option<([u8; 16], u8)> {
    let begin = stat.iter().position(|&byte| byte == b'(')? + 1;
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    Some((comm(stat.get(begin..end)?), *stat.get(end + 2)?))
}

/// The kernel's number of a state.
fn state_bits(letter: u8) -> u16 {
    match letter {
        b'D' => 2,
        b'T' => 4,
        b't' => 8,
        _ => 1,
    }
}

/// `number argument argument ...`, all but the first in hexadecimal; -1 for none, "running" for a thread
/// that has been woken meanwhile.
fn system_call(text: &str) -> Call {
    let mut words = text.split_ascii_whitespace();
    let nr = words
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(-1);
    if nr < 0 {
        return Call {
            nr: -1,
            ..Call::default()
        };
    }
    let mut argument = || {
        let word = words.next()?;
        u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
    };
    Call {
        nr,
        arg0: argument().unwrap_or(0),
        arg1: argument().unwrap_or(0) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_waits_in_is_read() {
        let text = "202 0x7f0a 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd 0x7f11\n";
        let futex = Call {
            nr: 202,
            arg0: 0x7f0a,
            arg1: 0x189,
        };
        assert_eq!(system_call(text), futex);
        for none in ["-1 0x7ffd 0x7f11\n", "running\n", ""] {
            assert_eq!(system_call(none).nr, -1, "{none}");
        }
    }

    #[test]
    fn a_name_with_brackets_is_whole() {
        let (comm, state) = name_and_state(b"12 (a) R (b) D 1 12").unwrap();
        assert_eq!((&comm[..8], state), (&b"a) R (b\0"[..], b'D'));
        assert_eq!(name_and_state(b"12 (a"), None);
        assert_eq!(name_and_state(b"12 (a)"), None);
    }
}
