//! Native replay in a process of its own: a hang, a crash or a lack of memory stays there, and
//! threads that were left behind end with it.
//!
//! Convoy starts itself again with a hidden argument; that process calls [`serve`]. On its standard
//! input comes one request (options, then the program), on its standard output go the outcomes, one
//! after the other, each with its length in front: those before a crash are kept.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use convoy_replay::program::Program;
use serde::{Deserialize, Serialize};

pub use crate::codec::{decode, encode};
use crate::native::{NativeError, NativeOptions, NativeOutcome, Prepared};
use crate::stats::Range;

/// Argument of `convoy` that makes it serve replays.
pub const ARGUMENT: &str = "__replay-native";
/// Longest reply that is read: an outcome of 5,000 threads and 100,000 locks has 8 MB.
const REPLY_LIMIT: u32 = 256 << 20;
/// What a child may take beyond its replays: start, decoding, calibration.
const OVERHEAD: Duration = Duration::from_secs(20);
/// A spread of the wall times above this is worth another run.
const WIDE: f64 = 0.05;

/// How often to replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// At least so often.
    pub least: u32,
    /// At most, while the wall times differ by more than 5 % and there is time.
    pub most: u32,
    /// For additional runs.
    pub budget: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            least: 3,
            most: 7,
            budget: Duration::from_secs(5),
        }
    }
}

impl Times {
    /// Exactly so often.
    pub fn exactly(times: u32) -> Self {
        Self {
            least: times,
            most: times,
            budget: Duration::ZERO,
        }
    }
}

/// Replays of one program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Runs {
    /// Those that ended, at least one.
    pub outcomes: Vec<NativeOutcome>,
    /// Why there are not more.
    pub failure: Option<NativeError>,
}

impl Runs {
    /// Wall times, nanoseconds.
    pub fn wall_ns(&self) -> Range {
        Range::of(self.outcomes.iter().map(|outcome| outcome.wall_ns as f64))
    }

