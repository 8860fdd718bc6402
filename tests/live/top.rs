//! `convoy top` on a running program: in a terminal (tmux), as text, and where there is nothing to show.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use convoy_harness::case::{measured, trial, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::needs::missing;
use convoy_harness::run::{run, start, End, Outcome, Running};
use convoy_harness::{check, convoy, root, Result};
use libtest_mimic::Trial;
use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(60);

/// The tests.
pub fn trials() -> Vec<Trial> {
    let tmux = || missing(&["tmux".to_owned()]);
    vec![
        measured("top/keys", tmux(), keys),
        trial("top/signal", tmux(), signal),
        trial("top/hangup", tmux(), hangup),
        measured("top/once", None, once),
        measured("top/no-agent", None, no_agent),
    ]
}

/// A program that fights for one lock until it is told to end, under a recording.
struct Program<'a> {
    recorder: Running<'a>,
    pid: u32,
    unfinished: Unfinished,
}

/// A program that would run on when its test has failed.
struct Unfinished(Option<u32>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(pid) = self.0.take() {
            let _ = send(pid, Signal::KILL); // it may have ended by itself
        }
    }
}

impl<'a> Program<'a> {
    fn start(scratch: &'a Scratch) -> Result<Self> {
        let program = compile(&root().join("fixtures/hot-mutex/hot_mutex.c"), &[])?;
        let file = scratch.path("run.convoy");
        let mut command = convoy::record_with(&["--scheduler", "off"], &file)?;
        command.arg(program).env("CONVOY_FX_SCALE", "100000");
        let recorder = start(&mut command, scratch.dir(), "record")?;
        let pid = wait_for("the program", || child_of(recorder.id()))?;
        Ok(Self {
            recorder,
            pid,
            unfinished: Unfinished(Some(pid)),
        })
    }

    /// Ends it by a signal; the recording must be whole.
    fn end(mut self, scratch: &Scratch) -> Result {
        send(self.pid, Signal::TERM)?;
        self.unfinished.0 = None;
        let outcome = self.recorder.finish(TIMEOUT)?;
        check!(outcome.end == End::Status(143), "{:?}", outcome);
        convoy::read(&scratch.path("run.convoy")).map(|_| ())
    }
}

/// The process that has the agent: the recorder's child, once it runs another program than convoy.
fn child_of(pid: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let child = children.split_whitespace().next()?.parse().ok()?;
    let name = std::fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
    name.starts_with("hot_mutex").then_some(child)
}

