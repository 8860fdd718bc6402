//! Consistency of a program: what the compiler of plans relies on.

use convoy_replay::program::{Need, Op, Program};

use super::outcome::NativeError;
use super::step::INDEX_LIMIT;

/// # Errors
///
/// [`NativeError::Invalid`] with the first contradiction.
pub(super) fn check(program: &Program) -> Result<(), NativeError> {
    let invalid = |text: String| Err(NativeError::Invalid(text));
    let tables = [
        ("threads", program.threads.len()),
        ("locks", program.locks.len()),
        ("condition variables", program.conds.len()),
        ("barriers", program.barriers.len()),
        ("semaphores", program.semaphores.len()),
        ("channels", program.channels.len()),
    ];
    for (name, length) in tables {
        if length >= INDEX_LIMIT as usize {
            return invalid(format!("it has {length} {name}, at most {INDEX_LIMIT}"));
        }
    }
    let threads = program.threads.len();
    for (index, barrier) in program.barriers.iter().enumerate() {
        if barrier.count == 0 || barrier.count as usize > threads {
            let count = barrier.count;
            return invalid(format!(
                "barrier {index} waits for {count} threads, the program has {threads}"
            ));
        }
    }
    let mut starts: Vec<u32> = program
        .threads
        .iter()
        .map(|thread| u32::from(thread.at_start))
        .collect();
    for (index, thread) in program.threads.iter().enumerate() {
        if !thread.start_ns.is_finite() || thread.start_ns < 0.0 {
            return invalid(format!(
                "thread {index} begins after {} ns",
                thread.start_ns
            ));
        }
        for (position, op) in thread.ops.iter().enumerate() {
            if !is_consistent(op, program) {
                return invalid(format!("operation {position} of thread {index} is {op:?}"));
            }
            if let Op::Spawn { thread } = op {
                starts[*thread as usize] += 1;
            }
        }
    }
    match starts.iter().position(|&starts| starts != 1) {
        Some(index) if starts[index] == 0 => invalid(format!("thread {index} is never started")),
        Some(_) => invalid(
            "one record stands for several threads, since more began than the recorder had \
             records for: record with a larger --max-threads"
                .into(),
        ),
        None => Ok(()),
    }
}

fn is_consistent(op: &Op, program: &Program) -> bool {
    let lock = |lock: u32| (lock as usize) < program.locks.len();
    let cond = |cond: u32| (cond as usize) < program.conds.len();
    let channel = |channel: u32| (channel as usize) < program.channels.len();
    let sem = |sem: u32| (sem as usize) < program.semaphores.len();
    let thread = |thread: u32| (thread as usize) < program.threads.len();
    match *op {
        Op::Work { ns } | Op::Sleep { ns } => ns.is_finite() && ns >= 0.0,
        Op::Acquire { lock: l, .. }
        | Op::TryAcquire { lock: l, .. }
        | Op::TryFail { lock: l }
        | Op::Release { lock: l } => lock(l),
        Op::Await {
            cond: c,
            lock: l,
            need: Need::Token(ch) | Need::Count(ch, _),
        } => cond(c) && lock(l) && channel(ch),
        Op::Post { channel: ch } => channel(ch),
        Op::Signal { cond: c } | Op::Broadcast { cond: c } => cond(c),
        Op::Barrier { barrier } => (barrier as usize) < program.barriers.len(),
        Op::SemWait { sem: s } | Op::SemPost { sem: s } => sem(s),
        Op::Spawn { thread: t } | Op::Join { thread: t } => thread(t),
    }
}
