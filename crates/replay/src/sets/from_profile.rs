//! Read and write sets from the profile of a `convoy diagnose` run.

use std::collections::HashMap;

use convoy_model::{Model, Region, SectionWord, Sharing};
use convoy_profile as profile;
use convoy_profile::{CallKind, FrameIx, Profile, SectionInput};

use super::kernel;
use super::{
    Access, CodeLine, Operations, PlaceIx, RunKeys, SampleIx, SectionSets, SetClass, SetSample,
    Update, WordInfo, WordIx, NO_PLACE,
};

impl SectionSets {
    /// Of one process of a profile, and the model made of the same profile. Empty if no section was
    /// looked into.
    ///
    /// Shared data are words that several threads touched, variables of the program, and allocated words
    /// that one thread writes amid those of others (its element of an array). Stacks, thread-local
    /// variables, locks, memory that the sections themselves hand out, and the linker's tables are none.
    pub fn of(profile: &Profile, model: &Model, process: u32, operations: &dyn Operations) -> Self {
        let rows = profile.sections.as_ref().zip(model.sections.as_ref());
        let rows = rows.zip(profile.processes.get(process as usize));
        let Some(((sections, judged), of_process)) = rows else {
            return Self::default();
        };
        let keys = RunKeys::of(of_process);
        let own = |word: &&SectionWord| word.process.0 == process;
        let judged = judged.words.iter().filter(own);
        let mut adapter = Adapter {
            sections,
            operations,
            process,
            judged: judged.map(|word| (word.address, word)).collect(),
            words: HashMap::new(),
            places: HashMap::new(),
            sets: Self {
                threads: keys.threads.clone(),
                ..Self::default()
            },
            keys,
        };
        adapter.add_classes();
        adapter.sets
    }
}

struct Adapter<'a> {
    sections: &'a profile::Sections,
    operations: &'a dyn Operations,
    process: u32,
    /// By address.
    judged: HashMap<u64, &'a SectionWord>,
    words: HashMap<profile::WordIx, WordIx>,
    places: HashMap<FrameIx, PlaceIx>,
    sets: SectionSets,
    keys: RunKeys,
}

