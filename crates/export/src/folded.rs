//! Folded stacks, one a line, for flamegraph.pl, inferno, speedscope and the like: frames from the root to the
//! leaf, and microseconds, as bcc's offcputime writes them.

use std::collections::BTreeMap;
use std::io::Write;

use convoy_model::{Model, OffReason, SiteFrame, ThreadId};
use convoy_report::Report;

use crate::moments;
use crate::stacks::{frames_of, function, process_name, thread_pattern};
use crate::waits::{self, object_frame, off_frame};
use crate::Error;

const NO_SCHEDULER: &str = "the profile has no scheduler events";

/// Time that threads were off the processors, with the kernel's side and what it was for at the leaf. Idle
/// time is in it; time in which a thread could have run is not.
pub fn off_cpu(report: &Report<'_>, out: &mut dyn Write) -> Result<Vec<String>, Error> {
    let model = report.model;
    let sched = model.sched.as_ref().ok_or(Error::Missing(NO_SCHEDULER))?;
    let mut folded = Folded::default();
    for off in &sched.offs {
        let mut stack = root(model, off.thread);
        push_user(&mut stack, frames_of(model, off.site));
        let kernel = off.kernel_stack.iter().rev();
        stack.extend(kernel.map(|name| format!("{}_[k]", clean(name))));
        stack.push(clean(&off_frame(model, off)));
        if off.reason != OffReason::Preempted {
            folded.add(stack, off.sum_ns as f64);
        }
    }
    folded.write(model, out)
}

/// Waits for locks, conditions, barriers, joins, with the object at the leaf.
pub fn waits(report: &Report<'_>, out: &mut dyn Write) -> Result<Vec<String>, Error> {
    let model = report.model;
    let mut folded = Folded::default();
    for waited in waits::all(report) {
        let mut stack = root(model, waited.thread);
        push_user(&mut stack, frames_of(model, waited.site));
        stack.push(clean(&object_frame(model, &waited)));
        folded.add(stack, waited.wait_ns as f64);
    }
    folded.write(model, out)
}

/// CMetric: the running time of code, each piece of it divided by the number of threads that were active
/// meanwhile. Time spent in loops that wait counts as inactive.
pub fn cmetric(report: &Report<'_>, out: &mut dyn Write) -> Result<Vec<String>, Error> {
    let model = report.model;
    let sched = model.sched.as_ref().ok_or(Error::Missing(NO_SCHEDULER))?;
    let mut folded = Folded::default();
    for slice in &sched.slices {
        let mut stack = root(model, slice.thread);
        push_user(&mut stack, frames_of(model, slice.site));
        folded.add(stack, slice.cm_working_ns);
    }
    folded.write(model, out)
}

/// Stacks with their sums.
#[derive(Debug, Default)]
struct Folded(BTreeMap<String, f64>);

impl Folded {
    fn add(&mut self, stack: Vec<String>, ns: f64) {
        *self.0.entry(stack.join(";")).or_default() += ns;
    }

    fn write(self, model: &Model, out: &mut dyn Write) -> Result<Vec<String>, Error> {
        let mut written = false;
        for (stack, ns) in self.0 {
            let us = (ns / 1e3).round() as u64;
            if us > 0 {
                writeln!(out, "{stack} {us}")?;
                written = true;
            }
        }
        let empty = "nothing took a microsecond or more: there are no stacks to write";
        Ok(if written {
            Vec::new()
        } else {
            moments::nothing(model, empty)
        })
    }
}

fn root(model: &Model, thread: ThreadId) -> Vec<String> {
    let names = [process_name(model, thread), thread_pattern(model, thread)];
    names
        .into_iter()
        .filter(|name| !name.is_empty())
        .map(clean)
        .collect()
}

fn push_user(stack: &mut Vec<String>, frames: &[SiteFrame]) {
    if frames.is_empty() {
        stack.push("[call stack not known]".into());
    }
    stack.extend(frames.iter().rev().map(|frame| {
        let suffix = if frame.inlined { "_[i]" } else { "" };
        format!("{}{suffix}", clean(&function(frame)))
    }));
}

/// A semicolon would be two frames, a line feed two stacks.
fn clean(name: &str) -> String {
    let replaced = name.chars().map(|c| match c {
        ';' => ':',
        c if c.is_control() => ' ',
        c => c,
    });
    replaced.collect()
}
