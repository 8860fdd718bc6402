//! What the fixes of findings save, by simulation alone: for reports that are about more than
//! replay.

use convoy_trace::{ObjectIx, ThreadIx};

use crate::extract::Extraction;
use crate::machine::Machine;
use crate::predict::{Answer, Replayer};
use crate::program::{LockIx, Program};
use crate::simulated::Simulator;
use crate::study::Study;
use crate::whatif::{self, Barriers, Group, Knowledge, Semaphores, Target, WhatIf};

/// A fix, of things as they are numbered in the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fix {
    /// Nobody waits for these locks any more.
    Remove(Vec<ObjectIx>),
    /// Who tries these locks in a loop waits for them.
    Blocking(Vec<ObjectIx>),
    /// Threads that meet at these barriers share the work before them evenly.
    Balance(Vec<ObjectIx>),
    /// These semaphores have a permit for every thread.
    Permits(Vec<ObjectIx>),
    /// Groups of threads get so many.
    Threads(Vec<(Vec<ThreadIx>, u32)>),
}

/// One answer for each fix.
pub fn ask(study: &Study<'_>, machine: &Machine, fixes: &[Fix]) -> Vec<Answer> {
    let programs = study.programs();
    let simulator = Simulator::fitted(machine, &programs, &study.fingerprint, 1);
    let replayers: Vec<Box<dyn Replayer>> = vec![Box::new(simulator)];
    let mut predictor = study.predictor(replayers, &programs);
    let knowledge = Knowledge {
        machine,
        sets: None,
        seed: 1,
    };
    let changed = |fix: &Fix| -> Result<Vec<Program>, whatif::Refusal> {
        let windows = study.extractions.iter();
        windows
            .map(|e| {
                let applied = whatif::apply(&e.program, &what_ifs(fix, e), &knowledge)?;
                Ok(applied.program)
            })
            .collect()
    };
    let answers = fixes.iter().map(|fix| match changed(fix) {
        Ok(changed) => predictor.ask(&changed),
        Err(_) => Answer::default(),
    });
    answers.collect()
}

/// The fix in one window's program.
fn what_ifs(fix: &Fix, extraction: &Extraction) -> Vec<WhatIf> {
    let target = |objects: &[ObjectIx]| {
        let locks = objects.iter().filter_map(|o| extraction.objects.lock(*o));
        Target {
            name: String::new(),
            locks: locks.collect::<Vec<LockIx>>(),
        }
    };
    let group = |(threads, count): &(Vec<ThreadIx>, u32)| {
        let all = extraction.program.threads.iter().zip(0..);
        let members = all.filter(|(thread, _)| threads.contains(&thread.recorded));
        WhatIf::Threads {
            group: Group {
                name: String::new(),
                threads: members.map(|(_, ix)| ix).collect(),
            },
            count: *count,
        }
    };
    let program = &extraction.program;
    match fix {
        Fix::Balance(objects) => {
            let barriers = program.barriers.iter().zip(0..);
            let of_it = barriers.filter(|(of, _)| objects.contains(&of.recorded));
            vec![WhatIf::Balance(Barriers {
                name: String::new(),
                barriers: of_it.map(|(_, ix)| ix).collect(),
            })]
        }
        Fix::Permits(objects) => {
            let semaphores = program.semaphores.iter().zip(0..);
            let of_it = semaphores.filter(|(of, _)| objects.contains(&of.recorded));
            vec![WhatIf::Permits {
                target: Semaphores {
                    name: String::new(),
                    semaphores: of_it.map(|(_, ix)| ix).collect(),
                },
                count: program.threads.len() as u32,
            }]
        }
        Fix::Remove(objects) => vec![WhatIf::Remove(target(objects))],
        Fix::Blocking(objects) => vec![WhatIf::Blocking(target(objects))],
        Fix::Threads(groups) => groups.iter().map(group).collect(),
    }
}