fn send(pid: u32, signal: Signal) -> Result {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or("no process id")?;
    kill_process(pid, signal).map_err(|e| format!("{signal:?} to {pid:?}: {e}"))
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        check!(began.elapsed() < TIMEOUT, "{what} never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A terminal of 80 columns and 24 lines with `convoy top` in it, and a shell around that says how it ended.
struct Terminal<'a> {
    scratch: &'a Scratch,
    /// Of a server of its own: the user's is not touched.
    server: String,
}

impl<'a> Terminal<'a> {
    fn top(scratch: &'a Scratch, name: &str, pid: u32) -> Result<Self> {
        let script = format!(
            "stty -g > before; echo $$ > shell; '{}' top --interval 200ms {pid}; echo \"left with $?\"; \
             stty -g > after; exec sleep 1000",
            convoy::binary()?.display()
        );
        let server = format!("convoy-{}-{name}", std::process::id());
        let this = Self { scratch, server };
        this.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            &script,
        ])?;
        Ok(this)
    }

    fn tmux(&self, arguments: &[&str]) -> Result<String> {
        let done = Command::new("tmux")
            .arg("-L")
            .arg(&self.server)
            .args(arguments)
            .current_dir(self.scratch.dir())
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .env_remove("TMUX")
            .output()
            .map_err(|e| format!("tmux: {e}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        check!(
            done.status.success(),
            "tmux {arguments:?}: {}",
            text(&done.stderr)
        );
        Ok(text(&done.stdout))
    }

    fn press(&self, keys: &[&str]) -> Result {
        let arguments: Vec<&str> = ["send-keys"].iter().chain(keys).copied().collect();
        self.tmux(&arguments).map(|_| ())
    }

    /// Waits until the screen is as it should be, and returns it.
    fn wait(&self, what: &str, good: impl Fn(&str) -> bool) -> Result<String> {
        let began = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p"])?;
            if good(&screen) {
                return Ok(screen);
            }
            check!(began.elapsed() < TIMEOUT, "{what}: never so:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn shows(&self, text: &str) -> Result<String> {
        self.wait(text, |screen| screen.contains(text))
    }

    /// The shell has its terminal back as it was.
    fn is_restored(&self) -> Result {
        let screen = self.shows("left with 0")?;
        check!(!screen.contains("waits/s"), "the picture stayed:\n{screen}");
        let flags = self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"])?;
        check!(flags.trim() == "0 1", "alternate screen, cursor: {flags}");
        let read = |name| std::fs::read_to_string(self.scratch.path(name)).unwrap_or_default();
        wait_for("the shell's end", || {
            (!read("after").is_empty()).then_some(())
        })?;
        check!(
            read("before") == read("after"),
            "stty: {} was {}",
            read("after"),
            read("before")
        );
        Ok(())
    }

    fn pid(&self) -> Result<u32> {
        let shell = std::fs::read_to_string(self.scratch.path("shell")).unwrap_or_default();
        let shell = shell.trim();
        wait_for("convoy top", || {
            let children = format!("/proc/{shell}/task/{shell}/children");
            let children = std::fs::read_to_string(children).ok()?;
            children.split_whitespace().next()?.parse().ok()
        })
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]); // it may have ended by itself
    }
}

/// Every table, a filter, a page, a pause; then the program ends while it is watched.
fn keys(scratch: &Scratch) -> Result {
    let program = Program::start(scratch)?;
    let terminal = Terminal::top(scratch, "keys", program.pid)?;
    let first = terminal.shows("\"now\": the last")?;
    let lock = first.lines().find(|line| line.starts_with("part"));
    let hot = |line: &str| line.contains(" %") && line.contains("/s");
    check!(
        lock.is_some_and(hot),
        "the lock is not in the table:\n{first}"
    );
    check!(
        first.contains(&format!("(process {})", program.pid)),
        "{first}"
    );

    terminal.press(&["Enter"])?;
    let page = terminal.shows("Who waits for whom")?;
    check!(page.contains("hot_lock_region()"), "no site:\n{page}");
    terminal.press(&["Escape"])?;
    terminal.shows("1 of 1 by now")?;

    terminal.press(&["3"])?;
    terminal.shows("of 5 by CPU")?;
    terminal.press(&["/", "worker-2"])?;
    let filtered = terminal.shows("1 of 5 by CPU, only \"worker-2\"")?;
    check!(!filtered.contains("worker-1 ("), "{filtered}");
    terminal.press(&["Enter", "Escape"])?;
    terminal.shows("5 of 5")?;
    terminal.press(&[">"])?;
    terminal.shows("by no CPU")?;

    terminal.tmux(&["resize-window", "-x", "120", "-y", "30"])?;
    terminal.shows("no CPU all")?;
    terminal.press(&["p"])?;
    terminal.shows("paused: the program goes on")?;
    terminal.press(&["p"])?;
    terminal.shows("\"now\": the last")?;

    program.end(scratch)?;
    let last = terminal.shows("the program has ended: this is the last reading")?;
    check!(last.contains("worker-2"), "{last}");
    terminal.press(&["q"])?;
    terminal.is_restored()
}

/// Whatever ends it, the terminal is as it was, and the program goes on.
fn signal(scratch: &Scratch) -> Result {
    let program = Program::start(scratch)?;
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let terminal = Terminal::top(scratch, &format!("{signal:?}"), program.pid)?;
        terminal.shows("\"now\": the last")?;
        send(terminal.pid()?, signal)?;
        terminal
            .is_restored()
            .map_err(|e| format!("{signal:?}: {e}"))?;
        drop(terminal);
        for name in ["before", "after", "shell"] {
            let _ = std::fs::remove_file(scratch.path(name)); // of the next round
        }
    }
    program.end(scratch)
}

