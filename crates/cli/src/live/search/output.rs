//! A search as it is written: one line of JSON for each outcome, or the tree at its end.

use std::io::{ErrorKind, Write};
use std::time::Duration;

use convoy_live::search::{NodeId, Search};

use super::text;
use super::Found;
use crate::live::args::Live;
use crate::message::Message;
use crate::output_args::Format;

/// Writes a search.
pub struct Output<W> {
    out: W,
    format: Format,
}

impl<W: Write> Output<W> {
    /// To a stream.
    pub fn new(out: W, live: &Live) -> Self {
        Self {
            out,
            format: live.shape.format,
        }
    }

    /// An outcome.
    pub fn node(&mut self, search: &Search, id: NodeId, at: Duration) -> Result<(), Message> {
        if self.format == Format::Text {
            return Ok(());
        }
        let t_ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        match search.json(id, t_ms) {
            Some(line) => self.write(&format!("{line}\n")),
            None => Ok(()),
        }
    }

    /// The end.
    pub fn conclude(&mut self, found: &Found) -> Result<(), Message> {
        match self.format {
            Format::Text => self.write(&text::tree(found)),
            Format::Json => Ok(()),
        }
    }

    fn write(&mut self, text: &str) -> Result<(), Message> {
        let written = self.out.write_all(text.as_bytes());
        match written.and_then(|()| self.out.flush()) {
            // Whoever read it has seen enough; the probes go out at the end all the same.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|e| super::super::unwritten(&e)),
        }
    }
}
