//! From what was counted by address to the tables of the profile.

use std::collections::{HashMap, HashSet};

use convoy_profile::{
    CallKind, CodeIx, FrameIx, Op, SectionCall, SectionCode, SectionFollow, SectionInput,
    SectionSample, SectionSampling, SectionSite, SectionSiteIx, SectionWord, Sections, Touch,
    WordIx, WordSeen,
};

use crate::accounting::{Accounting, Process};
use crate::code;
use crate::input::Places;
use crate::objects;
use crate::site::{CallRun, RawCall, Site};
use crate::touches::RawTouch;
use crate::words::Seen;

pub(crate) fn finish(
    mut from: Accounting,
    sampling: SectionSampling,
    places: &mut dyn Places,
) -> Sections {
    let mut out = Finish {
        tables: Sections {
            sampling,
            ..Sections::default()
        },
        words: HashMap::new(),
        frames: HashMap::new(),
        places,
    };
    let objects = object_words(&from.sites, out.places);
    let mut numbers = HashMap::new();
    for (was, site) in (0u32..).zip(std::mem::take(&mut from.sites)) {
        let Some(process) = from.processes.get(&site.key.process) else {
            continue;
        };
        if let Some(number) = out.site(site, process, &objects) {
            numbers.insert(was, number);
        }
    }
    let mut follows: Vec<SectionFollow> = from
        .follows
        .iter()
        .filter_map(|((first, then), follow)| {
            Some(SectionFollow {
                first: *numbers.get(first)?,
                then: *numbers.get(then)?,
                n: follow.n,
                gap_median_ns: follow.median_ns(),
            })
        })
        .collect();
    follows.sort_by_key(|follow| (follow.first, follow.then));
    out.tables.follows = follows;
    // Tables grow by doubling, and the model's stand beside them.
    out.tables.code.shrink_to_fit();
    out.tables.words.shrink_to_fit();
    out.tables.samples.shrink_to_fit();
    out.tables.drops = from.drops.into_iter().collect();
    out.tables
}

/// Words of locks, by process.
type ObjectWords = HashSet<(u32, u64)>;

fn object_words(sites: &[Site], places: &mut dyn Places) -> ObjectWords {
    let mut words = ObjectWords::new();
    for site in sites {
        let process = site.key.process;
        let mut mark = |object: u64, op: Option<Op>| {
            let n = op.map_or(0, words_of);
            words.extend((0..n).map(|i| (process, (object >> 3) + i)));
        };
        for &object in &site.objects {
            mark(object, site.key.op);
        }
        for call in site.calls.keys() {
            if let RawCall::Op(op) = call.kind {
                mark(call.object, places.op(op));
            }
        }
    }
    words
}

/// Whole words of what an operation is done to, on 64-bit machines with glibc. What is smaller than a word shares it
/// with data.
fn words_of(op: Op) -> u64 {
    match op {
        Op::MutexLock | Op::MutexTimedlock | Op::MutexTrylock => 5,
        Op::RwlockRd
        | Op::RwlockWr
        | Op::RwlockTimedrd
        | Op::RwlockTimedwr
        | Op::RwlockTryrd
        | Op::RwlockTrywr => 7,
        Op::CondWait | Op::CondTimedwait | Op::CondSignal | Op::CondBroadcast => 6,
        Op::SemWait | Op::SemTimedwait | Op::SemTrywait | Op::SemPost | Op::BarrierWait => 4,
        _ => 0,
    }
}

struct Finish<'a> {
    tables: Sections,
    words: HashMap<(u32, u64), WordIx>,
    frames: HashMap<(u32, u64), FrameIx>,
    places: &'a mut dyn Places,
}

/// A site, its process, and where it is now.
struct At<'a> {
    number: SectionSiteIx,
    process: &'a Process,
    of: u32,
    ix: u32,
    objects: &'a ObjectWords,
}

