//! The loop: keys and readings in, pictures out. Whatever ends it, the terminal is as it was.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyEvent};
use ratatui::{DefaultTerminal, Frame};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{getpid, kill_process, Signal};

use crate::app::App;
use crate::keys::Effect;
use crate::reading::{cpu_time, Reading, Source};
use crate::view::{self, Look};

/// A key, a reading or a signal is answered within this.
const TICK: Duration = Duration::from_millis(50);

/// A look for a key; with less, crossterm does not look at the terminal at all.
const PEEK: Duration = Duration::from_millis(1);

/// The terminal in raw mode, until this is dropped. A panic restores it, too, before it says what happened.
struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    fn take() -> io::Result<Self> {
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore())?;
        Ok(Self { terminal })
    }

    /// Gives the terminal back to the shell until it continues this.
    fn suspend(&mut self) -> io::Result<()> {
        ratatui::restore();
        kill_process(getpid(), Signal::TSTP)?;
        *self = Self::take()?;
        self.terminal.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = ratatui::try_restore(); // it may be gone, and then there is nobody to tell
    }
}

/// Whether the terminal is gone: its window was closed, or the connection lost. No signal says so to a process that
/// has no shell over it, and reading keys gives nothing then, again and again.
fn hung_up() -> bool {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let polled = poll(&mut fds, Some(&Timespec::default()));
    polled.is_ok()
        && fds
            .iter()
            .any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

/// Readings, made beside the loop: one can take longer than a person waits for an answer to a key.
struct Reader {
    wanted: Sender<()>,
    readings: Receiver<Reading>,
    under_way: bool,
    next: Instant,
}

impl Reader {
    fn start(mut source: impl Source) -> io::Result<Self> {
        let (wanted, requests) = mpsc::channel();
        let (done, readings) = mpsc::channel();
        std::thread::Builder::new()
            .name("reader".into())
            .spawn(move || {
                while requests.recv().is_ok() {
                    if done.send(source.read()).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            wanted,
            readings,
            under_way: false,
            next: Instant::now(),
        })
    }

    /// Asks for the next reading when it is due; whether one came.
    fn step(&mut self, app: &mut App) -> io::Result<bool> {
        if !self.under_way && app.wants_readings() && Instant::now() >= self.next {
            self.next = Instant::now();
            self.under_way = self.wanted.send(()).is_ok();
        }
        match self.readings.try_recv() {
            Ok(reading) => {
                let before = cpu_time();
                app.read(reading);
                app.spent(cpu_time().saturating_sub(before));
                self.under_way = false;
                self.next += app.pause();
                Ok(true)
            }
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => {
                Err(io::Error::other("the tables could not be read any more"))
            }
        }
    }
}

/// Something that a terminal shows and that keys change.
pub(crate) trait Interactive {
    /// Does what is due, for about as long as it may take; whether the picture is another one.
    fn step(&mut self, most: Duration) -> io::Result<bool>;

    /// Whether there is nothing more to show.
    fn is_over(&self) -> bool {
        false
    }

    /// Takes a key.
    fn key(&mut self, key: KeyEvent) -> Effect;

    /// Draws everything.
    fn draw(&mut self, frame: &mut Frame<'_>, look: Look);
}

/// Shows it until somebody leaves, it is over, or `asked` says that there was a signal.
///
/// # Errors
/// The terminal cannot be used, or is gone.
pub(crate) fn show(
    shown: &mut impl Interactive,
    look: Look,
    asked: impl Fn() -> bool,
) -> io::Result<()> {
    let mut screen = Screen::take()?;
    let mut changed = true;
    loop {
        changed |= shown.step(TICK)?;
        if asked() || hung_up() || shown.is_over() {
            return Ok(());
        }
        if changed {
            screen.terminal.draw(|frame| shown.draw(frame, look))?;
        }
        changed = match event::poll(PEEK) {
            Ok(false) => false,
            Ok(true) => match event::read()? {
                Event::Key(key) => match shown.key(key) {
                    Effect::Quit => return Ok(()),
                    Effect::Suspend => {
                        screen.suspend()?;
                        true
                    }
                    Effect::Nothing => true,
                },
                _ => true,
            },
            // A signal came in between: the next round sees what it wants.
            Err(e) if e.kind() == io::ErrorKind::Interrupted => true,
            Err(e) => return Err(e),
        };
    }
}

/// The tables, and where they come from.
struct Tables {
    app: App,
    reader: Option<Reader>,
}

impl Interactive for Tables {
    fn step(&mut self, most: Duration) -> io::Result<bool> {
        let changed = match &mut self.reader {
            Some(reader) => reader.step(&mut self.app)?,
            None => false,
        };
        // Until a key comes.
        match event::poll(if changed { Duration::ZERO } else { most }) {
            Err(e) if e.kind() != io::ErrorKind::Interrupted => Err(e),
            _ => Ok(changed),
        }
    }

    fn key(&mut self, key: KeyEvent) -> Effect {
        self.app.key(key)
    }

    fn draw(&mut self, frame: &mut Frame<'_>, look: Look) {
        let area = frame.area();
        self.app.resize(area.width.into(), area.height.into());
        view::draw(frame, &self.app, look);
    }
}

/// Shows `app` until somebody leaves, or `asked` says that there was a signal. Without a source
/// nothing changes.
///
/// # Errors
/// The terminal cannot be used, or is gone.
pub fn run(
    app: App,
    source: Option<impl Source>,
    look: Look,
    asked: impl Fn() -> bool,
) -> io::Result<()> {
    let reader = source.map(Reader::start).transpose()?;
    show(&mut Tables { app, reader }, look, asked)
}
