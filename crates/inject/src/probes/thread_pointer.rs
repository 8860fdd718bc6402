//! What the thread pointers of a process say: threads are told by them, and each leads to its
//! thread's number, at an offset that is found by looking.

use std::time::Duration;

use crate::all_stopped::AllStopped;
use crate::namespace::OwnNumbers;
use crate::refusal;
use crate::safe_point::refused;
use crate::tracer::{attempt, retry};
use convoy_probes::Refusal;

/// Words behind the thread pointer that may be the thread's own.
const WORDS: usize = 256;

/// What all threads have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadPointer {
    /// Of the thread's number (four bytes), from the thread pointer.
    pub tid_offset: i64,
    /// Where their rseq areas are.
    pub rseq: Option<Rseq>,
}

/// The area of each thread for restartable sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rseq {
    /// From the thread pointer.
    pub offset: i64,
    /// What must be before the address to which a sequence is aborted.
    pub signature: u32,
}

/// How long it is tried to stop all threads.
const LIMIT: Duration = Duration::from_secs(3);

/// Looks at all threads of a process.
pub(super) fn look(pid: u32) -> Result<ThreadPointer, Refusal> {
    retry(LIMIT, || attempt(pid, move || look_once(pid)))
}

fn look_once(pid: u32) -> Result<ThreadPointer, Refusal> {
    let fault = |fault| refused(pid, fault);
    let stopped = AllStopped::of(pid).map_err(fault)?;
    refusal::check_stopped(pid, &stopped)?;
    let memory = super::borrow::open(pid)?;
    let mut seen = Vec::new();
    let mut rseq = Vec::new();
    let own = OwnNumbers::of(pid);
    for thread in &stopped.threads {
        let pointer = thread.registers().map_err(fault)?.fs_base;
        let words = memory.words(pointer, WORDS);
        // x86-64 ABI (TLS): the first word is the pointer itself.
        if pointer == 0 || words.first() != Some(&pointer) {
            return Err(Refusal::new(
                format!(
                    "thread {} of process {pid} has no thread pointer (it is Go without C, or just \
                     being made)",
                    thread.tid()
                ),
                "try again; for Go use the samples: convoy -p PID",
            ));
        }
        let area = thread.rseq_configuration();
        rseq.push(area.map(|(area, signature)| Rseq {
            offset: area.wrapping_sub(pointer) as i64,
            signature,
        }));
        let halves = words.iter().flat_map(|w| [*w as u32, (*w >> 32) as u32]);
        seen.push((own.of_thread(thread.tid()), halves.collect::<Vec<u32>>()));
    }
    rseq.dedup();
    let tid_offset = tid_offset(&seen).ok_or_else(|| {
        Refusal::new(
            format!("the C library of process {pid} does not keep a thread's number"),
            "use the samples: convoy -p PID",
        )
    })?;
    Ok(ThreadPointer {
        tid_offset,
        rseq: match rseq[..] {
            [one] => one,
            _ => None,
        },
    })
}

/// The first place at which every thread has its own number.
fn tid_offset(threads: &[(u32, Vec<u32>)]) -> Option<i64> {
    let words = threads.iter().map(|(_, words)| words.len()).min()?;
    let is_tid = |at: &usize| threads.iter().all(|(tid, words)| words[*at] == *tid);
    (2..words).find(is_tid).map(|at| at as i64 * 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tid_is_where_all_threads_have_theirs() {
        let threads = [(7, vec![0, 0, 7, 1, 7]), (8, vec![0, 0, 7, 1, 8])];
        assert_eq!(tid_offset(&threads), Some(16));
        assert_eq!(tid_offset(&threads[..1]), Some(8));
        assert_eq!(tid_offset(&[(9, vec![1, 2, 3])]), None);
        assert_eq!(tid_offset(&[]), None);
    }
}
