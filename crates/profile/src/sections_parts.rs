//! What traced sections touched, put together from the parts of the file that tell it. Rows that were lost leave gaps,
//! which are closed, as with what the scheduler said.

use serde::{Deserialize, Serialize};

use crate::sched_parts::{keep_stack, Found, Known, Verdict};
use crate::warning::ReadWarning;
use crate::{
    Process, SectionCall, SectionCode, SectionFollow, SectionInput, SectionSample, SectionSampling,
    SectionSite, SectionWord, Sections,
};

/// Everything of [`Sections`] but its tables, and how many rows these have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SectionsHead {
    pub(crate) sampling: SectionSampling,
    pub(crate) drops: Vec<(String, u64)>,
    pub(crate) sites: u64,
    pub(crate) words: u64,
    pub(crate) code: u64,
    pub(crate) calls: u64,
    pub(crate) follows: u64,
    pub(crate) samples: u64,
}

impl SectionsHead {
    pub(crate) fn of(sections: &Sections) -> Self {
        Self {
            sampling: sections.sampling,
            drops: sections.drops.clone(),
            sites: sections.sites.len() as u64,
            words: sections.words.len() as u64,
            code: sections.code.len() as u64,
            calls: sections.calls.len() as u64,
            follows: sections.follows.len() as u64,
            samples: sections.samples.len() as u64,
        }
    }
}

/// What has been read of it.
#[derive(Debug, Default)]
pub(crate) struct SectionsParts {
    pub(crate) head: Option<SectionsHead>,
    pub(crate) sites: Found<SectionSite>,
    pub(crate) words: Found<SectionWord>,
    pub(crate) code: Found<SectionCode>,
    pub(crate) calls: Found<SectionCall>,
    pub(crate) follows: Found<SectionFollow>,
    pub(crate) samples: Found<SectionSample>,
    pub(crate) inputs: Vec<SectionInput>,
}

impl SectionsParts {
    /// All of it, sound; `None` if nobody looked, or if what was looked at is lost.
    pub(crate) fn finish(
        self,
        numbers: &[u32],
        processes: &[Process],
        warnings: &mut Vec<ReadWarning>,
    ) -> Option<Sections> {
        let known = Known { numbers, processes };
        let head = match self.head {
            Some(head) => head,
            None if self.sites.is_empty() => return None,
            None => SectionsHead::default(),
        };
        let (mut sites, mut words, mut code) = (self.sites, self.words, self.code);
        words.check(head.words, warnings, |row| known.word(row));
        sites.check(head.sites, warnings, |row| {
            let whole = words.translate_all(&mut row.words);
            known.site(row, whole)
        });
        let process_of = |site: u32| {
            let row = sites.rows().get(site as usize)?;
            processes.get(row.process as usize)
        };
        let frame = |process: &Process, frame: u32| (frame as usize) < process.frames.len();
        code.check(head.code, warnings, |row| {
            let whole = words.translate_all(&mut row.words);
            let process = sites.move_to(&mut row.site).then(|| process_of(row.site));
            match process.flatten() {
                Some(process) if frame(process, row.frame) => {
                    let from = row.from.filter(|&from| frame(process, from));
                    let kept = from == row.from;
                    row.from = from;
                    Verdict::of(true, whole && kept)
                }
                _ => Verdict::Bad,
            }
        });
        let mut calls = self.calls;
        calls.check(head.calls, warnings, |row| {
            let process = sites.move_to(&mut row.site).then(|| process_of(row.site));
            let Some(process) = process.flatten() else {
                return Verdict::Bad;
            };
            let was = (row.frame, row.object);
            row.frame = row.frame.filter(|&ix| frame(process, ix));
            let objects = process.objects.len();
            row.object = row.object.filter(|&ix| (ix as usize) < objects);
            Verdict::of(true, was == (row.frame, row.object))
        });
        let mut follows = self.follows;
        follows.check(head.follows, warnings, |row| {
            let both = sites.move_to(&mut row.first) & sites.move_to(&mut row.then);
            Verdict::of(both, true)
        });
        let mut samples = self.samples;
        samples.check(head.samples, warnings, |row| {
            let process = sites.move_to(&mut row.site).then(|| process_of(row.site));
            let threads = process.flatten().map_or(0, |process| process.threads.len());
            if row.thread as usize >= threads {
                return Verdict::Bad;
            }
            let mut whole = true;
            let told = row.touches.len();
            row.touches.retain_mut(|touch| {
                whole &= code.translate(&mut touch.read_by) & code.translate(&mut touch.written_by);
                words.move_to(&mut touch.word)
            });
            row.untold = row.untold.saturating_add((told - row.touches.len()) as u64);
            Verdict::of(true, whole && told == row.touches.len())
        });
        // They name samples by number, which is another one where samples were lost.
        let samples = samples.into_rows();
        let has_all = samples.len() as u64 == head.samples;
        let inputs = self.inputs.into_iter().filter(|_| has_all);
        let inputs = inputs
            .filter(|of| (of.sample as usize) < samples.len())
            .collect();
        Some(Sections {
            sampling: head.sampling,
            sites: sites.into_rows(),
            code: code.into_rows(),
            words: words.into_rows(),
            samples,
            calls: calls.into_rows(),
            follows: follows.into_rows(),
            inputs,
            drops: head.drops,
        })
    }
}

impl Known<'_> {
    fn word(&self, row: &mut SectionWord) -> Verdict {
        let Some(process) = self.process(&mut row.process) else {
            return Verdict::Bad;
        };
        let threads = process.threads.len();
        // Without its thread it is not known to be of one only; this errs on the side of sharing.
        let only = row.seen.only.filter(|&ix| (ix as usize) < threads);
        let whole = only == row.seen.only;
        row.seen.only = only;
        let asked = row.allocated_by;
        row.allocated_by = asked.filter(|&ix| (ix as usize) < process.frames.len());
        Verdict::of(true, whole && asked == row.allocated_by)
    }

    fn site(&self, row: &mut SectionSite, words: bool) -> Verdict {
        let Some(process) = self.process(&mut row.process) else {
            return Verdict::Bad;
        };
        if row.frame as usize >= process.frames.len() {
            return Verdict::Bad;
        }
        let objects = process.objects.len();
        let object = row.object.filter(|&ix| (ix as usize) < objects);
        let whole = words & keep_stack(process, &mut row.stack) & (object == row.object);
        row.object = object;
        Verdict::of(true, whole)
    }
}
