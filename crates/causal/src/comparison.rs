//! Compares how a program ran with a change that may corrupt it with how it runs without.

use serde::Serialize;

/// Two runs of a command.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Standard output of the run with the change.
    pub output: Output,
    /// First line that differs, from 1; `None` = none does.
    pub first_line: Option<u64>,
    /// How the run as it is ended.
    pub end: String,
    /// How the run with the change ended.
    pub end_changed: String,
    /// Two runs as they are end differently, too: nothing follows from the end.
    pub end_varies: bool,
}

/// Standard output with the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// Byte for byte that of the run as it is.
    Same,
    /// Another one.
    Differs,
    /// Another one, but two runs as they are differ, too: nothing follows.
    Varies,
}

impl Comparison {
    /// Whether the change has corrupted the program, as far as its output and its end tell.
    pub fn shows_corruption(&self) -> bool {
        self.output == Output::Differs || self.has_another_end()
    }

    /// Whether it ended otherwise than two runs without the change.
    pub fn has_another_end(&self) -> bool {
        self.end != self.end_changed && !self.end_varies
    }

    /// Says what was found, in one sentence without a full stop.
    pub(crate) fn sentence(&self) -> String {
        let line = self.first_line.unwrap_or_default();
        if self.has_another_end() {
            return format!("it ended with {} instead of {}", self.end_changed, self.end);
        }
        match self.output {
            Output::Same => "output and exit status were the same, which is no proof: repeat it with \
                             other input"
                .into(),
            Output::Differs => format!("its output differs from line {line} on"),
            Output::Varies => format!(
                "its output differs from line {line} on, but it also differs from run to run without \
                 the change: it cannot be compared"
            ),
        }
    }
}
