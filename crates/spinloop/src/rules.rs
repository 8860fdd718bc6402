//! What makes a loop a waiting one.

use convoy_profile::SpinKind;
use iced_x86::{Instruction, Mnemonic, OpKind};

use crate::around::goes_on;
use crate::callee::{callee, Callee};
use crate::effects::{Effect, RSP};
use crate::evidence::evidence;
use crate::flow::{loops, passes, Body, Graph, Window};
use crate::rescan::begins_anew;
use crate::sample_skid::{tells, Tells};
use crate::values::{Flow, Origins, Set};
use crate::{Callees, Loop, Verdict, Why};

/// A loop that does not say that it spins, by a pause, a try at a lock or a count, and has more ways out than these is
/// part of a larger one: most ways out do the work and come back.
const MOST_EXITS: usize = 2;

/// What one loop is, whatever is around it.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Waits {
        found: Loop,
        /// What it carries from pass to pass: a count.
        counts: Set,
    },
    /// It leaves nothing behind and looks at nothing: a delay, with a pause or without.
    Idle(Option<Loop>),
    Works(Why),
    Unknown(Why),
}

pub(crate) fn judge(window: &Window, ip: u64, callees: Callees) -> Verdict {
    let graph = window.reachable(ip);
    if graph.is_empty() {
        return Verdict::Unknown(Why::NoCode);
    }
    let bodies = loops(&graph, ip);
    let backs_off = passes(&graph, ip, |i| {
        let yields = || called(i, callees) == Some(Callee::Yield);
        i.mnemonic() == Mnemonic::Pause || (i.is_call_near() && yields())
    });
    let mut delay = None;
    let mut inner = None;
    for body in &bodies {
        match outcome(&graph, body, backs_off, callees) {
            Outcome::Waits { mut found, counts } => {
                // In a pause between two tries a thread waits for certain.
                let is_try = matches!(found.kind, SpinKind::Lock | SpinKind::Yield);
                let polls = found.kind == SpinKind::Polling && !backs_off;
                if polls || (is_try && delay.is_none()) {
                    let flow = Flow::of(&graph, body);
                    if polls && goes_on(window, body, &flow, counts) {
                        if counts != 0 {
                            return Verdict::Unknown(Why::Mixed);
                        }
                        // The larger loop decides, unless a thread stays in this one: it can stay only to wait.
                        if inner.is_none() {
                            let tells = Tells::Mostly;
                            inner = Some(Loop { tells, ..found });
                        }
                        continue;
                    }
                    if is_try {
                        found.tells = tells(&graph, body, &flow.effects, ip);
                    }
                }
                let works =
                    |b: &Body| matches!(outcome(&graph, b, backs_off, callees), Outcome::Works(_));
                let mut others = bodies.iter().filter(|b| b.head == body.head && *b != body);
                if counts != 0 && others.any(works) {
                    return Verdict::Unknown(Why::Mixed);
                }
                return Verdict::Waits(found);
            }
            // A pause between two looks: what is around it decides.
            Outcome::Idle(found) => delay = delay.or(Some(found)),
            Outcome::Works(why) => {
                let larger = bodies
                    .iter()
                    .filter(|b| b.members.is_superset(&body.members));
                let anew = larger.into_iter().find(|b| begins_anew(window, &graph, b));
                let works = || or_else(inner, delay, Verdict::Works(why));
                return anew.map_or_else(works, |b| Verdict::Waits(scan(&graph, b)));
            }
            Outcome::Unknown(why) => return or_else(inner, delay, Verdict::Unknown(why)),
        }
    }
    or_else(inner, delay, Verdict::Unknown(Why::NoLoop))
}

/// A loop that looks at many places again and again.
fn scan(graph: &Graph, body: &Body) -> Loop {
    let flow = Flow::of(graph, body);
    Loop {
        lo: body.members.first().copied().unwrap_or(body.head),
        hi: body.members.last().copied().unwrap_or(body.head),
        kind: if flow.effects.iter().any(Effect::is_pause) {
            SpinKind::Pause
        } else {
            SpinKind::Polling
        },
        evidence: text(&flow, &Seen::default()),
        awaits_memory: true,
        tells: Tells::Waits,
    }
}

/// Of no larger loop that waits: an inner one waits for whoever stays in it, a delay only if it says so.
fn or_else(inner: Option<Loop>, delay: Option<Option<Loop>>, otherwise: Verdict) -> Verdict {
    match inner.map(Some).or(delay) {
        Some(Some(found)) => Verdict::Waits(found),
        Some(None) => Verdict::Works(Why::Counts),
        None => otherwise,
    }
}

