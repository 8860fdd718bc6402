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
        let called = called(function, unwinder);
        for callee in called
            .into_iter()
            .filter(|&at| Some(at) != inner)
            .take(CALLEES)
        {
            let gives = name_is(callee, &is_it, unwinder)
                || name_is(callee, &is_own, unwinder)
                    && self::called(callee, unwinder)
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

/// Functions that the one at `begin` calls directly.
fn called(begin: u64, unwinder: &mut Unwinder) -> BTreeSet<u64> {
    let Some(end) = unwinder.function(begin).map(|f| f.hi) else {
        return BTreeSet::new();
    };
    let size = usize::try_from(end.saturating_sub(begin)).unwrap_or(0);
    let Some(code) = unwinder.code(begin, 0, size.min(FUNCTION_BYTES)) else {
        return BTreeSet::new();
    };
    let decoder = Decoder::with_ip(64, code.bytes, code.lo, DecoderOptions::NONE);
    let calls = decoder
        .into_iter()
        .filter(|i| i.code() == Code::Call_rel32_64);
    calls.map(|call| call.near_branch_target()).collect()
}
