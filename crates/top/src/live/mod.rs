//! The screen of `convoy live`: the resource tree on the left, curves on the right, the cost below.
//!
//! What is on it is one state (`state`) that keys (`keys`) and samples change and that is drawn
//! (`view`) without any other knowledge. Where values come from is behind [`Measurement`].

mod keys;
mod metrics;
mod rows;
mod state;
#[cfg(test)]
mod tests;
mod view;

use std::io;
use std::time::Duration;

use convoy_live::{Changes, Code, CurveId, Notice, Request, Session};
use crossterm::event::KeyEvent;
use ratatui::Frame;

use crate::keys::Effect;
use crate::terminal::{show, Interactive};
use crate::view::Look;

pub use state::State;

/// What became of a wait for the next sample.
#[derive(Debug)]
pub enum Progress {
    /// Every curve has a new point.
    Sampled(Changes),
    /// Nothing to show yet.
    Waited,
    /// The process has ended.
    Ended,
}

/// A process that is measured.
pub trait Measurement {
    /// What is measured.
    fn session(&self) -> &Session;

    /// Waits for the next sample, for about so long at most.
    ///
    /// # Errors
    /// Probes cannot be read any more: a text for a person.
    fn step(&mut self, most: Duration) -> Result<Progress, String>;

    /// Begins to measure something more.
    ///
    /// # Errors
    /// It cannot be measured: a text for a person.
    fn add(&mut self, request: Request) -> Result<CurveId, String>;

    /// Ends to measure something.
    ///
    /// # Errors
    /// Its probes are still in: a text for a person.
    fn remove(&mut self, id: CurveId) -> Result<(), String>;

    /// Notices since the last call.
    fn take_notices(&mut self) -> Vec<Notice>;

    /// The functions of all files.
    fn code(&mut self) -> Code;

    /// Files that the process has open.
    fn files(&mut self) -> Vec<String>;

    /// The command line that measures the same again.
    fn command_line(&self) -> String;
}

struct Shown<M> {
    state: State,
    measurement: M,
}

/// Shows a measurement until somebody leaves, the limit is over, or `asked` says that there was a
/// signal. Returns it, and what is to be said after the screen is gone.
///
/// # Errors
/// The terminal cannot be used, or is gone.
pub fn run_live<M: Measurement>(
    subject: String,
    measurement: M,
    look: Look,
    asked: impl Fn() -> bool,
) -> io::Result<(M, Vec<String>)> {
    let mut shown = Shown {
        state: State::new(subject),
        measurement,
    };
    show(&mut shown, look, asked)?;
    Ok((shown.measurement, shown.state.written))
}

impl<M: Measurement> Interactive for Shown<M> {
    fn step(&mut self, most: Duration) -> io::Result<bool> {
        match self.measurement.step(most) {
            Ok(Progress::Waited) => Ok(self.state.notice(&mut self.measurement)),
            Ok(Progress::Sampled(changes)) => {
                self.state.notice(&mut self.measurement);
                self.state.sampled(&mut self.measurement, &changes);
                Ok(true)
            }
            Ok(Progress::Ended) => {
                // Not as fast as it goes.
                std::thread::sleep(most);
                Ok(self.state.ended())
            }
            Err(why) => Err(io::Error::other(why)),
        }
    }

    fn key(&mut self, key: KeyEvent) -> Effect {
        self.state.key(key, &mut self.measurement)
    }

    fn draw(&mut self, frame: &mut Frame<'_>, look: Look) {
        view::draw(frame, &mut self.state, self.measurement.session(), look);
    }
}