/// What the instructions of a loop have shown so far.
#[derive(Debug, Default)]
struct Seen {
    /// Instructions that bring something from outside: loads, tries at locks, calls that do either.
    looks: Set,
    /// Loads of variables of this function that it does not write.
    own: Set,
    /// Loads that must decide something.
    loads: Set,
    /// Loads from outside the stack frame.
    shared: Set,
    /// Tries at locks.
    tries: Set,
    /// What decides: conditions, arguments.
    used: Set,
    /// Instructions that carry something from pass to pass.
    carried: Set,
    /// Instructions that ask the time.
    times: Set,
    /// There is a pause or a call that gives way on some way round, so that what is computed is how long to pause.
    backs_off: bool,
    pauses: bool,
    yields: bool,
    trylock: bool,
}

fn outcome(graph: &Graph, body: &Body, backs_off: bool, callees: Callees) -> Outcome {
    let flow = Flow::of(graph, body);
    let mut seen = Seen {
        backs_off,
        ..Seen::default()
    };
    if let Err(outcome) = gather(&flow, callees, &mut seen) {
        return outcome;
    }
    for (at, (e, o)) in flow.effects.iter().zip(&flow.origins).enumerate() {
        if let Some(why) = works(at, e, o, &flow, &seen) {
            return Outcome::Works(why);
        }
    }
    if (seen.loads | seen.tries) & !seen.used != 0 {
        return Outcome::Works(Why::Reads);
    }
    let leaves = |e: &Effect| {
        graph
            .get(&e.instr.ip())
            .is_some_and(|n| n.next.len() > 1 && n.next.iter().any(|to| !body.members.contains(to)))
    };
    let ends_by = |looks: Set| {
        flow.effects.iter().zip(&flow.origins).any(|(e, o)| {
            leaves(e) && o.inputs & looks != 0 && o.inputs & (seen.carried | seen.times) == 0
        })
    };
    let waits = ends_by(seen.looks);
    let kind = if seen.tries != 0 || seen.trylock {
        SpinKind::Lock
    } else if seen.yields {
        SpinKind::Yield
    } else if seen.pauses {
        SpinKind::Pause
    } else {
        SpinKind::Polling
    };
    let found = || Loop {
        lo: body.members.first().copied().unwrap_or(body.head),
        hi: body.members.last().copied().unwrap_or(body.head),
        kind,
        evidence: text(&flow, &seen),
        awaits_memory: seen.times == 0 && ends_by(seen.looks & !seen.own),
        tells: Tells::Waits,
    };
    let exits = flow.effects.iter().filter(|e| leaves(e)).count();
    if waits && kind == SpinKind::Polling && seen.carried == 0 && exits > MOST_EXITS {
        return Outcome::Unknown(Why::Mixed);
    }
    if waits || seen.yields {
        return Outcome::Waits {
            found: found(),
            counts: seen.carried,
        };
    }
    Outcome::Idle(seen.pauses.then(found))
}

/// First look: what brings values in, what decides, what is carried.
fn gather(flow: &Flow, callees: Callees, seen: &mut Seen) -> Result<(), Outcome> {
    for (at, (e, o)) in flow.effects.iter().zip(&flow.origins).enumerate() {
        let me: Set = 1 << (at % 64);
        if e.is_call() {
            match called(&e.instr, callees) {
                Some(Callee::Load) => seen.looks |= me,
                Some(Callee::Pause) => {
                    seen.pauses = true;
                    seen.backs_off = true;
                }
                Some(Callee::Yield) => {
                    seen.yields = true;
                    seen.backs_off = true;
                }
                Some(Callee::Time) => seen.times |= me,
                Some(Callee::Nothing) => {}
                Some(Callee::TryLock) => {
                    seen.looks |= me;
                    seen.trylock = true;
                }
                None => return Err(Outcome::Unknown(Why::Calls)),
            }
            seen.used |= o.arguments;
            continue;
        }
        if matches!(e.instr.mnemonic(), Mnemonic::Syscall | Mnemonic::Sysenter) {
            return Err(Outcome::Unknown(Why::Calls));
        }
        seen.pauses |= e.is_pause();
        if matches!(e.instr.mnemonic(), Mnemonic::Rdtsc | Mnemonic::Rdtscp) {
            seen.times |= me;
        }
        if e.instr.is_jcc_short_or_near()
            || e.instr.is_jcx_short()
            || e.instr.is_loop()
            || e.instr.is_loopcc()
        {
            seen.used |= o.inputs;
        }
        if e.is_locked() {
            if o.slot.is_none() {
                seen.tries |= me;
                seen.looks |= me;
                seen.used |= o.address | o.inputs;
            }
        } else if e.loads && !is_safepoint(e, flow, at) {
            if o.slot.is_none() {
                seen.loads |= me;
                seen.shared |= me;
            }
            // A variable of this function that it does not write: others may.
            if o.slot.is_none() {
                seen.looks |= me;
            } else if o.content == 0 {
                seen.own |= me;
            }
        }
    }
    for (at, (e, o)) in flow.effects.iter().zip(&flow.origins).enumerate() {
        let me: Set = 1 << (at % 64);
        // What an exchange puts there may be what the last one found there.
        let exchange = e.instr.mnemonic() == Mnemonic::Xchg && e.is_locked();
        if o.inputs & me != 0 && !(exchange && o.inputs & !seen.tries == 0) {
            seen.carried |= me;
        }
    }
    // Of a variable of its own a function seldom waits for a change: not where the time is put, and not where it
    // counts, because then it is a constant that did not fit into the registers.
    if seen.times == 0 && seen.carried == 0 {
        seen.looks |= seen.own;
    }
    Ok(())
}

