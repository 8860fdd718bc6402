//! What threads did to objects: counts, waits, holds and pairs, with what was still going on at the end.

use std::collections::HashMap;

use convoy_abi as abi;
use convoy_profile::{
    Count, Detail, FrameIx, ObjectIx, Op, Pair, StackIx, ThreadIx, Unattributed, Wait,
};

mod unfinished;

use super::code::Code;
use super::objects::{op_of, Objects};
use super::threads::Threads;
use super::view::{Block, View};

/// The rows of the profile that say what was done.
#[derive(Debug, Default)]
pub(super) struct Uses {
    pub counts: Vec<Count>,
    pub unattributed: Vec<Unattributed>,
    pub details: Vec<Detail>,
    pub pairs: Vec<Pair>,
}

type PairKey = (
    ObjectIx,
    StackIx,
    ThreadIx,
    Option<ThreadIx>,
    Option<FrameIx>,
    StackIx,
);

struct Reader<'r, 'v, 'a> {
    view: &'v View<'a>,
    code: &'r mut Code<'v, 'a>,
    threads: &'r Threads,
    objects: &'r mut Objects,
    counts: HashMap<(ObjectIx, FrameIx, ThreadIx, Op), Count>,
    unattributed: HashMap<(FrameIx, ThreadIx, Op), Unattributed>,
    details: Vec<Detail>,
    detail_keys: HashMap<(ObjectIx, StackIx, ThreadIx, Op), usize>,
    /// Details by the place of their entry in the arena.
    detail_places: HashMap<usize, usize>,
    pairs: HashMap<PairKey, Pair>,
}

impl Uses {
    pub fn new<'a, 'v>(
        view: &'v View<'a>,
        code: &mut Code<'v, 'a>,
        threads: &Threads,
        objects: &mut Objects,
        end_ns: u64,
    ) -> Self {
        let mut reader = Reader {
            view,
            code,
            threads,
            objects,
            counts: HashMap::new(),
            unattributed: HashMap::new(),
            details: Vec::new(),
            detail_keys: HashMap::new(),
            detail_places: HashMap::new(),
            pairs: HashMap::new(),
        };
        for block in view.blocks(abi::CV_BLOCK_ENTRIES) {
            reader.entries(block);
        }
        let newest_sites = newest_sites(view);
        for (ix, record, thread) in threads.records(view) {
            reader.cache(ix, &record);
            reader.sites(ix, &record, newest_sites.get(&record.index).copied());
            let until_ns = if thread.end_ns != 0 {
                thread.end_ns
            } else {
                end_ns
            };
            reader.holds(ix, &record, until_ns);
            reader.unfinished_wait(ix, &record, until_ns);
        }
        reader.finish()
    }
}

/// The grown site table of each thread, by record index: the last block is the newest.
fn newest_sites<'v>(view: &'v View<'_>) -> HashMap<u32, &'v Block> {
    view.blocks(abi::CV_BLOCK_SITES)
        .map(|block| (block.owner, block))
        .collect()
}

