//! What the code does, besides, from which a goroutine waits. Who waits for a job and who waits for a resource look alike
//! from outside; but who has had a resource gives it back, and so lets others go on that wait as he did.

use std::collections::BTreeSet;

use convoy_profile::only_waits;
use convoy_unwind::Unwinder;
use iced_x86::{Code, Decoder, DecoderOptions};

/// Callers of the call that waits which may be the ones that give back.
const CALLERS: usize = 3;
/// Longer functions are not read to their end. Bytes.
const FUNCTION_BYTES: usize = 64 << 10;
/// Functions that one calls which are looked into.
const CALLEES: usize = 64;
/// Code that is read for one place, in all. Bytes.
const ALL_BYTES: usize = 512 << 10;

/// What lets others go on, by what they wait for.
const CONDITION: [&str; 3] = [
    "sync.(*Cond).Signal",
    "sync.(*Cond).Broadcast",
    "sync.runtime_notifyListNotify",
];
const RECEIVER: [&str; 2] = ["runtime.chansend1", "runtime.selectnbsend"];
const SENDER: [&str; 3] = [
    "runtime.chanrecv1",
    "runtime.chanrecv2",
    "runtime.selectnbrecv",
];

/// The frame, counted from 1, from which on outwards the code of a stack lets others go on that wait for the same
/// reason; 0 if none of the next ones does, or it is not to be seen in direct calls. `depth`: the frame that makes the call.
pub(super) fn gives_back(reason: &str, pcs: &[u64], depth: usize, unwinder: &mut Unwinder) -> u32 {
    let lets_go: &[&str] = match reason {
        "sync.Cond.Wait" => &CONDITION,
        "chan receive" => &RECEIVER,
        "chan send" => &SENDER,
        _ => return 0,
    };
    let mut left = ALL_BYTES;
    let is_it = |name: &str| lets_go.iter().any(|prefix| name.starts_with(prefix));
    let mut inner = match depth.checked_sub(1).and_then(|ix| pcs.get(ix)) {
        Some(pc) => begin(*pc, unwinder),
        None => None,
    };
    for (ix, pc) in pcs.iter().enumerate().skip(depth).take(CALLERS) {
        let Some(function) = begin(*pc, unwinder) else {
            return 0;
        };
        let is_own = |name: &str| !only_waits(name);
        let name_is = |at: u64, is: &dyn Fn(&str) -> bool, unwinder: &mut Unwinder| {
            unwinder.function(at).is_some_and(|f| is(f.name))
        };
        if !name_is(function, &is_own, unwinder) {
            return 0;
        }
        let called = called(function, &mut left, unwinder);
        for callee in called
            .into_iter()
            .filter(|&at| Some(at) != inner)
            .take(CALLEES)
        {
            let gives = name_is(callee, &is_it, unwinder)
                || name_is(callee, &is_own, unwinder)
                    && self::called(callee, &mut left, unwinder)
                        .into_iter()
                        .any(|at| name_is(at, &is_it, unwinder));
            if gives {
                return ix as u32 + 1;
            }
        }
        inner = Some(function);
    }
    0
}

/// Where the function of a return address begins.
fn begin(pc: u64, unwinder: &mut Unwinder) -> Option<u64> {
    unwinder.function(pc.wrapping_sub(1)).map(|f| f.lo)
}

/// Functions that the one at `begin` calls directly, as far as `left` bytes of code go.
fn called(begin: u64, left: &mut usize, unwinder: &mut Unwinder) -> BTreeSet<u64> {
    let Some(end) = unwinder.function(begin).map(|f| f.hi) else {
        return BTreeSet::new();
    };
    let size = usize::try_from(end.saturating_sub(begin)).unwrap_or(0);
    let size = size.min(FUNCTION_BYTES).min(*left);
    *left -= size;
    let Some(code) = unwinder.code(begin, 0, size) else {
        return BTreeSet::new();
    };
    let decoder = Decoder::with_ip(64, code.bytes, code.lo, DecoderOptions::NONE);
    let calls = decoder
        .into_iter()
        .filter(|i| i.code() == Code::Call_rel32_64);
    calls.map(|call| call.near_branch_target()).collect()
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use convoy_unwind::{Files, Unwinder};

    use super::called;

    #[inline(never)]
    fn callee(n: u64) -> u64 {
        std::hint::black_box(n)
    }

    #[inline(never)]
    fn caller(n: u64) -> u64 {
        callee(n) + callee(n + 1)
    }

    #[test]
    fn code_is_read_for_calls_as_far_as_there_is_leave() {
        assert_eq!(std::hint::black_box(caller(1)), 3);
        let mut unwinder = Unwinder::new(std::process::id(), &Files::new());
        let (caller, callee) = (caller as *const () as u64, callee as *const () as u64);
        let mut left = 1 << 20;
        let calls = called(caller, &mut left, &mut unwinder);
        assert!(calls.contains(&callee), "{calls:x?} {callee:x}");
        let size = (1 << 20) - left;
        assert!(size > 0);
        for mut leave in [0, 1] {
            assert!(called(caller, &mut leave, &mut unwinder).is_empty());
            assert_eq!(leave, 0);
        }
    }
}