fn called(call: &Instruction, callees: Callees) -> Option<Callee> {
    let address = match call.op_kind(0) {
        OpKind::NearBranch64 => call.near_branch_target(),
        OpKind::Memory if call.is_ip_rel_memory_operand() => call.memory_displacement64(),
        OpKind::Register => call.next_ip(),
        _ => return None,
    };
    callee(&callees(address)?)
}

/// A virtual machine's own look whether to stop (`test [page],eax`; `cmp rsp,[thread+limit]`): not the loop's.
fn is_safepoint(e: &Effect, flow: &Flow, at: usize) -> bool {
    match e.instr.mnemonic() {
        Mnemonic::Cmp => e.reads.contains(&RSP) && e.operand.is_some_and(|m| m.base != Some(RSP)),
        Mnemonic::Test => !flow
            .origins
            .iter()
            .any(|o| o.inputs & (1 << (at % 64)) != 0),
        _ => false,
    }
}

/// Why an instruction shows that the loop works.
fn works(at: usize, e: &Effect, o: &Origins, flow: &Flow, seen: &Seen) -> Option<Why> {
    if e.is_call() {
        return None;
    }
    if e.wide || e.instr.is_string_instruction() || e.instr.is_privileged() {
        return Some(Why::Arithmetic);
    }
    if !is_plain(e) {
        return Some(Why::Arithmetic);
    }
    if e.writes.contains(&RSP) {
        return Some(Why::Stores); // push, pop
    }
    if (e.loads || e.stores) && o.slot.is_none() && o.address & (seen.carried | seen.tries) != 0 {
        return Some(Why::Walks);
    }
    if e.is_locked() {
        if o.slot.is_none() {
            return not_a_try(at, e, o, flow, seen);
        }
        return None; // a fence: lock or [rsp],0
    }
    if e.stores && o.slot.is_none() {
        return Some(Why::Stores);
    }
    if is_product(e) && o.inputs & seen.shared != 0 {
        return Some(Why::Arithmetic);
    }
    let varies = o.inputs & seen.carried != 0;
    // Every so many passes it gives way: the remainder of a count is a product that is forgotten again.
    let is_remainder = seen.backs_off && is_product(e) && seen.carried & (1 << (at % 64)) == 0;
    (varies && !is_counting(e, seen) && !is_remainder).then_some(Why::Computes)
}

/// Why a locked instruction is not a try at a lock.
fn not_a_try(at: usize, e: &Effect, o: &Origins, flow: &Flow, seen: &Seen) -> Option<Why> {
    let me: Set = 1 << (at % 64);
    match e.instr.mnemonic() {
        Mnemonic::Xchg => (o.inputs & seen.carried != 0).then_some(Why::Updates),
        Mnemonic::Cmpxchg => {
            // A lock's new value does not depend on the old one; a counter's or a list's does.
            let old = o.rax & (seen.shared | seen.tries);
            let update = o.rax & me != 0
                || o.source & (old | me | seen.carried) != 0
                || o.rax & seen.carried != 0
                || (old != 0 && !seen.backs_off);
            update.then_some(Why::Updates)
        }
        Mnemonic::Bts => None,
        Mnemonic::Dec
        | Mnemonic::Inc
        | Mnemonic::Add
        | Mnemonic::Sub
        | Mnemonic::Xadd
        | Mnemonic::Or => {
            // Spin locks that count look at the word until it seems free, then try again.
            let looked_at = flow
                .effects
                .iter()
                .any(|other| other.loads && !other.stores && other.operand == e.operand);
            (!looked_at || o.inputs & seen.carried != 0).then_some(Why::Stores)
        }
        _ => Some(Why::Updates),
    }
}

