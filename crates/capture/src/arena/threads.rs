//! The threads of a process, and what is in their own records.

use std::collections::HashMap;

use convoy_abi as abi;
use convoy_profile::{Thread, ThreadIx};

use super::code::Code;
use super::view::{text, View};
use crate::procfs::ThreadFigures;

/// How many stacks to look back through for one that holds an address: those of ended threads overlap.
const LOOK_BACK: usize = 16;

/// The wait that a thread is in, as its record has it; `since_ns` 0 = none.
#[derive(PartialEq, Eq)]
pub(super) struct Waiting {
    pub object: u64,
    pub since_ns: u64,
    pub detail: abi::Ref,
    pub op: u32,
    /// Who held what it waits for when the wait began, and where that was acquired; 0 = unknown.
    pub peer_tid: u32,
    pub peer_frame: u32,
}

impl Waiting {
    pub const fn of(record: &abi::Thread) -> Self {
        Self {
            object: record.wait_obj,
            since_ns: record.wait_since_ns,
            detail: record.wait_detail,
            op: record.wait_op,
            peer_tid: record.wait_peer_tid,
            peer_frame: record.wait_peer_frame,
        }
    }
}

pub(super) struct Threads {
    threads: Vec<Thread>,
    /// What each waited for when its record was read first.
    waits: Vec<Waiting>,
    /// Where the agent's record of each is: it has 12 KB, and there may be thousands.
    places: Vec<usize>,
    by_index: HashMap<u32, ThreadIx>,
    by_tid: HashMap<u32, ThreadIx>,
    /// (lowest address, one past the highest, thread), in order.
    stacks: Vec<(u64, u64, ThreadIx)>,
}

impl Threads {
    pub fn new(
        view: &View<'_>,
        code: &mut Code<'_, '_>,
        process_end_ns: u64,
        process_ended: bool,
        polled: &HashMap<u32, ThreadFigures>,
    ) -> Self {
        let mut records: Vec<(u32, usize)> = Vec::new();
        for block in view.blocks(abi::CV_BLOCK_THREAD) {
            for (at, record) in view.items::<abi::Thread>(block) {
                match record.state {
                    abi::CV_THREAD_CREATED | abi::CV_THREAD_RUNNING | abi::CV_THREAD_ENDED => {
                        records.push((record.index, at))
                    }
                    abi::CV_THREAD_FREE | abi::CV_THREAD_FAILED => {}
                    _ => view.mark_damaged(),
                }
            }
        }
        records.sort_by_key(|r| r.0); // stable: of two with one index the first counts
        records.dedup_by(|later, first| {
            let same = later.0 == first.0;
            if same {
                view.mark_damaged();
            }
            same
        });

        let mut all = Self {
            threads: Vec::with_capacity(records.len()),
            waits: Vec::with_capacity(records.len()),
            by_index: HashMap::new(),
            by_tid: HashMap::new(),
            stacks: Vec::new(),
            places: Vec::with_capacity(records.len()),
        };
        for (index, at) in records {
            let Some(record) = view.at::<abi::Thread>(at) else {
                continue;
            };
            let ix = all.threads.len() as ThreadIx;
            let thread = thread(
                &record,
                code,
                process_end_ns,
                process_ended,
                polled.get(&record.tid),
            );
            all.by_index.insert(index, ix);
            if thread.tid != 0 {
                // A tid that came back belongs to the thread that began last.
                let holder = all.by_tid.entry(thread.tid).or_insert(ix);
                if all
                    .threads
                    .get(*holder as usize)
                    .is_some_and(|t: &Thread| t.start_ns <= thread.start_ns)
                {
                    *holder = ix;
                }
            }
            if thread.stack_hi > thread.stack_lo && thread.stack_lo != 0 {
                all.stacks.push((thread.stack_lo, thread.stack_hi, ix));
            }
            all.threads.push(thread);
            all.waits.push(Waiting::of(&record));
            all.places.push(at);
        }
        all.stacks.sort_unstable();
        all
    }

    /// What a thread waited for when its record was read first: of a running program that is before all that the threads
    /// did, which can take longer to read than their waits last.
    pub fn waited_for(&self, thread: ThreadIx) -> Option<&Waiting> {
        self.waits.get(thread as usize)
    }

