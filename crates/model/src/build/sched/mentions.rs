//! Which threads, stacks and loops of each process the scheduler's rows speak of.

use std::collections::{BTreeMap, BTreeSet};

use convoy_profile::{FrameIx, Profile, Sections, StackIx, ThreadIx, ThreadRef, Waker};

/// What is mentioned of one process.
#[derive(Debug, Default)]
pub(in crate::build) struct Mention {
    pub(in crate::build) threads: BTreeSet<ThreadIx>,
    pub(in crate::build) stacks: BTreeSet<StackIx>,
    /// Time that each thread spent with a stack, active or not.
    pub(in crate::build) time: BTreeMap<(ThreadIx, StackIx), u64>,
    /// (index of the loop, an instruction of it).
    pub(in crate::build) loops: Vec<(usize, FrameIx)>,
    /// Where traced sections begin.
    pub(in crate::build) sections: BTreeSet<(StackIx, FrameIx)>,
}

/// What is mentioned of all of them.
#[derive(Debug, Default)]
pub(in crate::build) struct Mentions {
    by_process: Vec<Mention>,
}

impl Mentions {
    pub(in crate::build) fn of(profile: &Profile) -> Self {
        let mut this = Self::default();
        this.by_process
            .resize_with(profile.processes.len(), Mention::default);
        if let Some(sections) = &profile.sections {
            this.sections(sections);
        }
        let Some(sched) = &profile.sched else {
            return this;
        };
        for row in &sched.threads {
            this.thread(row.thread);
        }
        for row in &sched.slices {
            this.stack(row.thread, row.stack, row.active_ns);
        }
        for row in &sched.offs {
            this.stack(row.thread, row.stack, row.sum_ns);
        }
        for row in &sched.wakes {
            if let Waker::Thread(thread, stack) = row.waker {
                this.stack(thread, stack, 0);
            }
        }
        for row in &sched.writes {
            this.stack(row.thread, row.stack, 0);
        }
        if let Some(lines) = &sched.lines {
            for row in &lines.uses {
                if let Some(line) = lines.lines.get(row.line as usize) {
                    let (process, thread) = (line.process, row.thread);
                    this.stack(ThreadRef { process, thread }, row.stack, 0);
                }
            }
        }
        for (ix, row) in sched.loops.iter().enumerate() {
            if let (Some(of), Some(frame)) =
                (this.by_process.get_mut(row.process as usize), row.frame)
            {
                of.loops.push((ix, frame));
            }
        }
        this
    }

    /// Takes out what is mentioned of a process.
    pub(in crate::build) fn take(&mut self, process: usize) -> Mention {
        self.by_process
            .get_mut(process)
            .map(std::mem::take)
            .unwrap_or_default()
    }

    fn sections(&mut self, sections: &Sections) {
        for site in &sections.sites {
            if let Some(of) = self.by_process.get_mut(site.process as usize) {
                of.sections.insert((site.stack, site.frame));
            }
        }
        for sample in &sections.samples {
            if let Some(site) = sections.sites.get(sample.site as usize) {
                self.thread(ThreadRef {
                    process: site.process,
                    thread: sample.thread,
                });
            }
        }
    }

    fn thread(&mut self, thread: ThreadRef) -> Option<&mut Mention> {
        let of = self.by_process.get_mut(thread.process as usize)?;
        of.threads.insert(thread.thread);
        Some(of)
    }

    fn stack(&mut self, thread: ThreadRef, stack: StackIx, ns: u64) {
        if let Some(of) = self.thread(thread) {
            of.stacks.insert(stack);
            let sum = of.time.entry((thread.thread, stack)).or_default();
            *sum = sum.saturating_add(ns);
        }
    }
}
