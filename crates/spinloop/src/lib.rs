//! Tells loops that wait on the processor from loops that work, by their instructions.
//!
//! A thread that spins on a lock or polls a flag runs without working. The scheduler cannot tell; the loop's
//! instructions can. A loop *waits* if one pass leaves nothing behind but a count: it looks at memory whose
//! address stays the same, and leaves when what it finds there has changed. Whatever carries data from one
//! pass to the next, moves through memory or stores anything but a try at a lock, *works*, unless a larger loop
//! around it begins each pass anew. In doubt it works: to call work waiting is the worse error.
//!
//! What a loop cannot tell: whether a thread stays in it. A lock that is free is taken in the first pass.
//! [`Tells`] says which samples show that a try has failed; of the others callers count only what lies in one
//! loop several times in a row.

#![forbid(unsafe_code)]

mod around;
mod callee;
mod effects;
mod evidence;
mod flow;
mod known;
mod rescan;
mod rules;
mod sample_skid;
mod values;

use std::fmt;

use convoy_profile::SpinKind;

pub use callee::only_helps;
pub use known::{known, works, KnownPoller};
pub use sample_skid::Tells;

/// What the code around an instruction is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A loop in which a thread only waits.
    Waits(Loop),
    /// Work.
    Works(Why),
    /// Cannot be told.
    Unknown(Why),
}

/// A loop in which a thread only waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loop {
    /// Its first instruction.
    pub lo: u64,
    /// Its last instruction.
    pub hi: u64,
    /// What makes it a waiting one.
    pub kind: SpinKind,
    /// Its instructions, at most eight: the ones that matter where it has more.
    pub evidence: String,
    /// What is in memory ends it: not the time, nor the outcome of a call, as where a sleep that was interrupted goes on.
    pub awaits_memory: bool,
    /// What the instruction asked for tells of a thread that is there.
    pub tells: Tells,
}

/// The reason for a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// No loop of a few instructions contains the address.
    NoLoop,
    /// Instructions of this machine are not decoded.
    Machine,
    /// The address is not within the code given, or what is there is no code.
    NoCode,
    /// It calls functions of which nothing is known, or the system.
    Calls,
    /// It stores to memory that is not its own stack frame.
    Stores,
    /// It moves through memory: another address each pass.
    Walks,
    /// Each pass computes with results of the one before, more than counting.
    Computes,
    /// Vector, floating point or string instructions; multiplication or division of what was loaded.
    Arithmetic,
    /// It reads data that does not decide whether it goes on.
    Reads,
    /// It updates memory without locks: the new value comes from the old one.
    Updates,
    /// It only counts: a calibrated delay.
    Counts,
    /// Other ways round the same loop work, and it counts them together.
    Mixed,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoLoop => "no small loop there",
            Self::Machine => "instructions of this machine are not decoded",
            Self::NoCode => "no code there",
            Self::Calls => "calls other functions",
            Self::Stores => "stores to memory",
            Self::Walks => "moves through memory",
            Self::Computes => "computes with results of the pass before",
            Self::Arithmetic => "computes with what it loads",
            Self::Reads => "reads data",
            Self::Updates => "updates memory without locks",
            Self::Counts => "only counts",
            Self::Mixed => "waits on one way round and works on another",
        })
    }
}

/// Names what a loop calls: the function at an address. For a call through memory at a fixed address
/// (`call [rip+x]`, as in code without PLT) it is asked for the address of that memory, for one through a register
/// for the return address: whoever has a call stack knows what was called from there.
pub type Callees<'a> = &'a dyn Fn(u64) -> Option<String>;

/// Decides whether the code around `ip` is a loop in which a thread only waits.
///
/// `code` is x86-64 code at the address `base`: the function, or 256 bytes on each side of `ip`. `ip` must be
/// the start of an instruction, as every sampled one is; nothing else need be known of the code, because
/// whatever belongs to a loop with `ip` can be reached from there. A return address is as good: it tells of a
/// loop that spans a call. An `ip` right behind a loop counts as in it, as sampling is late by an instruction
/// at times. Cost: some 10 to 100 us.
pub fn judge(code: &[u8], base: u64, ip: u64) -> Verdict {
    judge_with(code, base, ip, &|_| None)
}

/// The same with names for the functions that the loop calls. Without them a loop with calls is
/// [`Verdict::Unknown`].
pub fn judge_with(code: &[u8], base: u64, ip: u64, callees: Callees) -> Verdict {
    if !cfg!(target_arch = "x86_64") {
        return Verdict::Unknown(Why::Machine);
    }
    let window = flow::Window { code, base };
    let verdict = rules::judge(&window, ip, callees);
    if verdict != Verdict::Unknown(Why::NoLoop) {
        return verdict;
    }
    let before = window.branches_back_before(ip);
    let late = before
        .into_iter()
        .map(|branch| rules::judge(&window, branch, callees))
        .find(|v| matches!(v, Verdict::Waits(_)));
    late.unwrap_or(verdict)
}
