//! Which threads, stacks and loops of each process the scheduler's rows speak of.

use std::collections::{BTreeMap, BTreeSet};

use convoy_profile::{FrameIx, GoProgram, Profile, Sections, StackIx, ThreadIx, ThreadRef, Waker};

/// What is mentioned of one process.
#[derive(Debug, Default)]
pub(in crate::build) struct Mention {
    pub(in crate::build) threads: BTreeSet<ThreadIx>,
    pub(in crate::build) stacks: BTreeSet<StackIx>,
    /// Time that each thread spent with a stack, active or not.
    pub(in crate::build) time: BTreeMap<(ThreadIx, StackIx), u64>,
    /// (index of the loop, an instruction of it).
    pub(in crate::build) loops: Vec<(usize, FrameIx)>,
    /// Functions that give back what others wait for: call stack and frame, counted from 1.
    pub(in crate::build) giving: BTreeMap<(StackIx, u32), FrameIx>,
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
        for program in &sched.goroutines {
            this.go_program(program, profile);
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

    fn go_program(&mut self, program: &GoProgram, profile: &Profile) {
        let ix = program.process as usize;
        let (Some(of), Some(process)) = (self.by_process.get_mut(ix), profile.processes.get(ix))
        else {
            return;
        };
        of.stacks
            .extend(program.waits.iter().map(|wait| wait.stack));
        for place in &program.places {
            of.stacks.insert(place.stack);
            let frame = place.gives_back.checked_sub(1).and_then(|frame| {
                let frames = process.stacks.get(place.stack as usize)?;
                frames.get(frame as usize).copied()
            });
            let key = (place.stack, place.gives_back);
            of.giving.extend(frame.map(|frame| (key, frame)));
        }
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
