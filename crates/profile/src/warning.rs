//! What is missing from a profile that could be read in part.

use std::fmt;

/// Something that could not be read. The rest was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadWarning {
    /// The section that marks the end is missing.
    Truncated {
        /// Length of the file.
        bytes: u64,
    },
    /// A section was given up.
    Damaged {
        /// What it holds, e.g. "call stacks".
        section: String,
        /// The process that it is about, by its number in the file; `None` = the whole run.
        process: Option<u32>,
        /// Where it begins, bytes from the start of the file.
        offset: u64,
        /// What is wrong with it.
        why: String,
    },
    /// Bytes between sections that are no section.
    Skipped {
        /// Where they begin.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// A section of a kind that this code does not know.
    UnknownSection {
        /// Its tag.
        tag: String,
        /// Where it begins.
        offset: u64,
    },
    /// The section with the command, machine and times is missing.
    NoMeta,
    /// The section with the pid, executable and times of a process is missing.
    NoProcess {
        /// The process, by its number in the file.
        process: u32,
    },
    /// Rows stand for ones that were lost, so that the numbers of the others stay right.
    Filled {
        /// The table.
        table: String,
        /// The process id.
        pid: u32,
        /// How many.
        rows: u64,
    },
    /// The section with the scheduler's figures of the whole run is missing.
    NoSched,
    /// Rows of what the scheduler said were lost.
    SchedCut {
        /// The table.
        table: String,
        /// How many are missing.
        rows: u64,
        /// How many there were.
        of: u64,
    },
    /// Rows of a trace were lost.
    TraceCut {
        /// The table.
        table: String,
        /// How many are missing.
        rows: u64,
        /// How many there were.
        of: u64,
    },
    /// Rows refer to what is not in the file, or hold numbers that cannot be.
    Dropped {
        /// The table.
        table: String,
        /// The process id; `None` = the whole run.
        pid: Option<u32>,
        /// How many.
        rows: u64,
    },
    /// Rows refer to what is not in the file, but say enough without it.
    Repaired {
        /// The table.
        table: String,
        /// The process id; `None` = the whole run.
        pid: Option<u32>,
        /// How many.
        rows: u64,
    },
}

impl ReadWarning {
    /// The value found.
    pub fn found(&self) -> String {
        match self {
            Self::Truncated { bytes } => {
                format!("the profile ends after {bytes} bytes without its end mark")
            }
            Self::Damaged {
                section,
                process,
                offset,
                why,
            } => {
                let whose = of_process(*process);
                format!("section {section}{whose} at byte {offset}: {why}")
            }
            Self::Skipped { offset, bytes } => {
                format!("{bytes} bytes at byte {offset} are no section")
            }
            Self::UnknownSection { tag, offset } => {
                format!("section of unknown kind {tag} at byte {offset}")
            }
            Self::NoMeta => "no intact section with the command, machine and times".into(),
            Self::NoProcess { process } => {
                format!("no intact section with the name and times of process {process}")
            }
            Self::Filled { table, pid, rows } => {
                format!("{rows} {table} of process {pid} are lost")
            }
            Self::NoSched => "no intact section with the scheduler's figures of the run".into(),
            Self::SchedCut { table, rows, of } | Self::TraceCut { table, rows, of } => {
                format!("{rows} of {of} {table} are lost")
            }
            Self::Dropped { table, pid, rows } => {
                let whose = of_process(*pid);
                format!("{rows} {table}{whose} refer to what is not in the profile or cannot be")
            }
            Self::Repaired { table, pid, rows } => {
                let whose = of_process(*pid);
                format!("{rows} {table}{whose} refer to what is not in the profile")
            }
        }
    }

    /// Whether something of the recording is missing: what is left out or repaired otherwise leaves all numbers as
    /// they are.
    pub fn is_a_loss(&self) -> bool {
        !matches!(self, Self::UnknownSection { .. } | Self::Repaired { .. })
    }

    /// What follows from it.
    pub fn effect(&self) -> &'static str {
        match self {
            Self::Truncated { .. } => "what came after is missing; the rest is intact",
            Self::Damaged { .. } | Self::Skipped { .. } => {
                "what it held is missing; the rest is intact"
            }
            Self::UnknownSection { .. } => "it is left out",
            Self::NoMeta => "the report cannot say what ran, where and for how long",
            Self::NoProcess { .. } => "the process is shown without name, times and losses",
            Self::NoSched => "nothing of what the scheduler said can be shown",
            Self::TraceCut { .. } => "events are missing from the trace",
            Self::SchedCut { .. } => "what they held is missing: sums are too low",
            Self::Filled { .. } => "they appear as unknown",
            Self::Dropped { .. } => "they are left out: sums are too low",
            Self::Repaired { .. } => "they are shown without it",
        }
    }

    /// What to do.
    pub fn fix(&self) -> &'static str {
        match self {
            Self::UnknownSection { .. } => "read it with the convoy that recorded it",
            _ => "copy the file again, or record again with room on the disk",
        }
    }
}

fn of_process(number: Option<u32>) -> String {
    number.map_or_else(String::new, |number| format!(" of process {number}"))
}

impl fmt::Display for ReadWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}. Fix: {}",
            self.found(),
            self.effect(),
            self.fix()
        )
    }
}
