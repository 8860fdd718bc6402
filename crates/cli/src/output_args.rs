//! What a report is written as: the options that all verbs share which show one.

use clap::{Args, ValueEnum};

use crate::terminal::{Color, Look, Stream};

/// Formats of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a person
    Text,
    /// For a program: everything, whichever page is asked for
    Json,
}

/// Formats of the report of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For a person
    Text,
    /// For a program: everything, whichever page is asked for
    Json,
    /// For a ticket: each finding with what was seen and what to do, the page that is asked for folded below
    Markdown,
}

/// Format, colours and width.
#[derive(Debug, Args)]
pub struct Shape<F: ValueEnum + Send + Sync + 'static = Format> {
    /// Format of the report
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub format: F,

    /// Colours; auto: on a terminal, unless NO_COLOR is set or TERM is dumb
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    color: Color,

    /// Columns of the text, at least 40 [default: the terminal's, at most 120; 100 in files]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..), hide_short_help = true)]
    width: Option<u16>,
}

impl<F: ValueEnum + Send + Sync + 'static> Shape<F> {
    /// On a stream, or in a file if there is none.
    pub fn look(&self, stream: Option<&dyn Stream>) -> Look {
        Look::of(stream, self.color, self.width.map(usize::from))
    }
}