impl Reader<'_, '_, '_> {
    fn entries(&mut self, block: &Block) {
        let Some(thread) = self.threads.by_index(block.owner) else {
            self.view.mark_damaged();
            return;
        };
        for (at, entry) in self.view.items::<abi::Entry>(block) {
            if entry.kind == abi::CV_ENTRY_NONE {
                continue; // not finished
            }
            let (Some(op), true) = (op_of(entry.op), entry.obj != 0) else {
                self.view.mark_damaged();
                continue;
            };
            match entry.kind {
                abi::CV_ENTRY_COUNT => {
                    let Some(frame) = self.code.frame(entry.site) else {
                        self.view.mark_damaged();
                        continue;
                    };
                    let object = self.objects.of(entry.obj, op);
                    self.count(object, frame, thread, op, entry.count);
                }
                abi::CV_ENTRY_DETAIL => self.detail(at, &entry, thread, op),
                abi::CV_ENTRY_PAIR => {
                    let object = self.objects.of(entry.obj, op);
                    let stack = self.code.stack(entry.site);
                    self.pair(object, stack, thread, &entry.pair());
                }
                _ => self.view.mark_damaged(),
            }
        }
    }

    fn count(
        &mut self,
        object: ObjectIx,
        frame: FrameIx,
        thread: ThreadIx,
        op: Op,
        raw: abi::EntryCount,
    ) {
        if raw.n == 0 && raw.failed == 0 && raw.sampled == 0 {
            return;
        }
        let empty = Count {
            object,
            frame,
            thread,
            op,
            n: 0,
            failed: 0,
            sampled: 0,
        };
        let count = self
            .counts
            .entry((object, frame, thread, op))
            .or_insert(empty);
        count.n = count.n.saturating_add(raw.n);
        count.failed = count.failed.saturating_add(raw.failed);
        count.sampled = count.sampled.saturating_add(raw.sampled);
    }

    fn cache(&mut self, thread: ThreadIx, record: &abi::Thread) {
        for slot in record
            .cache
            .iter()
            .filter(|s| s.obj != 0 && (s.n != 0 || s.failed != 0))
        {
            let Some(op) = op_of(slot.op) else {
                self.view.mark_damaged();
                continue;
            };
            let frame = self.code.frame_of_return_address(slot.ra);
            let object = self.objects.of(slot.obj, op);
            let raw = abi::EntryCount {
                n: slot.n,
                failed: slot.failed.into(),
                ..Default::default()
            };
            self.count(object, frame, thread, op, raw);
        }
    }

    fn sites(&mut self, thread: ThreadIx, record: &abi::Thread, newest: Option<&Block>) {
        let named = (record.sites_table != 0)
            .then(|| self.view.block_at(record.sites_table))
            .flatten();
        let named = named.filter(|b| b.kind == abi::CV_BLOCK_SITES && b.owner == record.index);
        let grown = if record.sites_table != 0 {
            named.or(newest)
        } else {
            None
        };
        let sites: Vec<abi::Site> = match grown {
            Some(block) => self
                .view
                .items::<abi::Site>(block)
                .map(|(_, site)| site)
                .collect(),
            None => record.sites.to_vec(),
        };
        for site in sites
            .iter()
            .filter(|s| s.ra != 0 && (s.n != 0 || s.failed != 0))
        {
            let Some(op) = op_of(site.op) else {
                self.view.mark_damaged();
                continue;
            };
            let known = self.code.frame(site.frame);
            let frame = known.unwrap_or_else(|| self.code.frame_of_return_address(site.ra));
            let empty = Unattributed {
                frame,
                thread,
                op,
                n: 0,
                failed: 0,
            };
            let row = self
                .unattributed
                .entry((frame, thread, op))
                .or_insert(empty);
            row.n = row.n.saturating_add(site.n);
            row.failed = row.failed.saturating_add(site.failed.into());
        }
    }

    fn detail(&mut self, at: usize, entry: &abi::Entry, thread: ThreadIx, op: Op) {
        let raw = entry.detail();
        let object = self.objects.of(entry.obj, op);
        let stack = self.code.stack(entry.site);
        let ix = self.detail_of(object, stack, thread, op);
        self.detail_places.insert(at, ix);
        let wait = match raw.wait {
            0 => None,
            reference => {
                let found = self
                    .view
                    .get::<abi::WaitDetail>(reference, abi::CV_BLOCK_WAITS);
                if found.is_none() {
                    self.view.mark_damaged();
                }
                found
            }
        };
        let detail = &mut self.details[ix];
        detail.samples = detail.samples.saturating_add(raw.samples);
        detail.acquire_n = detail.acquire_n.saturating_add(raw.acquire_n);
        detail.acquire_sum_ns = detail.acquire_sum_ns.saturating_add(raw.acquire_sum_ns);
        detail.hold_n = detail.hold_n.saturating_add(raw.hold_n);
        detail.hold_sum_ns = detail.hold_sum_ns.saturating_add(raw.hold_sum_ns);
        detail.hold_sampled_n = detail.hold_sampled_n.saturating_add(raw.hold_sampled_n);
        detail.hold_sampled_sum_ns = detail
            .hold_sampled_sum_ns
            .saturating_add(raw.hold_sampled_sum_ns);
        detail.hold_max_us = detail.hold_max_us.max(raw.hold_max_us);
        if let Some(raw) = wait.filter(|w| *w != abi::WaitDetail::default()) {
            add_waits(detail.wait.get_or_insert_default(), &raw);
        }
    }

    /// The row of a detail, made if there is none.
    fn detail_of(&mut self, object: ObjectIx, stack: StackIx, thread: ThreadIx, op: Op) -> usize {
        let next = self.details.len();
        let ix = *self
            .detail_keys
            .entry((object, stack, thread, op))
            .or_insert(next);
        if ix == next {
            self.details.push(Detail {
                object,
                stack,
                thread,
                op: Some(op),
                ..Detail::default()
            });
        }
        ix
    }

    /// The row of the entry that a record names, if it is one of this thread's.
    fn detail_at(&self, reference: abi::Ref, thread: ThreadIx) -> Option<usize> {
        let place = usize::try_from(abi::ref_offset(reference)).ok()?;
        let ix = *self.detail_places.get(&place)?;
        (self.details[ix].thread == thread).then_some(ix)
    }

    /// The same if it is about this object, else the row of the unknown stack: its entry could not be made.
    fn detail_for(
        &mut self,
        reference: abi::Ref,
        object: ObjectIx,
        thread: ThreadIx,
        op: Op,
    ) -> usize {
        self.detail_at(reference, thread)
            .filter(|ix| self.details[*ix].object == object)
            .unwrap_or_else(|| self.detail_of(object, 0, thread, op))
    }

    fn pair(&mut self, object: ObjectIx, stack: StackIx, thread: ThreadIx, raw: &abi::EntryPair) {
        if raw.n == 0 {
            return;
        }
        let peer = self.threads.by_tid(raw.peer_tid);
        let peer_frame = self.code.frame(raw.peer_frame);
        let peer_stack = self.code.stack(raw.peer_stack);
        let pair = self
            .pairs
            .entry((object, stack, thread, peer, peer_frame, peer_stack))
            .or_insert(Pair {
                object,
                stack,
                thread,
                peer,
                peer_frame,
                peer_stack,
                ..Pair::default()
            });
        pair.n = pair.n.saturating_add(raw.n);
        pair.wait_sum_ns = pair.wait_sum_ns.saturating_add(raw.wait_sum_ns);
        pair.wait_max_ns = pair.wait_max_ns.max(raw.wait_max_ns);
    }

    /// The rows in an order that depends on nothing but their content.
    fn finish(self) -> Uses {
        let mut uses = Uses {
            counts: self.counts.into_values().collect(),
            unattributed: self.unattributed.into_values().collect(),
            details: self.details,
            pairs: self.pairs.into_values().collect(),
        };
        uses.counts
            .sort_unstable_by_key(|c| (c.object, c.frame, c.thread, c.op));
        uses.unattributed
            .sort_unstable_by_key(|u| (u.frame, u.thread, u.op));
        uses.details
            .sort_by_key(|d| (d.object, d.stack, d.thread, d.op));
        uses.pairs.sort_unstable_by_key(|p| {
            (
                p.object,
                p.stack,
                p.thread,
                p.peer,
                p.peer_frame,
                p.peer_stack,
            )
        });
        for wait in uses.details.iter_mut().filter_map(|d| d.wait.as_mut()) {
            let used = wait
                .hist
                .iter()
                .rposition(|n| *n != 0)
                .map_or(0, |last| last + 1);
            wait.hist.truncate(used);
        }
        uses
    }
}

fn add_waits(wait: &mut Wait, raw: &abi::WaitDetail) {
    wait.n = wait.n.saturating_add(raw.n);
    wait.sum_ns = wait.sum_ns.saturating_add(raw.sum_ns);
    wait.max_ns = wait.max_ns.max(raw.max_ns);
    wait.timeouts = wait.timeouts.saturating_add(raw.timeouts);
    wait.timeout_sum_ns = wait.timeout_sum_ns.saturating_add(raw.timeout_sum_ns);
    wait.last_arrivals = wait.last_arrivals.saturating_add(raw.last_arrivals);
    wait.busy_sum_ns = wait.busy_sum_ns.saturating_add(raw.busy_sum_ns);
    wait.hist.resize(abi::CV_HIST, 0);
    for (mine, theirs) in wait.hist.iter_mut().zip(raw.hist) {
        *mine = mine.saturating_add(theirs);
    }
}