impl Adapter<'_> {
    fn add_classes(&mut self) {
        let sites = self.sections.sites.len();
        let mut code_of: Vec<Vec<&profile::SectionCode>> = Vec::new();
        code_of.resize_with(sites, Vec::new);
        for code in &self.sections.code {
            if let Some(of_site) = code_of.get_mut(code.site as usize) {
                of_site.push(code);
            }
        }
        let inputs = self.sections.inputs.iter();
        let inputs: HashMap<u32, &SectionInput> = inputs.map(|of| (of.sample, of)).collect();
        let mut by_site: Vec<Vec<(u32, &profile::SectionSample)>> = Vec::new();
        by_site.resize_with(sites, Vec::new);
        for (ix, sample) in (0..).zip(&self.sections.samples) {
            if let Some(samples) = by_site.get_mut(sample.site as usize) {
                samples.push((ix, sample));
            }
        }
        // One acquire site can have several call stacks: their samples are one class.
        let mut classes: Vec<(SetClass, Vec<SetSample>)> = Vec::new();
        let mut by_key: HashMap<_, usize> = HashMap::new();
        let mut in_kernel = vec![0u64; sites];
        let mut has_effects = vec![false; sites];
        for call in &self.sections.calls {
            let site = call.site as usize;
            let of_site = in_kernel.get_mut(site).zip(has_effects.get_mut(site));
            if let (Some((n, has_effects)), CallKind::Syscall(nr)) = (of_site, call.kind) {
                // Each kind of call has a row: a section with several is in several.
                *n = (*n).max(call.sections);
                *has_effects |= kernel::has_effect(nr);
            }
        }
        let rows = self.sections.sites.iter().zip(by_site).zip(code_of);
        let kernel = in_kernel.into_iter().zip(has_effects);
        for (((site, samples), code), (in_kernel, has_effects)) in rows.zip(kernel) {
            if site.process != self.process {
                continue;
            }
            let at = *by_key.entry((site.object, site.frame)).or_insert_with(|| {
                let object = site.object.and_then(|ix| self.keys.locks.get(ix as usize));
                let class = SetClass {
                    lock: object.cloned().flatten(),
                    site: self.keys.place(site.frame),
                    ..SetClass::default()
                };
                classes.push((class, Vec::new()));
                classes.len() - 1
            });
            let allocates = site.whole.allocator > 0;
            let samples: Vec<SetSample> = samples
                .into_iter()
                .map(|(ix, sample)| {
                    let seen = self.sample(sample, allocates);
                    let called = has_effects && sample.totals.syscalls > 0;
                    SetSample {
                        input: inputs.get(&ix).map(|input| Box::new((*input).clone())),
                        complete: seen.complete && !called,
                        ..seen
                    }
                })
                .collect();
            if let Some((class, of_class)) = classes.get_mut(at) {
                let run = class.run.saturating_add(site.run);
                let traced: u64 = site.ends.iter().fold(0, |sum, n| sum.saturating_add(*n));
                let share = (in_kernel as f64 / traced.max(1) as f64).min(1.0);
                // Call stacks of the site count by how often they ran.
                let weight = site.run as f64 / run.max(1) as f64;
                class.in_kernel += weight * (share - class.in_kernel);
                class.run = run;
                self.add_lines(&code, site.whole.allocator > 0, &mut class.lines);
                of_class.extend(samples);
            }
        }
        for (class, samples) in classes {
            let begin = self.sets.samples.len() as SampleIx;
            self.sets.samples.extend(samples);
            let end = self.sets.samples.len() as SampleIx;
            self.sets.classes.push(SetClass {
                samples: begin..end,
                ..class
            });
        }
    }

    /// Adds what code did to the lines that it is of, which ascend by file and line.
    fn add_lines(
        &self,
        code: &[&profile::SectionCode],
        allocates: bool,
        lines: &mut Vec<CodeLine>,
    ) {
        let is_exchanged = |ix: &profile::WordIx| {
            let word = self.sections.words.get(*ix as usize);
            let judged = word.and_then(|word| self.judged.get(&word.address));
            judged.is_some_and(|word| word.seen.written && is_shared_data(word, allocates))
        };
        for row in code {
            let place = self.keys.place(row.from.unwrap_or(row.frame));
            let shared = row.words.iter().any(is_exchanged);
            let key = (place.file.as_str(), place.line);
            let found = lines.binary_search_by(|line| (line.file.as_str(), line.line).cmp(&key));
            let at = found.unwrap_or_else(|at| {
                let line = CodeLine {
                    file: place.file.clone(),
                    line: place.line,
                    ..CodeLine::default()
                };
                lines.insert(at, line);
                at
            });
            let line = &mut lines[at];
            line.instructions = line.instructions.saturating_add(row.instructions);
            line.shared |= shared;
        }
    }

    fn sample(&mut self, sample: &profile::SectionSample, allocates: bool) -> SetSample {
        let sections = self.sections;
        let mut accesses: Vec<Access> = Vec::new();
        for touch in &sample.touches {
            let word = sections.words.get(touch.word as usize);
            let judged = word.and_then(|word| self.judged.get(&word.address));
            if !judged.is_some_and(|word| is_shared_data(word, allocates)) {
                continue;
            }
            accesses.push(Access {
                word: self.word(touch.word),
                read: touch.reads > 0,
                written: touch.writes > 0,
                update: self.update(touch),
                read_at: self.place(touch.read_by),
                written_at: self.place(touch.written_by),
            });
        }
        accesses.sort_unstable_by_key(|access| access.word);
        accesses.dedup_by_key(|access| access.word);
        SetSample {
            thread: sample.thread,
            lock_addr: self.lock_addr(sample),
            weight: sample.weight.max(1),
            accesses,
            complete: sample.untold == 0,
            input: None,
        }
    }

    fn lock_addr(&self, sample: &profile::SectionSample) -> u64 {
        // The address is only noted where the site stands for several locks.
        let site = self.sections.sites.get(sample.site as usize);
        match site.and_then(|site| site.object) {
            Some(object) => u64::from(object),
            None => sample.object,
        }
    }

    fn word(&mut self, ix: profile::WordIx) -> WordIx {
        let words = &mut self.sets.words;
        *self.words.entry(ix).or_insert_with(|| {
            let row = self.sections.words.get(ix as usize);
            words.push(WordInfo {
                name: row.and_then(|row| row.symbol.clone()),
            });
            words.len() as WordIx - 1
        })
    }

    fn place(&mut self, code: Option<profile::CodeIx>) -> PlaceIx {
        let Some(code) = code.and_then(|ix| self.sections.code.get(ix as usize)) else {
            return NO_PLACE;
        };
        let places = &mut self.sets.places;
        *self.places.entry(code.frame).or_insert_with(|| {
            places.push(self.keys.place(code.frame));
            places.len() as PlaceIx - 1
        })
    }

    /// Known if one instruction is all that the section does with the word, once.
    fn update(&self, touch: &profile::Touch) -> Update {
        let code = |ix: Option<profile::CodeIx>| self.sections.code.get(ix? as usize);
        let Some(writer) = code(touch.written_by) else {
            return Update::Unknown;
        };
        let operation = |otherwise| match touch.writes {
            1 => self.operations.operation(writer.frame).unwrap_or(otherwise),
            _ => otherwise,
        };
        match touch.reads {
            0 => operation(Update::Unknown),
            n if n == touch.writes && touch.read_by == touch.written_by && writer.reads => {
                operation(Update::ReadModifyWrite)
            }
            _ => Update::Unknown,
        }
    }
}

/// Whether a word is data that sections of several threads use, or may.
fn is_shared_data(word: &SectionWord, allocates: bool) -> bool {
    let is_heap = word.region == Region::Heap;
    let is_handed_out = is_heap && (allocates || word.seen.allocator);
    if word.region == Region::Lock {
        return false;
    }
    match word.sharing() {
        Sharing::Shared | Sharing::Rare => !is_own_memory(word),
        Sharing::Overwritten => !is_handed_out,
        // The linker's tables and constants have no symbol.
        Sharing::ReadOnly => is_heap || word.symbol.is_some(),
        Sharing::Local => match word.region {
            Region::Global => word.symbol.is_some() || word.seen.written,
            Region::Heap => word.seen.written && !word.amid_own && !is_handed_out,
            _ => false,
        },
    }
}

/// A thread's own stack and variables that no other thread touched.
fn is_own_memory(word: &SectionWord) -> bool {
    matches!(word.region, Region::Stack | Region::ThreadLocal) && word.only.is_some()
}
