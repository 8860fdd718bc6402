//! Convoy's end of the pipes to the process that holds its probes.

use std::ffi::OsString;
use std::io::{self, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use convoy_probes::{Counts, Inserted, Probe, Refusal};

use super::wire::{receive, send, Reply, Request};

/// Probes in a running process. When this is dropped they are taken out, and also when this process
/// ends in any way.
#[derive(Debug)]
pub struct ProbeClient {
    pid: u32,
    child: Child,
    /// Its end tells the child to take everything out.
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

impl ProbeClient {
    /// Makes process `pid` ready for probes; nothing is patched yet. `command`: this program with
    /// the argument [`ARGUMENT`](super::ARGUMENT), that is, what makes it call
    /// [`serve`](super::serve).
    ///
    /// # Errors
    /// The process cannot be probed.
    pub fn begin(command: &[OsString], pid: u32) -> Result<Self, Refusal> {
        let mut client = Self::start(command, pid).map_err(|e| broken(pid, &e))?;
        match client.reply()? {
            Reply::Done => Ok(client),
            other => Err(client.unexpected(other)),
        }
    }

    fn start(command: &[OsString], pid: u32) -> io::Result<Self> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut child = Command::new(program)
            .args(arguments)
            .arg(pid.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let replies = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self {
            pid,
            requests: child.stdin.take(),
            replies: BufReader::new(replies),
            child,
        })
    }

    /// Puts probes in, all in one stop of the process. The results are in the order of `probes`.
    ///
    /// # Errors
    /// The process is gone, or cannot be stopped.
    pub fn insert(&mut self, probes: &[Probe]) -> Result<Vec<Inserted>, Refusal> {
        match self.ask(&Request::Insert(probes.to_vec()))? {
            Reply::Inserted(all) => Ok(all),
            other => Err(self.unexpected(other)),
        }
    }

    /// Takes the probes of these rows out.
    ///
    /// # Errors
    /// The process is gone, or cannot be stopped.
    pub fn remove(&mut self, rows: &[u32]) -> Result<(), Refusal> {
        match self.ask(&Request::Remove(rows.to_vec()))? {
            Reply::Done => Ok(()),
            other => Err(self.unexpected(other)),
        }
    }

    /// All values, those of ended threads too.
    ///
    /// # Errors
    /// The process is gone.
    pub fn read(&mut self) -> Result<Counts, Refusal> {
        match self.ask(&Request::Read)? {
            Reply::Counts { cells, lost_calls } => Ok(Counts {
                cells: cells.into_iter().map(Into::into).collect(),
                lost_calls,
            }),
            other => Err(self.unexpected(other)),
        }
    }

    /// Takes everything out; returns when it is.
    ///
    /// # Errors
    /// The process cannot be stopped: probes are still in it.
    pub fn end(mut self) -> Result<(), Refusal> {
        let reply = self.ask(&Request::End);
        self.close();
        match reply? {
            Reply::Done => Ok(()),
            other => Err(self.unexpected(other)),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, Refusal> {
        let Some(requests) = &mut self.requests else {
            return Err(broken(self.pid, &io::ErrorKind::BrokenPipe.into()));
        };
        send(requests, request).map_err(|e| broken(self.pid, &e))?;
        self.reply()
    }

    fn reply(&mut self) -> Result<Reply, Refusal> {
        receive(&mut self.replies).map_err(|e| broken(self.pid, &e))
    }

    fn unexpected(&self, reply: Reply) -> Refusal {
        match reply {
            Reply::Refused(refusal) => refusal,
            _ => broken(self.pid, &io::ErrorKind::InvalidData.into()),
        }
    }

    fn close(&mut self) {
        if self.requests.take().is_some() {
            let _ = self.child.wait();
        }
    }
}

impl Drop for ProbeClient {
    fn drop(&mut self) {
        self.close();
    }
}

fn broken(pid: u32, e: &io::Error) -> Refusal {
    Refusal::new(
        format!("the process that holds the probes of process {pid} does not answer: {e}"),
        "start convoy again: it takes out what is left",
    )
}