    /// The outcome with the median wall time.
    pub fn median(&self) -> Option<&NativeOutcome> {
        let mut by_wall: Vec<&NativeOutcome> = self.outcomes.iter().collect();
        by_wall.sort_by_key(|outcome| outcome.wall_ns);
        by_wall.get(by_wall.len() / 2).copied()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Request {
    options: NativeOptions,
    times: Times,
}

type Reply = Result<NativeOutcome, NativeError>;

/// Serves one request: the whole of the child's work.
///
/// # Errors
///
/// Standard input or output that is closed, or that does not hold a request. Errors of the replay
/// itself are replies.
pub fn serve(mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    // Nobody would read the outcomes of an orphan.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let head = read_block(&mut input)?;
    let Request { options, times } = postcard::from_bytes(&head).map_err(io::Error::other)?;
    let mut program = Vec::new();
    input.read_to_end(&mut program)?;
    let program = match decode(&program) {
        Ok(program) => program,
        Err(error) => {
            return reply(&mut output, &Err(NativeError::Invalid(error.to_string())));
        }
    };
    let prepared = match Prepared::new(program, &options.schedule) {
        Ok(prepared) => prepared,
        Err(error) => return reply(&mut output, &Err(error)),
    };
    let start = Instant::now();
    let mut walls = Vec::new();
    while wants_another(&walls, &times, start.elapsed()) {
        let outcome = prepared.run(options.timeout);
        reply(&mut output, &outcome)?;
        match outcome {
            Ok(outcome) => walls.push(outcome.wall_ns as f64),
            // Threads may have been left behind; they would disturb the next run.
            Err(_) => break,
        }
    }
    Ok(())
}

fn wants_another(walls: &[f64], times: &Times, elapsed: Duration) -> bool {
    let done = walls.len() as u32;
    if done < times.least {
        return true;
    }
    let range = Range::of(walls.iter().copied());
    done < times.most && elapsed < times.budget && range.relative_width() > WIDE
}

fn reply(output: &mut impl Write, reply: &Reply) -> io::Result<()> {
    write_block(
        output,
        &postcard::to_stdvec(reply).map_err(io::Error::other)?,
    )
}

fn write_block(output: &mut impl Write, block: &[u8]) -> io::Result<()> {
    let length = u32::try_from(block.len()).map_err(io::Error::other)?;
    output.write_all(&length.to_le_bytes())?;
    output.write_all(block)?;
    output.flush()
}

fn read_block(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > REPLY_LIMIT {
        return Err(io::Error::other("a block is longer than any can be"));
    }
    let mut block = Vec::new();
    let read = input.take(length.into()).read_to_end(&mut block)?;
    if read < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(block)
}

/// Replays a program in a child process of `exe`, which is to call [`serve`] when it is given
/// [`ARGUMENT`].
///
/// # Errors
///
/// No replay ended: the program or schedule is refused, hangs, or the process failed. If one did,
/// what ended the others is in [`Runs::failure`].
pub fn spawn(
    exe: &Path,
    program: &Program,
    options: &NativeOptions,
    times: &Times,
) -> Result<Runs, NativeError> {
    let failed = |error: io::Error| NativeError::Child(error.to_string());
    let mut child = Command::new(exe)
        .arg(ARGUMENT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let request = Request {
        options: options.clone(),
        times: times.clone(),
    };
    let head = postcard::to_stdvec(&request).map_err(|e| failed(io::Error::other(e)))?;
    let body = encode(program);
    let runs = exchange(&mut child, head, body, limit(options, times));
    // It may have ended, or hang.
    let _ = child.kill();
    let _ = child.wait();
    runs
}

/// Longest time that a child may take in all.
fn limit(options: &NativeOptions, times: &Times) -> Duration {
    options.timeout * times.least.max(1) + times.budget + options.timeout + OVERHEAD
}

fn exchange(
    child: &mut Child,
    head: Vec<u8>,
    body: Vec<u8>,
    limit: Duration,
) -> Result<Runs, NativeError> {
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(mut stdout), Some(stderr)) = pipes else {
        return Err(NativeError::Child("it has no pipes".into()));
    };
    // Each pipe has a thread: a child that does not read or write blocks none but that. They end
    // with the child.
    thread::spawn(move || {
        let _ = write_block(&mut stdin, &head).and_then(|()| stdin.write_all(&body));
    });
    let complaints = thread::spawn(move || tail(stderr));
    let (sender, replies) = mpsc::channel();
    thread::spawn(move || {
        while let Ok(block) = read_block(&mut stdout) {
            if sender.send(block).is_err() {
                break;
            }
        }
    });
    let deadline = Instant::now() + limit;
    let mut runs = Runs::default();
    loop {
        match replies.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(block) => match postcard::from_bytes::<Reply>(&block) {
                Ok(Ok(outcome)) => runs.outcomes.push(outcome),
                Ok(Err(error)) => runs.failure = Some(error),
                Err(error) => runs.failure = Some(NativeError::Child(error.to_string())),
            },
            Err(RecvTimeoutError::Timeout) => {
                let after = limit.as_secs();
                let text = format!("it did not answer within {after} s");
                runs.failure = Some(NativeError::Child(text));
                break;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if runs.failure.is_none() {
        runs.failure = death(child, complaints);
    }
    if runs.outcomes.is_empty() {
        let nothing = || NativeError::Child("it ended without an outcome".into());
        return Err(runs.failure.unwrap_or_else(nothing));
    }
    Ok(runs)
}

/// How a child ended that has closed its output, if not as it should.
fn death(child: &mut Child, complaints: thread::JoinHandle<String>) -> Option<NativeError> {
    let status = child.wait().ok()?;
    if status.success() {
        return None;
    }
    let text = complaints.join().unwrap_or_default();
    let separator = if text.is_empty() { "" } else { ": " };
    Some(NativeError::Child(format!("{status}{separator}{text}")))
}

/// The last of what a pipe carries.
pub(crate) fn tail(mut pipe: impl Read) -> String {
    const KEPT: usize = 2000;
    let mut kept = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = pipe.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..read]);
        if kept.len() > 2 * KEPT {
            kept.drain(..kept.len() - KEPT);
        }
    }
    let from = kept.len().saturating_sub(KEPT);
    String::from_utf8_lossy(&kept[from..]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::Schedule;
    use convoy_replay::program::{Op, Semaphore, Thread};

    fn program(ops: Vec<Op>) -> Program {
        Program {
            threads: vec![Thread {
                at_start: true,
                ops,
                ..Thread::default()
            }],
            semaphores: vec![Semaphore::default()],
            ..Program::default()
        }
    }

    fn options(timeout: Duration) -> NativeOptions {
        NativeOptions {
            timeout,
            schedule: Schedule::Free,
        }
    }

    fn served(program: &Program, options: &NativeOptions, times: &Times) -> Vec<Reply> {
        let request = Request {
            options: options.clone(),
            times: times.clone(),
        };
        let mut input = Vec::new();
        write_block(&mut input, &postcard::to_stdvec(&request).unwrap()).unwrap();
        input.extend(encode(program));
        let mut output = Vec::new();
        serve(&input[..], &mut output).unwrap();
        let mut output = &output[..];
        let mut replies = Vec::new();
        while let Ok(block) = read_block(&mut output) {
            replies.push(postcard::from_bytes(&block).unwrap());
        }
        replies
    }

    #[test]
    fn serves_as_many_outcomes_as_were_asked_for() {
        let program = program(vec![Op::Work { ns: 1e5 }, Op::SemPost { sem: 0 }]);
        let replies = served(
            &program,
            &options(Duration::from_secs(20)),
            &Times::exactly(4),
        );
        assert_eq!(replies.len(), 4);
        for outcome in replies {
            assert_eq!(outcome.unwrap().work_ns, 1e5);
        }
    }

    #[test]
    fn a_hang_is_the_last_reply() {
        let program = program(vec![Op::SemWait { sem: 0 }]);
        let replies = served(
            &program,
            &options(Duration::from_millis(20)),
            &Times::default(),
        );
        assert!(
            matches!(&replies[..], [Err(NativeError::Hang { .. })]),
            "{replies:?}"
        );
    }

    #[test]
    fn invalid_programs_are_refused_with_a_reason() {
        let program = program(vec![Op::SemWait { sem: 1 }]);
        let replies = served(&program, &options(Duration::ZERO), &Times::default());
        assert!(
            matches!(&replies[..], [Err(NativeError::Invalid(_))]),
            "{replies:?}"
        );
    }

    #[test]
    fn rejects_requests_that_are_cut() {
        for bytes in [
            &b""[..],
            b"\x01",
            b"\x05\x00\x00\x00ab",
            b"\xff\xff\xff\xff",
        ] {
            assert!(serve(bytes, Vec::new()).is_err());
        }
    }

    #[test]
    fn only_wide_spreads_are_worth_more_runs() {
        let times = Times {
            least: 2,
            most: 4,
            budget: Duration::from_secs(1),
        };
        let early = Duration::ZERO;
        assert!(wants_another(&[100.0], &times, early));
        assert!(!wants_another(&[100.0, 101.0], &times, early));
        assert!(wants_another(&[100.0, 120.0], &times, early));
        assert!(!wants_another(&[100.0, 120.0], &times, times.budget));
        assert!(!wants_another(&[100.0, 120.0, 100.0, 100.0], &times, early));
    }

    #[test]
    fn a_child_that_is_no_convoy_is_an_error_with_its_words() {
        let shell = tempfile::tempdir().unwrap();
        let exe = shell.path().join("exe");
        std::fs::write(&exe, "#!/bin/sh\necho no such argument >&2\nexit 3\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&exe, mode).unwrap();
        let result = spawn(
            &exe,
            &program(Vec::new()),
            &options(Duration::from_secs(1)),
            &Times::default(),
        );
        let Err(NativeError::Child(text)) = result else {
            panic!("{result:?}");
        };
        assert!(text.contains("exit status: 3"), "{text}");
        assert!(text.contains("no such argument"), "{text}");
        let missing = shell.path().join("missing");
        let result = spawn(
            &missing,
            &Program::default(),
            &options(Duration::ZERO),
            &Times::default(),
        );
        assert!(matches!(result, Err(NativeError::Child(_))));
    }
}