    /// All threads with the agent's record of each.
    pub fn records<'a>(
        &'a self,
        view: &'a View<'_>,
    ) -> impl Iterator<Item = (ThreadIx, abi::Thread, &'a Thread)> {
        let both = self.places.iter().zip(&self.threads).enumerate();
        both.filter_map(|(ix, (&at, thread))| Some((ix as ThreadIx, view.at(at)?, thread)))
    }

    /// The thread that owns a block.
    pub fn by_index(&self, index: u32) -> Option<ThreadIx> {
        self.by_index.get(&index).copied()
    }

    /// All threads by the number of their record.
    pub fn numbers(&self) -> &HashMap<u32, ThreadIx> {
        &self.by_index
    }

    /// The thread with this tid.
    pub fn by_tid(&self, tid: u32) -> Option<ThreadIx> {
        self.by_tid.get(&tid).copied()
    }

    /// The thread on whose stack an address is.
    pub fn by_stack(&self, address: u64) -> Option<ThreadIx> {
        let next = self.stacks.partition_point(|s| s.0 <= address);
        let candidates = self.stacks.get(next.saturating_sub(LOOK_BACK)..next)?;
        candidates.iter().rev().find(|s| address < s.1).map(|s| s.2)
    }

    pub fn take(&mut self) -> Vec<Thread> {
        std::mem::take(&mut self.threads)
    }
}

fn thread(
    raw: &abi::Thread,
    code: &mut Code<'_, '_>,
    process_end_ns: u64,
    process_ended: bool,
    polled: Option<&ThreadFigures>,
) -> Thread {
    let ran = raw.state != abi::CV_THREAD_CREATED || raw.lives > 0;
    let ended = raw.end_ns != 0;
    let end_ns = match (ran, ended) {
        (false, _) => 0,
        (true, true) => raw.end_ns.max(raw.start_ns),
        (true, false) => process_end_ns.max(raw.start_ns),
    };
    let mut thread = Thread {
        tid: if ran { raw.tid } else { 0 },
        parent_tid: raw.parent_tid,
        name: text(&raw.name),
        start: code.frame(raw.start_frame),
        create_stack: code.stack(raw.create_stack),
        start_ns: if ran { raw.start_ns } else { 0 },
        end_ns,
        cpu_ns: raw.cpu_ns,
        user_ns: raw.user_ns,
        sys_ns: raw.sys_ns,
        run_delay_ns: (raw.run_delay_ns != 0).then_some(raw.run_delay_ns),
        voluntary_switches: raw.voluntary_switches,
        involuntary_switches: raw.involuntary_switches,
        cpu_exact: ran && (ended || process_ended) && raw.cpu_ns != 0,
        lives: raw.lives,
        // before it runs, the record holds the size here
        stack_lo: if ran { raw.stack_lo } else { 0 },
        stack_hi: if ran { raw.stack_hi } else { 0 },
    };
    if let Some(polled) = polled.filter(|_| ran) {
        if thread.name.is_empty() {
            thread.name.clone_from(&polled.name);
        }
        // Killed before it could say, or in a sandbox: the last poll is the best there is.
        if !thread.cpu_exact && polled.cpu_ns > thread.cpu_ns {
            thread.cpu_ns = polled.cpu_ns;
            thread.user_ns = polled.user_ns;
            thread.sys_ns = polled.sys_ns;
            thread.run_delay_ns = polled.run_delay_ns;
            thread.voluntary_switches = polled.voluntary_switches;
            thread.involuntary_switches = polled.involuntary_switches;
        }
    }
    if thread.run_delay_ns.is_none() {
        thread.run_delay_ns = polled.filter(|_| ran).and_then(|p| run_delay(&thread, p));
    }
    thread
}

/// The thread went on after it was seen last: what it waited for a processor until its end, as far as it then
/// ran at the same rate. `None` where it was another thread with its tid that was seen.
fn run_delay(thread: &Thread, polled: &ThreadFigures) -> Option<u64> {
    const OTHER_THREAD_NS: u64 = 50_000_000; // more than the two ways to measure CPU time differ
    let delay_ns = polled.run_delay_ns?;
    if polled.cpu_ns > thread.cpu_ns.saturating_add(OTHER_THREAD_NS) {
        return None;
    }
    let later = thread.cpu_ns as f64 / polled.cpu_ns.max(1) as f64;
    let delay_ns = (delay_ns as f64 * later.clamp(1.0, 2.0)) as u64;
    let life_ns = thread.end_ns.saturating_sub(thread.start_ns);
    Some(delay_ns.min(life_ns.saturating_sub(thread.cpu_ns)))
}
