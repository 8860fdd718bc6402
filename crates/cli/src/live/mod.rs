//! `convoy live`: metrics of parts of a running program.

mod args;
mod calibrate;
mod callees;
pub(crate) mod engine;
mod functions;
mod holding;
mod kept;
mod lines;
mod place;
mod probes;
pub(crate) mod readers;
mod screen;
mod search;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use convoy_capture::{AgentInside, Interrupt, Options, Recorder, Scheduler, Targets, Watch};
use convoy_live::{Invalid, Notice, Refusal, Request};

use crate::args::Agent;
use crate::exit::Status;
use crate::message::{say, Message};
use crate::output_args::Format;
use crate::record::warn;

pub use args::{percent, Live};
pub use calibrate::{run_loop, ARGUMENT as LOOP_ARGUMENT};
pub use functions::Functions;

use engine::{Engine, Step};
use lines::Lines;
use readers::Locks;

/// What is measured where nobody has asked for anything.
const DEFAULT: [&str; 3] = ["cpu", "run_queue", "blocked"];

/// Ctrl-C is answered within this.
const PATIENCE: Duration = Duration::from_millis(50);

/// A program that was just started has mapped its libraries within this.
const BEGINNING: Duration = Duration::from_secs(1);

/// Measures.
pub fn live(live: &Live) -> Status {
    let requests = match requests(live) {
        Ok(requests) => requests,
        Err(message) => {
            message.print();
            return failure(live);
        }
    };
    let done = match live.process.pid() {
        Some(pid) if live.detach => clean_up(live, pid),
        Some(pid) if live.search => search::of_process(live, pid),
        Some(pid) => of_process(live, pid, requests),
        None => return of_command(live, requests),
    };
    match done {
        Ok(()) => Status::Success,
        Err(message) => {
            message.print();
            Status::Failure
        }
    }
}

/// Of a COMMAND, 2 could be its own status.
fn failure(live: &Live) -> Status {
    match live.command.is_empty() {
        true => Status::Failure,
        false => Status::OwnFailure,
    }
}

impl Live {
    /// Whether somebody looks who can choose. The terminal of a COMMAND belongs to it.
    fn has_screen(&self) -> bool {
        let term = std::env::var("TERM").unwrap_or_default();
        self.command.is_empty()
            && self.shape.format == Format::Text
            && io::stdout().is_terminal()
            && io::stdin().is_terminal()
            && !term.is_empty()
            && term != "dumb"
    }
}

/// Reads all requests before anything is touched.
fn requests(live: &Live) -> Result<Vec<Request>, Message> {
    let texts: Vec<&str> = match live.metric.is_empty() && !live.has_screen() {
        true => DEFAULT.to_vec(),
        false => live.metric.iter().map(String::as_str).collect(),
    };
    parse(texts.into_iter())
}

/// Reads requests.
pub(crate) fn parse<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<Request>, Message> {
    let parse = |text: &str| {
        text.parse()
            .map_err(|e: Invalid| Message::new(e.found, "nothing is measured", e.fix))
    };
    texts.map(parse).collect()
}

fn clean_up(live: &Live, pid: u32) -> Result<(), Message> {
    Targets::check(pid).map_err(|trouble| Message::from(&trouble))?;
    convoy_capture::probes::clean_up(pid).map_err(|refusal| {
        Message::new(refusal.found, "nothing was taken out of it", refusal.fix)
    })?;
    if !live.quiet {
        say(&format!("convoy: process {pid} has no probes any more\n"));
    }
    Ok(())
}

fn of_process(live: &Live, pid: u32, requests: Vec<Request>) -> Result<(), Message> {
    Targets::check(pid).map_err(|trouble| Message::from(&trouble))?;
    can_keep(live)?;
    let interrupt = Interrupt::watch();
    // Dropped last: the agent goes out when the probes are.
    let (_agent, watch) = enter(live.agent.unwrap_or_default(), pid)?;
    let mut engine = begin(live, pid, watch)?;
    add(&mut engine, live, requests)?;
    if live.has_screen() {
        return screen::show(live, engine, &interrupt);
    }
    let lines = Lines::new(io::stdout().lock(), live.shape.format);
    let measured = measure(&mut engine, live, lines, || interrupt.asked());
    end_and_keep(engine, live, measured)
}

/// Whether the session can be written where it is to be kept, before anything is touched.
fn can_keep(live: &Live) -> Result<(), Message> {
    let checked = live
        .output
        .as_deref()
        .map_or(Ok(()), convoy_capture::can_write);
    checked.map_err(|e| Message::from(e.trouble()))
}

/// Takes the probes out first: nothing that goes wrong with a file may keep them in.
fn end_and_keep(engine: Engine, live: &Live, measured: Result<(), Message>) -> Result<(), Message> {
    let Some(to) = &live.output else {
        return end(engine, measured);
    };
    let profile = kept::profile(&engine);
    let ended = end(engine, measured);
    match (kept::save(&profile, to, live.quiet), ended) {
        (Err(unkept), Err(message)) => {
            message.print();
            Err(unkept)
        }
        (saved, ended) => saved.and(ended),
    }
}

