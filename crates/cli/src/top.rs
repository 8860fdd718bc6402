//! `convoy top`: the tables of a running program, or of a profile.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use convoy_capture::{Interrupt, Watch};
use convoy_top::{App, Live, Reading, Source};

use crate::exit::Status;
use crate::message::Message;
use crate::output_args::{Format, Shape};
use crate::recording::time;
use crate::show;
use crate::terminal::Look;

/// `convoy top`.
#[derive(Debug, Args)]
#[command(override_usage = "convoy top [OPTIONS] PID|FILE")]
pub struct Top {
    /// Process that runs under convoy (with its children), the convoy that records it, or a profile
    #[arg(value_name = "PID|FILE")]
    subject: PathBuf,

    /// From one reading to the next
    ///
    /// Cost: a reading of a small program takes some milliseconds of CPU time, of one with 5,000 threads some
    /// hundred; where that is more than a tenth of the interval, readings become rarer. The program pays nothing.
    #[arg(short, long, value_name = "TIME", value_parser = time, default_value = "1s")]
    interval: Duration,

    /// Write one reading as text and leave; also where standard output is no terminal
    ///
    /// Of a running program that takes one interval: what goes on now is the difference of two readings.
    #[arg(long)]
    once: bool,

    /// Only what has this text in its name, or matches this expression
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,

    #[command(flatten)]
    shape: Shape,
}

/// Shows it.
pub fn top(top: &Top) -> Status {
    let shown = match top.pid() {
        Some(pid) => of_process(top, pid),
        None => of_file(top),
    };
    match shown {
        Ok(()) => Status::Success,
        Err(message) => {
            message.print();
            Status::Failure
        }
    }
}

impl Top {
    /// A number is a process; a file that is called like one is `./4242`.
    fn pid(&self) -> Option<u32> {
        self.subject.to_str()?.parse().ok()
    }

    fn app(&self, subject: String) -> App {
        let mut app = App::new(subject, self.interval);
        app.show_only(&self.filter);
        app
    }

    /// Nobody would see what changes, or the terminal cannot draw it.
    fn is_once(&self) -> bool {
        let term = std::env::var("TERM").unwrap_or_default();
        self.once
            || self.shape.format == Format::Json
            || !std::io::stdout().is_terminal()
            || term.is_empty()
            || term == "dumb"
    }

    fn look(&self) -> Look {
        self.shape.look(Some(&std::io::stdout()))
    }
}

fn of_process(top: &Top, pid: u32) -> Result<(), Message> {
    let watch = Watch::of(pid).map_err(|e| Message::from(e.trouble()))?;
    let mut source = Live::new(watch);
    let mut app = top.app(format!("process {pid}"));
    if !top.is_once() {
        return interactive(top, app, Some(source));
    }
    app.read(source.read());
    if app.is_running() {
        std::thread::sleep(top.interval);
        app.read(source.read());
    }
    write(top, &app)
}

fn of_file(top: &Top) -> Result<(), Message> {
    let once = top.is_once();
    let profile = show::load(&top.subject, false)?;
    let mut app = top.app(top.subject.display().to_string());
    app.read(Reading::of_profile(profile));
    if once {
        return write(top, &app);
    }
    interactive(top, app, None::<Live>)
}

fn interactive(top: &Top, app: App, source: Option<Live>) -> Result<(), Message> {
    let interrupt = Interrupt::watch();
    let look = convoy_top::Look {
        color: top.look().color,
    };
    convoy_top::run(app, source, look, || interrupt.asked()).map_err(|e| {
        Message::new(
            format!("the terminal: {e}"),
            "nothing can be shown on it",
            "write one reading as text: convoy top --once PID",
        )
    })
}

fn write(top: &Top, app: &App) -> Result<(), Message> {
    let text = match top.shape.format {
        Format::Json => app.json(),
        Format::Text => app.text(top.look().width),
    };
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Whoever read it has seen enough.
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Message::new(
            format!("standard output: {e}"),
            "the reading was not written in full",
            "write it to a file on a disk with room",
        )),
        _ => Ok(()),
    }
}
