//! A measurement on the screen.

use std::collections::BTreeSet;
use std::time::Duration;

use convoy_capture::Interrupt;
use convoy_live::{Code, CurveId, Notice, Request, Session};
use convoy_top::{run_live, Measurement, Progress};

use super::args::Live;
use super::engine::{Engine, Step};
use crate::message::{say, Message};

/// The engine, and how it was asked for.
struct OnScreen<'a> {
    engine: Engine,
    live: &'a Live,
}

/// Shows it until the user leaves.
pub fn show(live: &Live, engine: Engine, interrupt: &Interrupt) -> Result<(), Message> {
    let look = convoy_top::Look {
        color: live.shape.look(Some(&std::io::stdout())).color,
    };
    let subject = format!("{} ({})", engine.process(), engine.pid());
    let began = std::time::Instant::now();
    let is_over = || {
        let limit = live.limit.is_some_and(|limit| began.elapsed() >= limit);
        limit || interrupt.asked()
    };
    let shown = run_live(subject, OnScreen { engine, live }, look, is_over);
    let (on_screen, written) = shown.map_err(|e| {
        Message::new(
            format!("the screen: {e}"),
            "nothing more is shown, and all probes are out",
            "write values as lines: convoy live PID --metric ... --format json",
        )
    })?;
    for line in written {
        say(&format!("{line}\n"));
    }
    super::end_and_keep(on_screen.engine, live, Ok(()))
}

impl Measurement for OnScreen<'_> {
    fn session(&self) -> &Session {
        self.engine.session()
    }

    fn step(&mut self, most: Duration) -> Result<Progress, String> {
        match self.engine.step(most) {
            Ok(Step::Sampled(changes)) => Ok(Progress::Sampled(changes)),
            Ok(Step::Waited) => Ok(Progress::Waited),
            Ok(Step::Ended) => Ok(Progress::Ended),
            Err(refusal) => Err(refusal.to_string()),
        }
    }

    fn add(&mut self, request: Request) -> Result<CurveId, String> {
        self.engine.add(request).map_err(|message| message.line())
    }

    fn remove(&mut self, id: CurveId) -> Result<(), String> {
        self.engine
            .remove(id)
            .map_err(|refusal| refusal.to_string())
    }

    fn take_notices(&mut self) -> Vec<Notice> {
        self.engine.take_notices()
    }

    fn code(&mut self) -> Code {
        let functions = self.engine.functions();
        functions
            .map(|functions| functions.all())
            .unwrap_or_default()
    }

    fn files(&mut self) -> Vec<String> {
        let open = self.engine.open_files().into_iter();
        let names: BTreeSet<String> = open.map(|(_, name)| name).collect();
        names.into_iter().collect()
    }

    fn command_line(&self) -> String {
        let mut line = format!("convoy live {}", self.engine.pid());
        for (_, curve) in self.engine.session().curves() {
            let request = curve.request.to_string().replace('\'', r"'\''");
            line += &format!(" --metric '{request}'");
        }
        let mut option = |name: &str, value: String, usual: &str| {
            if value != usual {
                line += &format!(" --{name} {value}");
            }
        };
        option(
            "every",
            format!("{}ms", self.live.every.as_millis()),
            "1000ms",
        );
        option("budget", format!("{}%", self.live.budget * 100.0), "3%");
        line
    }
}
