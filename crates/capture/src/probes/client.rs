//! Convoy's end of the pipes to the process that holds its probes.

use std::ffi::OsString;
use std::io::{self, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use convoy_inject::{detach, Owner, Probes};
use convoy_probes::{Also, Counts, Inserted, Probe, Refusal};

use super::uprobe::Uprobes;
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
    uprobes: Uprobes,
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
            uprobes: Uprobes::default(),
        })
    }

    /// Puts probes in, all in one stop of the process. The results are in the order of `probes`.
    ///
    /// # Errors
    /// The process is gone, or cannot be stopped.
    pub fn insert(&mut self, probes: &[Probe]) -> Result<Vec<Inserted>, Refusal> {
        let all = match self.ask(&Request::Insert(probes.to_vec()))? {
            Reply::Inserted(all) => all,
            other => return Err(self.unexpected(other)),
        };
        let answers = all.into_iter().zip(probes);
        let answers = answers.map(|(answer, probe)| self.or_uprobe(answer, probe));
        Ok(answers.collect())
    }

    /// Asks the kernel to count calls where nothing can be patched; it may refuse.
    fn or_uprobe(&mut self, answer: Inserted, probe: &Probe) -> Inserted {
        match answer {
            Inserted::No { why } if !probe.is_gated() && probe.also == Also::Nothing => {
                match self.uprobes.insert(self.pid, probe) {
                    Ok(call_ns) => Inserted::Uprobe { why, call_ns },
                    Err(_) => Inserted::No { why },
                }
            }
            answer => answer,
        }
    }

    /// Takes the probes of these rows out.
    ///
    /// # Errors
    /// The process is gone, or cannot be stopped.
    pub fn remove(&mut self, rows: &[u32]) -> Result<(), Refusal> {
        let patched = self.uprobes.remove(rows);
        if patched.is_empty() {
            return Ok(());
        }
        match self.ask(&Request::Remove(patched))? {
            Reply::Done => Ok(()),
            other => Err(self.unexpected(other)),
        }
    }

    /// All values, those of ended threads too.
    ///
    /// # Errors
    /// The process is gone.
    pub fn read(&mut self) -> Result<Counts, Refusal> {
        match self.ask(&Request::Read)?.counts() {
            Ok(mut counts) => {
                counts.cells.extend(self.uprobes.read());
                Ok(counts)
            }
            Err(other) => Err(self.unexpected(other)),
        }
    }

    /// Takes everything out; returns when it is.
    ///
    /// # Errors
    /// The process cannot be stopped: probes are still in it.
    pub fn end(mut self) -> Result<(), Refusal> {
        let reply = self.ask(&Request::End);
        self.close();
        match reply {
            Ok(Reply::Done) => Ok(()),
            Ok(other) => Err(self.unexpected(other)),
            // Something has ended the child.
            Err(_) => clean_up(self.pid),
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

/// Takes out what convoys have left in a process that were killed: probes, and the agent's hooks.
///
/// # Errors
/// Another convoy probes it, or it cannot be stopped.
pub fn clean_up(pid: u32) -> Result<(), Refusal> {
    let out = Probes::clean_up(pid).and(detach(pid, Owner::this()).map(drop));
    match out {
        Err(refusal) if refusal.is_gone => Ok(()),
        out => out,
    }
}

fn broken(pid: u32, e: &io::Error) -> Refusal {
    Refusal::new(
        format!("the process that holds the probes of process {pid} does not answer: {e}"),
        format!("take out what is left: convoy live {pid} --detach"),
    )
}
