//! What a what-if means and what it assumes, in words.

use std::fmt;

use super::{Note, WhatIf};

impl WhatIf {
    /// The change, as an imperative.
    pub fn description(&self) -> String {
        let percent = |share: &f64| format!("{:.0} %", share * 100.0);
        match self {
            Self::Remove(of) => format!("Remove the lock `{}`.", of.name),
            Self::RemoveSections(of) => {
                format!(
                    "Remove the lock `{}` and the work of its critical sections.",
                    of.name
                )
            }
            Self::Shard { target, ways } => {
                format!("Divide `{}` into {ways} locks.", target.name)
            }
            Self::RwLock(of) => {
                format!(
                    "Use a reader-writer lock for `{}`; readers take it shared.",
                    of.name
                )
            }
            Self::ShortenHold { target, share } => {
                let percent = percent(share);
                format!(
                    "Shorten the critical sections of `{}` by {percent}.",
                    target.name
                )
            }
            Self::ShortenGap { target, share } => {
                let percent = percent(share);
                format!(
                    "Shorten the work between critical sections of `{}` by {percent}.",
                    target.name
                )
            }
            Self::Adaptive { target, .. } => {
                format!("Let waiters for `{}` spin before they park.", target.name)
            }
            Self::Spin(of) => format!("Use a spin lock for `{}`.", of.name),
            Self::Atomic(of) => {
                format!(
                    "Replace each critical section of `{}` by one atomic operation.",
                    of.name
                )
            }
            Self::Blocking(of) => {
                format!(
                    "Wait for `{}` with a blocking acquire instead of repeated tries.",
                    of.name
                )
            }
            Self::Batch { target, size } => {
                format!(
                    "Do the work of {size} critical sections of `{}` in one.",
                    target.name
                )
            }
            Self::Balance(of) => {
                format!("Spread the work before the barrier `{}` evenly.", of.name)
            }
            Self::Permits { target, count } => {
                format!("Let the semaphore `{}` have {count} permits.", target.name)
            }
            Self::Cpus(n) => format!("Run on {n} CPUs."),
            Self::Threads { group, count } => {
                format!("Run `{}` with {count} threads.", group.name)
            }
        }
    }

    /// What the prediction takes for granted.
    pub fn assumption(&self) -> &'static str {
        match self {
            Self::Remove(_) => "the sections stay as long as they are and may run at the same time",
            Self::RemoveSections(_) => "the work of the sections is not needed or done at no cost",
            Self::Shard { .. } => {
                "sections fall on the parts as their data do; evenly where the data are not known"
            }
            Self::RwLock(_) => "sections that were seen to read only need no exclusive access",
            Self::ShortenHold { .. } => "the work saved in sections is not done elsewhere",
            Self::ShortenGap { .. } => "the work saved between sections is not done elsewhere",
            Self::Adaptive { .. } => "spinning takes nothing but the CPU time of the waiter",
            Self::Spin(_) => "no holder is preempted for longer than in the recording",
            Self::Atomic(_) => "one atomic operation can do what the section does",
            Self::Blocking(_) => "the work between the tries only waits",
            Self::Batch { .. } => "the sections' work can be delayed until the batch is full",
            Self::Balance(_) => {
                "the work can be divided as finely as needed, and takes as long in any thread"
            }
            Self::Permits { .. } => {
                "what the semaphore guards serves more at once, each as fast as recorded"
            }
            Self::Cpus(_) => "work takes the same CPU time on any number of CPUs",
            Self::Threads { .. } => {
                "the group's threads share one supply of work; each part takes as long as recorded"
            }
        }
    }

    /// The result is that of a model of the program, not of its recorded threads.
    pub fn is_model(&self) -> bool {
        matches!(
            self,
            Self::Threads { .. } | Self::Batch { .. } | Self::Balance(_)
        )
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SectionsStay(n) => {
                write!(
                    f,
                    "{n} sections stay as they are: they contain other operations"
                )
            }
            Self::SetsUnknown(n) => {
                write!(
                    f,
                    "{n} sections stay exclusive: what they write is not known"
                )
            }
            Self::ShardsByChance => {
                f.write_str("sections fall on the parts by chance: their data are not known")
            }
            Self::OnePart => f.write_str(
                "all sections touch the same data, which the parts would have to divide",
            ),
            Self::GuardsCondition => {
                f.write_str("the lock guards a condition variable: keep its order")
            }
            Self::Model => f.write_str("a model of the program, not its recorded threads"),
        }
    }
}
