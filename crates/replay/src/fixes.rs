//! What the fixes of findings save, by simulation alone: for reports that are about more than
//! replay.

use convoy_estimate::Method;
use convoy_trace::{ObjectIx, ThreadIx};

use crate::extract::Extraction;
use crate::machine::Machine;
use crate::predict::{Answer, Replayer};
use crate::program::Program;
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
    let simulator = study.simulator(machine, &programs, 1);
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
        Err(why) => Answer {
            refused: vec![(Method::ReplaySimulated, why.to_string())],
            ..Answer::default()
        },
    });
    answers.collect()
}

/// The fix in one window's program.
fn what_ifs(fix: &Fix, extraction: &Extraction) -> Vec<WhatIf> {
    let (program, name) = (&extraction.program, String::new);
    let target = |objects: &[ObjectIx]| Target {
        name: name(),
        locks: numbers(program.locks.iter().map(|of| of.recorded), objects),
    };
    match fix {
        Fix::Remove(objects) => vec![WhatIf::Remove(target(objects))],
        Fix::Blocking(objects) => vec![WhatIf::Blocking(target(objects))],
        Fix::Balance(objects) => vec![WhatIf::Balance(Barriers {
            name: name(),
            barriers: numbers(program.barriers.iter().map(|of| of.recorded), objects),
        })],
        Fix::Permits(objects) => vec![WhatIf::Permits {
            target: Semaphores {
                name: name(),
                semaphores: numbers(program.semaphores.iter().map(|of| of.recorded), objects),
            },
            count: program.threads.len() as u32,
        }],
        Fix::Threads(groups) => {
            let resized = groups.iter().map(|(threads, count)| WhatIf::Threads {
                group: Group {
                    name: name(),
                    threads: numbers(program.threads.iter().map(|of| of.recorded), threads),
                },
                count: *count,
            });
            resized.collect()
        }
    }
}

/// Numbers in the program of what has one of these numbers in the recording. `recorded`: the number
/// in the recording, by number in the program.
fn numbers(recorded: impl Iterator<Item = u32>, wanted: &[u32]) -> Vec<u32> {
    let of_program = recorded.zip(0..);
    let of_it = of_program.filter(|(recorded, _)| wanted.contains(recorded));
    of_it.map(|(_, number)| number).collect()
}
