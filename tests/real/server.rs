//! Servers: started in either mode, ready when they answer, gone when the case is over.

use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use convoy_harness::case::Scratch;
use convoy_harness::run::{start, End, Running};
use convoy_harness::{check, Result};
use rustix::process::Signal;

use crate::twice::{Mode, TIMEOUT};

/// From its start until it must accept connections.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server under way. Killed, with its group, when dropped.
#[derive(Debug)]
pub struct Server<'a> {
    running: Option<Running<'a>>,
}

impl<'a> Server<'a> {
    /// Starts it and waits until it listens on this port of the loopback device.
    pub fn start(scratch: &'a Scratch, mode: &Mode, command: &Command, port: u16) -> Result<Self> {
        let running = start(&mut mode.wrap(command)?, scratch.dir(), mode.tag())?;
        let server = Self {
            running: Some(running),
        };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let said = || std::fs::read_to_string(scratch.path(&format!("{}.err", mode.tag())));
            check!(
                started.elapsed() < PATIENCE,
                "{command:?}: does not listen on port {port}: {}",
                said().unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// Its process, if it was started bare.
    pub fn id(&self) -> Result<u32> {
        self.running
            .as_ref()
            .map(Running::id)
            .ok_or_else(|| "stopped".to_owned())
    }

    /// Sends the signal that asks it to end, to the group as a terminal or a service manager does, and waits.
    pub fn stop(mut self, signal: Signal) -> Result<End> {
        let running = self.running.take().ok_or("stopped twice")?;
        let ended = running.signal(signal);
        let outcome = running.finish(TIMEOUT)?;
        ended?;
        check!(
            outcome.end != End::Timeout,
            "it did not end upon {signal:?}: {}",
            outcome.stderr
        );
        Ok(outcome.end)
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            // The group may be gone, and nobody could do more about it.
            let _ = running.signal(Signal::KILL);
            let _ = running.finish(TIMEOUT);
        }
    }
}
