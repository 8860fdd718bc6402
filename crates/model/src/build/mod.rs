//! Makes the model of a profile: joins records, spreads counts over call stacks, finds names.

mod apportion;
mod counts;
mod futex;
mod groups;
mod jobs;
mod names;
mod objects;
mod own_pages;
mod pairs;
mod sched;
mod sections;
mod sites;
mod threads;
mod uses;
mod waits;

use convoy_profile::{ObjectKind, Profile};

use crate::kinds::kind_of;
use crate::{programs, scripts, Model, Object, Process, ProcessId, Thread, Use};
use objects::Objects;
use sched::{Mention, Mentions, ProcessNames};
use sites::Sites;
pub(crate) use sites::{expand_all as expand, shown, shown_loop};
use threads::Threads;

impl Model {
    /// Joins what a profile holds. Rows whose indices lead nowhere are ignored: reading a file has
    /// dropped and counted them already. What is large is moved: twice it may be more than there is memory for.
    pub fn build(profile: Profile) -> Self {
        let mut model = Self {
            meta: profile.meta.clone(),
            ..Self::default()
        };
        let mut mentions = Mentions::of(&profile);
        let mut names = sched::Names::default();
        for (ix, process) in profile.processes.iter().enumerate() {
            let mention = mentions.take(ix);
            names.processes.push(model.add_process(process, &mention));
        }
        let sections = profile.sections.as_ref();
        model.sections = sections.map(|rows| sections::join(rows, &profile.processes, &names));
        drop((profile.processes, profile.sections));
        model.live_curves = profile.live_curves;
        model.experiments = profile.experiments;
        let sched = profile.sched;
        model.sched = sched.map(|rows| sched::join(&model, rows, &mut names));
        model.take_delays();
        model
    }

    /// How long threads could run and had no processor: their last figures may have been looked at long before they ended, above all
    /// beside the scheduler's events, which miss nothing but what was before them.
    fn take_delays(&mut self) {
        for of in self.sched.iter().flat_map(|sched| &sched.threads) {
            let ns = of.delayed_ns.saturating_add(of.preempted_ns);
            if let Some(thread) = self.threads.get_mut(of.thread.0 as usize) {
                thread.run_delay_ns = thread.run_delay_ns.max(Some(ns));
            }
        }
    }

    /// Joins one process and returns what the scheduler's rows need to know of it.
    fn add_process(
        &mut self,
        process: &convoy_profile::Process,
        mention: &Mention,
    ) -> ProcessNames {
        let id = ProcessId(self.processes.len() as u32);
        let mut sites = Sites::new(process, id);
        let threads = Threads::add(process, id, &mention.threads, &mut self.threads);
        let mut objects = Objects::add(process, id, &mut self.objects);

        let waits = waits::collect(process, &objects);
        let counts = counts::collect(process, &waits, &mut objects, &mut self.objects);
        let period = self.meta.sample_period;
        let uses = uses::join(
            process,
            period,
            &counts,
            waits,
            &mut sites,
            &mut self.sites,
            &threads,
        );
        for row in &uses {
            settle_kind(&mut self.objects[row.object.0 as usize], row);
            add_wait(&mut self.threads[row.thread.0 as usize], row);
        }
        self.uses.extend(uses);
        let pairs = pairs::collect(process, &objects, &threads, &mut sites, &mut self.sites);
        self.pairs.extend(pairs);

        for object in objects.range() {
            let stack = objects.init_stack(object, process);
            self.objects[object.0 as usize].init_site = sites.known(stack, &mut self.sites);
        }
        groups::group(self, process, id, &threads, mention, &mut sites);
        names::name(self, process, &objects, &threads);

        self.processes.push(Process {
            pid: process.pid,
            ppid: process.ppid,
            name: programs::name(&process.exe, &process.args).to_owned(),
            exe: process.exe.clone(),
            args: process.args.clone(),
            script: scripts::script(&process.exe, &process.args).to_owned(),
            wall_ns: process.end_ns.saturating_sub(process.start_ns),
            without_agent: process.without_agent,
            listens: process.listens,
            makes_threads: process.makes_threads,
            drops: process.drops.iter().cloned().collect(),
            threads: threads.iter().map(|(_, id)| id).collect(),
        });
        ProcessNames {
            sites: mention
                .stacks
                .iter()
                .filter_map(|&stack| Some((stack, sites.known(stack, &mut self.sites)?)))
                .collect(),
            loops: mention
                .loops
                .iter()
                .map(|&(ix, frame)| (ix, sites.expand(frame)))
                .collect(),
            giving: mention
                .giving
                .iter()
                .filter_map(|(&key, &frame)| Some((key, sites.expand(frame).pop()?.function)))
                .collect(),
            section_sites: mention
                .sections
                .iter()
                .map(|&(stack, frame)| {
                    let known = sites.known(stack, &mut self.sites);
                    let site = known.unwrap_or_else(|| sites.of_frames(&[frame], &mut self.sites));
                    ((stack, frame), site)
                })
                .collect(),
            objects: objects.into_ids(),
            threads: threads.into_ids(),
        }
    }
}

/// An object that no call initialised is what it was used as.
fn settle_kind(object: &mut Object, row: &Use) {
    if let (ObjectKind::Unknown, Some(op)) = (object.kind, row.op) {
        object.kind = kind_of(op);
    }
}

fn add_wait(thread: &mut Thread, row: &Use) {
    if row.wait_ns > 0 {
        let kind = row.op.map_or(ObjectKind::Unknown, kind_of);
        let sum = thread.wait_ns.entry(kind).or_default();
        *sum = sum.saturating_add(row.wait_ns);
    }
}
