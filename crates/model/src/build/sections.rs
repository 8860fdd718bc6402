//! The rows of traced sections with the model's ids. A row whose thread or process leads nowhere is left out, and those that
//! refer to it with it.

use std::collections::HashMap;

use convoy_profile as profile;
use convoy_profile::FrameIx;

use super::own_pages;
use super::sched::Names;
use super::sites::{expand_frame, FileNames};
use crate::{
    Called, ProcessId, Region, SectionCall, SectionCode, SectionFollow, SectionSample, SectionSite,
    SectionWord, Sections, SiteFrame, Touch,
};

/// Of a thread's stack mapping, the upper end that the C library keeps for itself and for thread-local variables.
/// It holds `struct pthread` (2.3 KiB) and the static thread-local storage.
const THREAD_LOCAL_BYTES: u64 = 4096;

/// The rows, joined with a model that is complete otherwise.
pub(super) fn join(
    from: &profile::Sections,
    processes: &[profile::Process],
    names: &Names,
) -> Sections {
    let mut joiner = Joiner {
        processes,
        files: processes.iter().map(FileNames::of).collect(),
        names,
        places: Vec::new(),
        by_frame: HashMap::new(),
    };
    let (mut words, word_ids) = keep(&from.words, |row| joiner.word(row));
    own_pages::note(&mut words);
    let at_word = |ix: u32| word_ids.get(ix as usize).copied().flatten();
    let (sites, site_ids) = keep(&from.sites, |row| joiner.site(row, &at_word));
    let at_site = |ix: u32| site_ids.get(ix as usize).copied().flatten();
    let process_of = |ix: u32| {
        from.sites
            .get(ix as usize)
            .map_or(u32::MAX, |row| row.process)
    };
    let (code, code_ids) = keep(&from.code, |row| {
        Some(SectionCode {
            site: at_site(row.site)?,
            place: joiner.place(process_of(row.site), row.frame),
            from: row
                .from
                .map(|frame| joiner.place(process_of(row.site), frame)),
            executions: row.executions,
            instructions: row.instructions,
            allocator: row.allocator,
            accesses: row.accesses,
            size: row.size,
            field: row.field,
            reads: row.reads,
            writes: row.writes,
            atomic: row.atomic,
            words: row.words.iter().filter_map(|&ix| at_word(ix)).collect(),
        })
    });
    let at_code = |ix: Option<u32>| code_ids.get(ix? as usize).copied().flatten();
    let touch = |row: &profile::Touch| {
        Some(Touch {
            word: at_word(row.word)?,
            reads: row.reads,
            writes: row.writes,
            read_by: at_code(row.read_by),
            written_by: at_code(row.written_by),
            read_first: row.read_first,
        })
    };
    let samples = keep(&from.samples, |row| {
        let process = names.processes.get(process_of(row.site) as usize)?;
        Some(SectionSample {
            site: at_site(row.site)?,
            thread: process.threads.get(row.thread as usize).copied()??,
            object: row.object,
            weight: row.weight.max(1),
            begin_ns: row.begin_ns,
            totals: row.totals,
            touches: row.touches.iter().filter_map(touch).collect(),
            untold: row.untold,
        })
    });
    let calls = keep(&from.calls, |row| {
        let site = at_site(row.site)?;
        let process = process_of(row.site);
        let object = || {
            let names = names.processes.get(process as usize)?;
            names.objects.get(row.object? as usize).copied()
        };
        Some(SectionCall {
            site,
            what: match row.kind {
                profile::CallKind::Syscall(nr) => Called::Syscall(nr),
                profile::CallKind::Op(op) => Called::Op(op, object()),
                profile::CallKind::Agent => Called::Agent,
                profile::CallKind::Release => Called::Release,
            },
            place: row.frame.map(|frame| joiner.place(process, frame)),
            n: row.n,
            run: row.run,
            sections: row.sections,
            waits: row.waits,
            wait_ns: row.wait_ns,
            wait_max_ns: row.wait_max_ns,
        })
    });
    let follows = keep(&from.follows, |row| {
        Some(SectionFollow {
            first: at_site(row.first)?,
            then: at_site(row.then)?,
            n: row.n,
            gap_median_ns: row.gap_median_ns,
        })
    });
    Sections {
        sampling: from.sampling,
        sites,
        code,
        words,
        samples: samples.0,
        calls: calls.0,
        follows: follows.0,
        places: joiner.places,
        drops: from.drops.clone(),
    }
}