impl Finish<'_> {
    fn frame(&mut self, process: u32, ip: u64) -> FrameIx {
        let places = &mut *self.places;
        *self
            .frames
            .entry((process, ip))
            .or_insert_with(|| places.instruction(process, ip))
    }

    fn site(
        &mut self,
        site: Site,
        process: &Process,
        objects: &ObjectWords,
    ) -> Option<SectionSiteIx> {
        let of = site.key.process;
        let ix = self.places.process(of)?;
        let number = self.tables.sites.len() as SectionSiteIx;
        let at = At {
            number,
            process,
            of,
            ix,
            objects,
        };
        let object = match site.key.object {
            0 => None,
            address => self.places.object(of, address),
        };
        let row = SectionSite {
            process: ix,
            object,
            stack: self.places.stack(of, site.key.stack),
            frame: self.places.return_address(of, site.key.ra),
            op: site.key.op,
            threads: site.threads.len() as u32,
            objects: site.objects.len() as u32,
            run: site.run,
            waited: site.waited,
            ends: site.ends,
            whole: site.whole,
            largest: site.largest,
            distinct_words: site.distinct.count(),
            words: site
                .distinct
                .words()
                .map(|word| self.word(&at, word))
                .collect(),
        };
        self.tables.sites.push(row);
        let code = self.code(&at, &site);
        self.samples(&at, &site, &code);
        self.calls(&at, &site);
        Some(number)
    }

    fn word(&mut self, at: &At<'_>, word: u64) -> WordIx {
        let next = self.tables.words.len() as WordIx;
        let ix = *self.words.entry((at.of, word)).or_insert(next);
        if ix == next {
            let seen = at.process.words.get(word);
            let object = at.objects.contains(&(at.of, word));
            let seen = self.seen(at.of, seen, object);
            self.tables.words.push(SectionWord {
                process: at.ix,
                address: word << 3,
                seen,
                allocated_by: None,
                symbol: None,
            });
        }
        ix
    }

    /// A word that found no room in the table may be anybody's.
    fn seen(&mut self, process: u32, seen: Option<Seen>, object: bool) -> WordSeen {
        let Some(seen) = seen else {
            return WordSeen {
                read: true,
                written: true,
                writers: true,
                flow: true,
                object,
                ..WordSeen::default()
            };
        };
        WordSeen {
            only: seen
                .only()
                .and_then(|thread| self.places.thread(process, thread)),
            sections: seen.sections(),
            read: seen.read(),
            written: seen.written(),
            writers: seen.writers(),
            flow: seen.flow(),
            atomic: seen.atomic(),
            allocator: seen.allocator(),
            own_stack: seen.own_stack(),
            object,
        }
    }

    /// The rows of a site's code. Gives for each of its accesses the row.
    fn code(&mut self, at: &At<'_>, site: &Site) -> Vec<Option<CodeIx>> {
        let rows = code::rows(site, &at.process.blocks);
        let mut of_access = vec![None; site.accesses.len()];
        for row in rows {
            let ix = self.tables.code.len() as CodeIx;
            for &access in &row.accesses {
                if let Some(slot) = of_access.get_mut(access as usize) {
                    *slot = Some(ix);
                }
            }
            let words = row.words.iter().map(|&word| self.word(at, word)).collect();
            let code = SectionCode {
                site: at.number,
                frame: self.frame(at.of, row.ip),
                from: row.from.map(|ip| self.frame(at.of, ip)),
                executions: row.executions,
                instructions: row.instructions,
                allocator: row.allocator,
                accesses: row.n,
                size: row.size,
                field: row.field,
                reads: row.reads,
                writes: row.writes,
                atomic: row.atomic,
                words,
            };
            self.tables.code.push(code);
        }
        of_access
    }

    fn samples(&mut self, at: &At<'_>, site: &Site, code: &[Option<CodeIx>]) {
        for kept in &site.samples {
            let Some(thread) = self.places.thread(at.of, kept.thread) else {
                continue;
            };
            let mut touches = Vec::with_capacity(kept.touches.len());
            for touch in &*kept.touches {
                let seen = at.process.words.get(touch.word).unwrap_or_default();
                if touch.own_stack && seen.only().is_some() {
                    continue;
                }
                let word = self.word(at, touch.word);
                let touch = told(touch, word, code);
                self.allocated(at, &touch);
                touches.push(touch);
            }
            let sample = self.tables.samples.len() as u32;
            if let Some(input) = &kept.input {
                self.tables.inputs.push(SectionInput {
                    sample,
                    resume: kept.ra,
                    object: kept.object,
                    registers: input.registers,
                    stack_lo: kept.stack_lo,
                    instructions: input.instructions,
                    path: input.path,
                    loads: input.loads,
                    found: input.found.to_vec(),
                });
            }
            self.tables.samples.push(SectionSample {
                site: at.number,
                thread,
                object: kept.object,
                weight: u64::from(kept.weight.max(1)),
                begin_ns: kept.begin_ns,
                totals: kept.totals,
                touches,
                untold: kept.untold,
            });
        }
    }

    /// Looks up who asked for the object that a word was reached in.
    fn allocated(&mut self, at: &At<'_>, touch: &Touch) {
        let Some(word) = self.tables.words.get(touch.word as usize) else {
            return;
        };
        if word.allocated_by.is_some() {
            return;
        }
        let codes = [touch.read_by, touch.written_by].into_iter().flatten();
        let fields = codes.filter_map(|ix| self.tables.code.get(ix as usize)?.field);
        let begins = fields.map(|field| objects::begin(word.address >> 3, field));
        let mut asked = begins.filter_map(|begin| at.process.objects.asked_by(begin));
        let block = asked.find_map(|id| at.process.blocks.get(id));
        let frame = block.map(|block| self.frame(at.of, code::last_instruction(block)));
        if let Some(word) = self.tables.words.get_mut(touch.word as usize) {
            word.allocated_by = frame;
        }
    }

    fn calls(&mut self, at: &At<'_>, site: &Site) {
        let mut calls: Vec<_> = site.calls.iter().collect();
        calls.sort_by_key(|(key, run)| (std::cmp::Reverse(run.n), key.block, key.object));
        let mut rows: Vec<SectionCall> = Vec::with_capacity(calls.len());
        for (key, run) in calls {
            let kind = match key.kind {
                RawCall::Syscall(nr) => CallKind::Syscall(nr),
                RawCall::Release => CallKind::Release,
                RawCall::Op(op) => self.places.op(op).map_or(CallKind::Agent, CallKind::Op),
            };
            let block = at.process.blocks.get(key.block);
            let row = SectionCall {
                site: at.number,
                kind,
                object: match key.object {
                    0 => None,
                    address => self.places.object(at.of, address),
                },
                frame: block.map(|block| self.frame(at.of, code::last_instruction(block))),
                ..SectionCall::default()
            };
            let same = |other: &SectionCall| {
                (other.kind, other.object, other.frame) == (row.kind, row.object, row.frame)
            };
            match rows.iter().position(same) {
                Some(ix) => sum(&mut rows[ix], run),
                None => {
                    let mut row = row;
                    sum(&mut row, run);
                    rows.push(row);
                }
            }
        }
        self.tables.calls.append(&mut rows);
    }
}

fn sum(row: &mut SectionCall, run: &CallRun) {
    row.n += run.n;
    row.run += run.run;
    row.sections = row.sections.max(run.sections);
    row.waits += run.waits;
    row.wait_ns += run.wait_ns;
    row.wait_max_ns = row.wait_max_ns.max(run.wait_max_ns);
}

fn told(touch: &RawTouch, word: WordIx, code: &[Option<CodeIx>]) -> Touch {
    let row = |access: u32| code.get(access as usize).copied().flatten();
    Touch {
        word,
        reads: touch.reads,
        writes: touch.writes,
        read_by: row(touch.read_by),
        written_by: row(touch.written_by),
        read_first: touch.read_first,
    }
}
