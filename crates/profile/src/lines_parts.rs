//! Shared cache lines, put together from their sections.

use serde::{Deserialize, Serialize};

use crate::sched_parts::{keep_stack, Found, Known, Verdict};
use crate::warning::ReadWarning;
use crate::{LineUse, SharedLine, SharedLines};

/// Everything of [`SharedLines`] but its tables, and how many rows these have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinesHead {
    pub(crate) samples: u64,
    pub(crate) unread: u64,
    pub(crate) lines: u64,
    pub(crate) uses: u64,
}

impl LinesHead {
    pub(crate) fn of(lines: &SharedLines) -> Self {
        Self {
            samples: lines.samples,
            unread: lines.unread,
            lines: lines.lines.len() as u64,
            uses: lines.uses.len() as u64,
        }
    }
}

/// What has been read of it.
#[derive(Debug, Default)]
pub(crate) struct LinesParts {
    pub(crate) head: Option<LinesHead>,
    pub(crate) lines: Found<SharedLine>,
    pub(crate) uses: Found<LineUse>,
}

impl LinesParts {
    /// All of it, sound; `None` if nobody looked, or nothing says how many samples there were to compare with.
    pub(crate) fn finish(
        self,
        known: &Known<'_>,
        warnings: &mut Vec<ReadWarning>,
    ) -> Option<SharedLines> {
        let head = self.head?;
        let (mut lines, mut uses) = (self.lines, self.uses);
        lines.check(head.lines, warnings, |row| {
            Verdict::of(known.process(&mut row.process).is_some(), true)
        });
        uses.check(head.uses, warnings, |row| {
            let line = lines.move_to(&mut row.line).then_some(row.line as usize);
            let process = line
                .and_then(|line| lines.rows().get(line))
                .and_then(|line| known.processes.get(line.process as usize));
            let process = process.filter(|of| (row.thread as usize) < of.threads.len());
            match process {
                Some(process) => Verdict::of(true, keep_stack(process, &mut row.stack)),
                None => Verdict::Bad,
            }
        });
        Some(SharedLines {
            samples: head.samples,
            unread: head.unread,
            lines: lines.into_rows(),
            uses: uses.into_rows(),
        })
    }
}