/// The rows that lead somewhere, and where each of the old ones went.
fn keep<T, U>(
    rows: &[T],
    mut translate: impl FnMut(&T) -> Option<U>,
) -> (Vec<U>, Vec<Option<u32>>) {
    let mut kept = Vec::with_capacity(rows.len());
    let mut ids = Vec::with_capacity(rows.len());
    for row in rows {
        let row = translate(row);
        ids.push(row.is_some().then_some(kept.len() as u32));
        kept.extend(row);
    }
    (kept, ids)
}

struct Joiner<'a> {
    processes: &'a [profile::Process],
    files: Vec<FileNames<'a>>,
    names: &'a Names,
    places: Vec<Vec<SiteFrame>>,
    by_frame: HashMap<(u32, FrameIx), u32>,
}

impl Joiner<'_> {
    fn place(&mut self, process: u32, frame: FrameIx) -> u32 {
        let (processes, places) = (self.processes, &mut self.places);
        *self.by_frame.entry((process, frame)).or_insert_with(|| {
            let process = processes
                .get(process as usize)
                .zip(self.files.get(process as usize));
            places.push(process.map_or_else(Vec::new, |(process, files)| {
                expand_frame(process, files, frame)
            }));
            places.len() as u32 - 1
        })
    }

    fn site(
        &self,
        row: &profile::SectionSite,
        word: &impl Fn(u32) -> Option<u32>,
    ) -> Option<SectionSite> {
        let names = self.names.processes.get(row.process as usize)?;
        Some(SectionSite {
            process: ProcessId(row.process),
            object: row
                .object
                .and_then(|ix| names.objects.get(ix as usize).copied()),
            site: *names.section_sites.get(&(row.stack, row.frame))?,
            op: row.op,
            threads: row.threads,
            objects: row.objects,
            run: row.run,
            waited: row.waited,
            ends: row.ends,
            whole: row.whole,
            largest: row.largest,
            distinct_words: row.distinct_words,
            words: row.words.iter().filter_map(|&ix| word(ix)).collect(),
        })
    }

    fn word(&mut self, row: &profile::SectionWord) -> Option<SectionWord> {
        let process = self.processes.get(row.process as usize)?;
        let names = self.names.processes.get(row.process as usize)?;
        let thread = |ix: u32| names.threads.get(ix as usize).copied().flatten();
        Some(SectionWord {
            process: ProcessId(row.process),
            address: row.address,
            seen: row.seen,
            only: row.seen.only.and_then(thread),
            amid_own: false,
            region: region(process, row),
            allocated_by: row.allocated_by.map(|frame| self.place(row.process, frame)),
            symbol: row.symbol.clone(),
        })
    }
}

fn region(process: &profile::Process, word: &profile::SectionWord) -> Region {
    if word.seen.object {
        return Region::Lock;
    }
    let on_stack =
        |thread: &profile::Thread| (thread.stack_lo..thread.stack_hi).contains(&word.address);
    if let Some(ix) = process.threads.iter().position(on_stack) {
        // The main thread's stack ends with the program's arguments instead.
        let above = process.threads[ix].stack_hi - word.address;
        return match ix > 0 && above <= THREAD_LOCAL_BYTES {
            true => Region::ThreadLocal,
            false => Region::Stack,
        };
    }
    let holds = |module: &profile::Module| (module.lo..module.hi).contains(&word.address);
    match word.symbol.is_some() || process.modules.iter().any(holds) {
        true => Region::Global,
        false => Region::Heap,
    }
}