fn is_product(e: &Effect) -> bool {
    use Mnemonic as M;
    matches!(
        e.instr.mnemonic(),
        M::Mul | M::Imul | M::Div | M::Idiv | M::Mulx
    )
}

/// Instructions of which a waiting loop may consist.
fn is_plain(e: &Effect) -> bool {
    use Mnemonic as M;
    if e.instr.is_jcc_short_or_near() || is_set(e) || is_conditional_move(e) {
        return true;
    }
    let quiet = matches!(
        e.instr.mnemonic(),
        M::Nop
            | M::Endbr64
            | M::Pause
            | M::Tpause
            | M::Umwait
            | M::Umonitor
            | M::Mfence
            | M::Lfence
            | M::Sfence
            | M::Rdtsc
            | M::Rdtscp
            | M::Prefetchnta
            | M::Prefetcht0
            | M::Prefetcht1
            | M::Prefetcht2
            | M::Prefetchw
    );
    let moves = matches!(
        e.instr.mnemonic(),
        M::Mov
            | M::Movzx
            | M::Movsx
            | M::Movsxd
            | M::Lea
            | M::Xchg
            | M::Cmpxchg
            | M::Xadd
            | M::Cdqe
            | M::Cwde
            | M::Cbw
            | M::Cdq
            | M::Cqo
            | M::Jmp
            | M::Loop
            | M::Loope
            | M::Loopne
            | M::Jrcxz
            | M::Jecxz
            | M::Bswap
    );
    let computes = matches!(
        e.instr.mnemonic(),
        M::Add
            | M::Sub
            | M::Inc
            | M::Dec
            | M::Neg
            | M::Not
            | M::And
            | M::Or
            | M::Xor
            | M::Cmp
            | M::Test
            | M::Shl
            | M::Sal
            | M::Shr
            | M::Sar
            | M::Bt
            | M::Bts
            | M::Sbb
            | M::Adc
            | M::Shlx
            | M::Shrx
            | M::Sarx
            | M::Andn
            | M::Mul
            | M::Imul
            | M::Div
            | M::Idiv
            | M::Rol
            | M::Ror
    );
    quiet || moves || computes
}

/// Counting, comparing and moving a count; computing with it only where the result says how long to pause.
fn is_counting(e: &Effect, seen: &Seen) -> bool {
    use Mnemonic as M;
    let immediate = ends_with_constant(&e.instr);
    let m = e.instr.mnemonic();
    if e.instr.is_jcc_short_or_near() || is_set(e) {
        return true;
    }
    match m {
        M::Mov | M::Movzx | M::Movsx | M::Movsxd | M::Cdqe | M::Cwde | M::Cdq | M::Cqo => true,
        M::Cmp | M::Test | M::Bt | M::Inc | M::Dec | M::Loop | M::Loope | M::Loopne => true,
        M::Jmp | M::Jrcxz | M::Jecxz => true,
        M::Add | M::Sub if immediate => true,
        M::And if immediate => true,
        M::Xor if immediate => e.instr.op0_register().is_gpr8(),
        M::Lea => e
            .operand
            .is_some_and(|o| o.index.is_none() || seen.backs_off),
        _ => seen.backs_off && !is_product(e),
    }
}

/// The last operand is a constant.
pub(crate) fn ends_with_constant(instr: &Instruction) -> bool {
    matches!(
        instr.op_kind(instr.op_count().saturating_sub(1)),
        OpKind::Immediate8
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate32to64
            | OpKind::Immediate64
    )
}

fn is_set(e: &Effect) -> bool {
    e.instr.op_count() == 1
        && !e.instr.is_jcc_short_or_near()
        && e.instr.condition_code() != iced_x86::ConditionCode::None
}

pub(crate) fn is_conditional_move(e: &Effect) -> bool {
    e.instr.op_count() == 2 && e.instr.condition_code() != iced_x86::ConditionCode::None
}

fn text(flow: &Flow, seen: &Seen) -> String {
    let matters = |at: usize, e: &Effect| {
        let me: Set = 1 << (at % 64);
        let compares = matches!(e.instr.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
        let branches = e.instr.is_jcc_short_or_near();
        (seen.looks & (seen.shared | seen.tries)) & me != 0
            || e.is_pause()
            || e.is_call()
            || compares
            || branches
    };
    let body: Vec<_> = flow
        .effects
        .iter()
        .enumerate()
        .map(|(at, e)| (e.instr, matters(at, e)))
        .collect();
    evidence(&body)
}