/// A window that is closed, a connection that is lost: it ends, even if nobody sends it a signal.
fn hangup(scratch: &Scratch) -> Result {
    let program = Program::start(scratch)?;
    let terminal = Terminal::top(scratch, "hangup", program.pid)?;
    terminal.shows("\"now\": the last")?;
    let pid = terminal.pid()?;
    let mut watcher = Unfinished(Some(pid));
    terminal.tmux(&["kill-server"])?;
    let gone = wait_for("the end of convoy top", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        stat.is_err().then_some(())
    });
    if gone.is_ok() {
        watcher.0 = None;
    }
    program.end(scratch)?;
    gone
}

fn once(scratch: &Scratch) -> Result {
    let program = Program::start(scratch)?;
    let pid = program.pid.to_string();
    let text = top(&[&pid, "--once"], scratch)?;
    check!(text.end == End::Status(0), "{text:?}");
    for part in [
        "\"now\": the last 1.0",
        "locks: 1",
        "\npart ",
        "worker-3",
        "worker-#",
    ] {
        check!(
            text.stdout.contains(part),
            "no {part:?} in:\n{}",
            text.stdout
        );
    }
    check!(
        !text.stdout.contains('\x1b'),
        "escape codes: {:?}",
        text.stdout
    );

    // Not asked for, but nobody is there to press a key.
    let json = top(&[&pid, "--format", "json", "--interval", "300ms"], scratch)?;
    let json: Value = serde_json::from_str(&json.stdout).map_err(|e| format!("{json:?}: {e}"))?;
    let lock = &json["locks"][0];
    check!(lock["name"] == "part", "{lock}");
    let taken = lock["taken_per_s"].as_f64().unwrap_or(0.0);
    let share = lock["waited_now_ratio"].as_f64().unwrap_or(-1.0);
    check!(taken > 0.0 && (0.0..=1.0).contains(&share), "{lock}");
    check!(
        json["threads"].as_array().is_some_and(|t| t.len() == 5),
        "{json}"
    );

    // The whole recording, by the convoy that makes it.
    let recorder = top(&[&program.recorder.id().to_string(), "--once"], scratch)?;
    check!(recorder.stdout.contains("\npart "), "{recorder:?}");

    program.end(scratch)?;
    let file = scratch.path("run.convoy");
    let over = top(&[&file.to_string_lossy()], scratch)?;
    check!(over.stdout.contains("a run that is over"), "{over:?}");
    check!(over.stdout.contains("\npart "), "{over:?}");
    Ok(())
}

fn no_agent(scratch: &Scratch) -> Result {
    let mut sleep = start(Command::new("sleep").arg("1000"), scratch.dir(), "sleep")?;
    let bare = top(&[&sleep.id().to_string()], scratch)?;
    let running = sleep.is_running();
    sleep.signal(Signal::KILL)?;
    sleep.finish(TIMEOUT)?;
    check!(running, "the process was ended");
    check!(
        bare.end == End::Status(2) && bare.stdout.is_empty(),
        "{bare:?}"
    );
    for part in [
        "(sleep) carries no agent",
        "nothing to show",
        "fix: ",
        "convoy record --",
    ] {
        check!(bare.stderr.contains(part), "no {part:?} in {}", bare.stderr);
    }
    let gone = top(&["4194305"], scratch)?; // beyond the largest pid
    check!(gone.end == End::Status(2), "{gone:?}");
    check!(
        gone.stderr.contains("there is no process 4194305"),
        "{gone:?}"
    );
    let file = top(&[&Path::new("no.convoy").to_string_lossy()], scratch)?;
    check!(file.end == End::Status(2), "{file:?}");
    Ok(())
}

fn top(arguments: &[&str], scratch: &Scratch) -> Result<Outcome> {
    let mut command = Command::new(convoy::binary()?);
    run(
        command.arg("top").args(arguments),
        scratch.dir(),
        "top",
        TIMEOUT,
    )
}