/// Puts the agent into a process, if that is wanted, for as long as the result lives. The tables of
/// an agent are watched, whoever has put it there.
pub(crate) fn enter(
    agent: Agent,
    pid: u32,
) -> Result<(Option<AgentInside>, Option<Watch>), Message> {
    match agent {
        Agent::Auto => {
            let own = ["/proc/self/exe", convoy_capture::INJECTOR_ARGUMENT];
            let entered = AgentInside::enter(&own.map(Into::into), pid);
            let agent = entered.map_err(|e| Message::from(e.trouble()))?;
            let watch = agent.watch();
            Ok((Some(agent), Some(watch)))
        }
        Agent::Off => Ok((None, Watch::of(pid).ok())),
    }
}

/// Also after an error the program must get its bytes back. Tells both what stopped the measuring
/// and what keeps the probes in.
pub(crate) fn end(engine: Engine, measured: Result<(), Message>) -> Result<(), Message> {
    let Err(refusal) = engine.end() else {
        return measured;
    };
    if let Err(message) = measured {
        message.print();
    }
    let effect = "some probes may still be in the process";
    Err(Message::new(&refusal.found, effect, &refusal.fix))
}

fn begin(live: &Live, pid: u32, watch: Option<Watch>) -> Result<Engine, Message> {
    Engine::new(pid, watch.map(Locks::new), live.budget, live.every).map_err(|e| failed(&e))
}

fn add(engine: &mut Engine, live: &Live, requests: Vec<Request>) -> Result<(), Message> {
    for request in requests {
        engine.add(request)?;
    }
    tell(engine.take_notices(), live.quiet);
    Ok(())
}

/// Writes values until the process ends, the time is over, nobody reads, or `asked` says so. What it
/// takes to put the probes in, seconds on a busy machine, is not time in which they measure.
fn measure(
    engine: &mut Engine,
    live: &Live,
    mut lines: Lines<impl Write>,
    asked: impl Fn() -> bool,
) -> Result<(), Message> {
    let until = live.limit.map(|limit| engine.elapsed() + limit);
    loop {
        let left = until.map_or(PATIENCE, |until| {
            until.saturating_sub(engine.elapsed()).min(PATIENCE)
        });
        match engine.step(left).map_err(|refusal| failed(&refusal))? {
            Step::Sampled(_) => {
                let is_read = lines.write(engine.session());
                if !is_read.map_err(|e| unwritten(&e))? {
                    return Ok(());
                }
            }
            Step::Waited => {}
            Step::Ended => {
                if !live.quiet {
                    say(&format!("convoy: process {} has ended\n", engine.pid()));
                }
                return Ok(());
            }
        }
        tell(engine.take_notices(), live.quiet);
        if asked() || until.is_some_and(|until| engine.elapsed() >= until) {
            return Ok(());
        }
    }
}

/// Starts a program, and measures it from the start. Its standard output is its own: values go to
/// standard error.
fn of_command(live: &Live, requests: Vec<Request>) -> Status {
    with_command(&live.command, live.quiet, |pid, watch| {
        if live.search {
            return search::of_command(live, pid, watch);
        }
        can_keep(live)?;
        let mut engine = begin(live, pid, watch)?;
        let lines = Lines::new(io::stderr(), live.shape.format);
        let measured = add(&mut engine, live, requests)
            .and_then(|()| measure(&mut engine, live, lines, || false));
        end_and_keep(engine, live, measured)
    })
}

/// Starts a program with the agent, does something with it from the start, and ends as it does.
pub(crate) fn with_command(
    command: &[OsString],
    quiet: bool,
    act: impl FnOnce(u32, Option<Watch>) -> Result<(), Message>,
) -> Status {
    let options = Options {
        scheduler: Scheduler::Off,
        ..Options::default()
    };
    let started = Recorder::new(options).and_then(|recorder| recorder.launch(command));
    let mut running = match started {
        Ok(running) => running,
        Err(error) => {
            Message::from(error.trouble()).print();
            return Status::of_launch(&error);
        }
    };
    warn(&running.take_warnings(), quiet);
    let pid = running.pid();
    let program = std::thread::spawn(move || running.wait().exit);
    if let Err(message) = act(pid, when_ready(pid)) {
        message.print();
    }
    match program.join() {
        Ok(exit) => Status::of_program(exit),
        Err(_) => Status::OwnFailure,
    }
}

/// Waits until the agent has begun: then all libraries are there that the program was linked with.
fn when_ready(pid: u32) -> Option<Watch> {
    let began = Instant::now();
    loop {
        match Watch::of(pid) {
            Ok(watch) => return Some(watch),
            Err(_) if began.elapsed() > BEGINNING => return None,
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

pub(crate) fn tell(notices: Vec<Notice>, quiet: bool) {
    for notice in notices {
        if notice.is_fatal || !quiet {
            Message::new(notice.found, notice.effect, "").print();
        }
    }
}

pub(crate) fn failed(refusal: &Refusal) -> Message {
    Message::new(&refusal.found, "nothing more is measured", &refusal.fix)
}

fn unwritten(error: &io::Error) -> Message {
    Message::new(
        format!("the values cannot be written: {error}"),
        "they are lost, and nothing more is measured",
        "write them to a file on a disk with room",
    )
}
