//! Attachment of the agent to running processes, by a process of its own.
//!
//! Convoy starts itself once more with a hidden argument; that process calls [`serve`]. It puts the
//! agent in, waits, and takes the hooks out when it is told to or when convoy is gone, whatever has
//! ended it: it is in a session of its own, and signals that end convoy do not reach it.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use convoy_inject::{Attached, Detached, Owner, Refusal};

use crate::agent_file::{self, Build};
use crate::error::Trouble;

/// Processes whose refusals are told one by one: a shell or a service manager has hundreds of
/// children.
const NAMED_REFUSALS: usize = 3;

/// Argument of `convoy` that makes it serve.
pub const ARGUMENT: &str = "__inject";

/// Option of the injector: the agent is that of [`crate::causal`].
const EXPERIMENTS: &str = "--experiments";

/// Between the words of a reply.
const SEPARATOR: char = '\t';
/// Ends the replies to a request.
const DONE: &str = "done";
/// Behind the number of a process whose tables nobody uses any more.
const UNUSED: &str = "\tunused";

/// A request that has been served: the agent is in these processes until this is dropped.
#[derive(Debug)]
pub(crate) struct Injector {
    child: Child,
    /// Its end tells the child to take the hooks out.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// Processes in which the agent counts.
    pub attached: Vec<u32>,
    /// Warnings about the processes that the agent is not in.
    pub troubles: Vec<Trouble>,
}

impl Injector {
    /// Puts the agent into these processes, as far as that is possible.
    pub fn start(
        command: &[OsString],
        build: Build,
        session: &Path,
        pids: &[u32],
    ) -> io::Result<Self> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut child = Command::new(program)
            .args(arguments)
            .args((build == Build::Causal).then_some(EXPERIMENTS))
            .arg(session)
            .args(pids.iter().map(u32::to_string))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut injector = Self {
            child,
            stdin,
            stdout: BufReader::new(stdout),
            attached: Vec::new(),
            troubles: Vec::new(),
        };
        injector.read_replies()?;
        Ok(injector)
    }

    fn read_replies(&mut self) -> io::Result<()> {
        loop {
            let mut line = String::new();
            if self.stdout.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end_matches('\n');
            if line == DONE {
                self.troubles = summarized(std::mem::take(&mut self.troubles));
                return Ok(());
            }
            let words: Vec<&str> = line.split(SEPARATOR).collect();
            match words[..] {
                [pid, "attached"] => self.attached.extend(pid.parse::<u32>().ok()),
                [_, "refused", found, fix] => self.troubles.push(Trouble::new(
                    found,
                    "its locks have no names: only its scheduler events are recorded",
                    fix,
                )),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Takes the hooks out; returns when they are.
    pub fn finish(mut self) -> End {
        self.end()
    }

    fn end(&mut self) -> End {
        let mut end = End::default();
        if self.stdin.take().is_none() {
            return end;
        }
        let mut text = String::new();
        // An injector that was killed has said less: the rest is lost.
        let _ = self.stdout.read_to_string(&mut text);
        let _ = self.child.wait();
        for line in text.lines() {
            match line.strip_suffix(UNUSED) {
                Some(pid) => end.unused.extend(pid.parse::<u32>().ok()),
                None => end.troubles.push(Trouble::new(
                    line,
                    "the agent's hooks are still in it, and go on counting",
                    "attach once more: convoy -p takes out what an earlier one has left",
                )),
            }
        }
        end
    }
}

/// The first refusals, and how many more there are.
fn summarized(mut troubles: Vec<Trouble>) -> Vec<Trouble> {
    let more = troubles.len().saturating_sub(NAMED_REFUSALS);
    if more > 1 {
        troubles.truncate(NAMED_REFUSALS);
        troubles.push(Trouble::new(
            format!("the agent cannot go into {more} more processes"),
            "their locks have no names: only their scheduler events are recorded",
            "name one of them to see why: -p PID",
        ));
    }
    troubles
}

/// Result of taking the hooks out.
#[derive(Debug, Default)]
pub(crate) struct End {
    /// Processes in which no thread uses the agent's tables any more.
    pub unused: Vec<u32>,
    /// Warnings about hooks that are still in.
    pub troubles: Vec<Trouble>,
}

impl Drop for Injector {
    fn drop(&mut self) {
        self.end();
    }
}

/// Serves one request: replies on standard output, then waits for the end of standard input.
///
/// # Errors
/// Nobody reads the replies.
pub fn serve(session: &Path, pids: &[u32], has_experiments: bool) -> io::Result<()> {
    stand_alone();
    let build = match has_experiments {
        true => Build::Causal,
        false => Build::Normal,
    };
    let owner = Owner::this();
    let mut attached = Vec::new();
    let mut out = io::stdout();
    let mut told = Ok(());
    // All at once: each may take some seconds, and the recording has not begun.
    let results: Vec<_> = std::thread::scope(|scope| {
        let start = |&pid| scope.spawn(move || attach(pid, build, session, owner));
        let threads: Vec<_> = pids.iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    // Only the end of this process lets go of a thread that was given up: it must not last.
    let is_stuck = convoy_inject::is_stuck();
    for (&pid, result) in pids.iter().zip(results) {
        let result = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let reply = match result {
            Ok(_) if is_stuck => {
                let out = convoy_inject::detach(pid, owner).err();
                let why = "a thread of another process cannot be let go";
                let found = out.map_or(why.into(), |refusal| refusal.found);
                format!("{pid}{SEPARATOR}refused{SEPARATOR}{found}{SEPARATOR}try again")
            }
            Ok(_) => {
                attached.push(pid);
                format!("{pid}{SEPARATOR}attached")
            }
            // A child that was there just before: nothing to say.
            Err(refusal) if refusal.is_gone => continue,
            Err(refusal) => {
                let words =
                    [&refusal.found, &refusal.fix].map(|w| w.replace([SEPARATOR, '\n'], " "));
                let [found, fix] = words;
                format!("{pid}{SEPARATOR}refused{SEPARATOR}{found}{SEPARATOR}{fix}")
            }
        };
        told = told.and_then(|()| writeln!(out, "{reply}"));
    }
    told = told
        .and_then(|()| writeln!(out, "{DONE}"))
        .and_then(|()| out.flush());
    if told.is_ok() && !is_stuck {
        // Its end, or an error: in any case nobody wants more.
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
    }
    for pid in attached {
        let said = match convoy_inject::detach(pid, owner) {
            Ok(Detached::Removed { is_unused: true }) => format!("{pid}{UNUSED}\n"),
            // Also if it has none any more: an exec takes everything out.
            Ok(_) => String::new(),
            Err(refusal) => format!("{refusal}\n"),
        };
        told = told.and_then(|()| out.write_all(said.as_bytes()));
    }
    told
}

fn attach(pid: u32, build: Build, session: &Path, owner: Owner) -> Result<Attached, Refusal> {
    convoy_inject::attach(pid, agent_file::bytes(build), session, owner)
}

/// Signals of the terminal, and those that end convoy, do not end this process: the hooks would
/// stay in.
pub(crate) fn stand_alone() {
    let _ = rustix::process::setsid();
    for signal in [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGPIPE,
    ] {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_refusals_are_summarized() {
        let refusals = |n: usize| {
            let refusal = |i| Trouble::new(format!("process {i} is stopped"), "", "");
            summarized((0..n).map(refusal).collect())
        };
        assert_eq!(refusals(4).len(), 4);
        let many = refusals(40);
        assert_eq!(many.len(), 4);
        assert!(many[3].found.contains("37 more"), "{}", many[3].found);
    }
}
