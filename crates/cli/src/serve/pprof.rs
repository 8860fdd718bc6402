//! `/debug/pprof/` as Go programs serve it: `profile`, `mutex` and `block`.
//!
//! CPU time comes from a recording of the scheduler's events. So do waits, except where the agent
//! counts them: that has the locks by name, and from its beginning on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use convoy_analysis::Params;
use convoy_export::{Facts, Files, Pprof, Rows};
use convoy_model::Model;
use convoy_profile::Profile;
use convoy_report::Report;

use super::http::{Client, Request, Response};
use crate::child_recording::{Failure, Recordings, GONE};
use crate::live::readers::Locks;

/// Length of a CPU profile without `seconds`, as in Go.
const CPU_TIME: Duration = Duration::from_secs(30);

/// Length of a recording of waits without `seconds`: scrapers expect an answer at once.
const WAITS_TIME: Duration = Duration::from_secs(1);

/// Longest profile.
const MOST_TIME: Duration = Duration::from_secs(300);

/// From one look at the client to the next.
const LOOK: Duration = Duration::from_millis(100);

/// Profiles that Go programs serve, and other programs do not have.
const OF_GO_ONLY: [&str; 6] = [
    "allocs",
    "cmdline",
    "goroutine",
    "heap",
    "threadcreate",
    "trace",
];

/// What is at each path.
pub const INDEX: &str = "\
<!DOCTYPE html>
<html lang=\"en\"><head><meta charset=\"utf-8\"><title>convoy: profiles</title></head><body>
<h1>/debug/pprof/</h1>
<ul>
<li><a href=\"/debug/pprof/profile?seconds=10\">profile</a>: CPU time by call stack (30 s)</li>
<li><a href=\"/debug/pprof/mutex\">mutex</a>: waits for locks at the call stack of who held them</li>
<li><a href=\"/debug/pprof/block\">block</a>: waits at the call stack of who waited</li>
</ul>
<p>mutex and block are sums since the start of convoy; with <code>seconds</code>, of that time.</p>
</body></html>
";

/// The agent's tables, which the metrics read, too.
pub type Tables = Arc<Mutex<Locks>>;

/// Makes profiles of what is served.
#[derive(Debug)]
pub struct Profiles {
    recordings: Recordings,
    tables: Option<Tables>,
    program: String,
    started_unix_ns: u64,
    mutex: Mutex<Sums>,
    block: Mutex<Sums>,
}

/// Waits that were recorded so far.
#[derive(Debug, Default)]
struct Sums {
    rows: Rows,
    files: Files,
    wall_ns: u64,
}

impl Profiles {
    /// From recordings, and perhaps from the agent's tables.
    pub fn of(
        recordings: Recordings,
        program: &str,
        tables: Option<Tables>,
        started_unix_ns: u64,
    ) -> Self {
        Self {
            recordings,
            tables,
            program: program.to_owned(),
            started_unix_ns,
            mutex: Mutex::default(),
            block: Mutex::default(),
        }
    }

    /// Ends all recordings.
    pub fn end(&self) {
        self.recordings.end();
    }

    /// Answers a request for what is below `/debug/pprof/`.
    pub fn answer(&self, name: &str, request: &Request, client: &Client<'_>) -> Response {
        let kind = match name {
            "" => return Response::ok("text/html; charset=utf-8", INDEX),
            "profile" => Pprof::Cpu,
            "mutex" => Pprof::Mutex,
            "block" => Pprof::Block,
            name if OF_GO_ONLY.contains(&name) => {
                let text =
                    format!("{name} is known of Go programs only: scrape the program itself");
                return Response::failure(501, &text);
            }
            _ => return Response::failure(404, "there are profile, mutex and block"),
        };
        if request.value("debug").is_some_and(|value| value != "0") {
            return Response::failure(501, "profiles are binary: leave out debug, or give debug=0");
        }
        let time = match request.value("seconds").map(seconds).transpose() {
            Ok(time) => time,
            Err(text) => return Response::failure(400, &text),
        };
        match self.profile(kind, time, &|| client.is_gone()) {
            Ok(bytes) => {
                let name = format!("attachment; filename=\"{name}\"");
                Response::ok("application/octet-stream", bytes).with("Content-Disposition", name)
            }
            Err(failure @ Failure::Busy(_)) => {
                Response::failure(503, &failure.to_string()).with("Retry-After", "10")
            }
            Err(Failure::Refused(why)) => Response::failure(503, &why),
        }
    }

    fn profile(
        &self,
        kind: Pprof,
        time: Option<Duration>,
        is_gone: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>, Failure> {
        match (kind, &self.tables, time) {
            (Pprof::Cpu, _, time) => {
                let profile = self.recordings.record(time.unwrap_or(CPU_TIME), is_gone)?;
                let files = Files::of(&profile);
                let (rows, facts) = rows(kind, profile)?;
                bytes(kind, &rows, &facts, &files)
            }
            (_, Some(tables), time) => self.of_tables(kind, tables, time, is_gone),
            (_, None, Some(time)) => {
                let profile = self.recordings.record(time, is_gone)?;
                let files = Files::of(&profile);
                let (rows, facts) = rows(kind, profile)?;
                bytes(kind, &rows, &facts, &files)
            }
            (_, None, None) => self.cumulative(kind, is_gone),
        }
    }

    /// Adds a short recording to the earlier ones: scrapers take the profile for a sum since the
    /// start, and subtract.
    fn cumulative(&self, kind: Pprof, is_gone: &dyn Fn() -> bool) -> Result<Vec<u8>, Failure> {
        let sums = match kind {
            Pprof::Mutex => &self.mutex,
            _ => &self.block,
        };
        // Held meanwhile: two recordings at the same time would count the same waits.
        let mut sums: MutexGuard<'_, Sums> = sums.lock().unwrap_or_else(PoisonError::into_inner);
        let profile = self.recordings.record(WAITS_TIME, is_gone)?;
        sums.files.merge(Files::of(&profile));
        let (rows, facts) = rows(kind, profile)?;
        sums.rows.merge(rows);
        sums.wall_ns = sums.wall_ns.saturating_add(facts.wall_ns);
        let mut facts = self.facts(sums.wall_ns);
        let text = "sums of recordings of one second, one for each request";
        facts.comments.push(text.into());
        bytes(kind, &sums.rows, &facts, &sums.files)
    }

    /// What the agent has counted, or counts in a while.
    fn of_tables(
        &self,
        kind: Pprof,
        tables: &Tables,
        time: Option<Duration>,
        is_gone: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>, Failure> {
        let read = || {
            let mut locks = tables.lock().unwrap_or_else(PoisonError::into_inner);
            let model = locks.read_model();
            drop(locks);
            rows_of(kind, &model)
        };
        let began = Instant::now();
        let rows = match time {
            None => read()?,
            Some(time) => {
                let before = read()?;
                while began.elapsed() < time {
                    if is_gone() {
                        return Err(Failure::Busy(GONE));
                    }
                    thread::sleep(LOOK.min(time.saturating_sub(began.elapsed())));
                }
                read()?.since(&before)
            }
        };
        let since_start = super::unix_ns().saturating_sub(self.started_unix_ns);
        let wall = time.map_or(since_start, |_| began.elapsed().as_nanos() as u64);
        bytes(kind, &rows, &self.facts(wall), &Files::default())
    }

    fn facts(&self, wall_ns: u64) -> Facts {
        Facts {
            started_unix_ns: self.started_unix_ns,
            wall_ns,
            sample_period_ns: 0,
            program: self.program.clone(),
            comments: vec![format!("convoy {}", env!("CARGO_PKG_VERSION"))],
        }
    }
}

/// The time of a profile.
fn seconds(text: &str) -> Result<Duration, String> {
    let number: Option<f64> = text.parse().ok();
    let most = MOST_TIME.as_secs_f64();
    let number = number.filter(|n| *n > 0.0 && *n <= most);
    number
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("seconds={text} is not a time: give a number above 0, up to {most}"))
}

fn rows(kind: Pprof, profile: Profile) -> Result<(Rows, Facts), Failure> {
    let model = Model::build(profile);
    let facts = Facts::of(&model);
    Ok((rows_of(kind, &model)?, facts))
}

fn rows_of(kind: Pprof, model: &Model) -> Result<Rows, Failure> {
    let thresholds = Params::default();
    let analysis = convoy_analysis::counters::analyze(model, &thresholds);
    let report = Report {
        model,
        analysis: &analysis,
        critical: None,
        sections: None,
        thresholds: &thresholds,
    };
    let made = kind.rows(&report);
    let made = made.map_err(|e| Failure::Refused(e.to_string()))?;
    Ok(made.0)
}

fn bytes(kind: Pprof, rows: &Rows, facts: &Facts, files: &Files) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let written = kind.write(rows, facts, files, &mut bytes);
    written.map_err(|e| Failure::Refused(e.to_string()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(name: &str, query: &str) -> Response {
        let request = Request {
            query: query.into(),
            ..Request::default()
        };
        let recordings = Recordings::of(u32::MAX);
        Profiles::of(recordings, "server", None, 0).answer(name, &request, &Client::patient())
    }

    #[test]
    fn what_cannot_be_had_is_refused_with_a_sentence() {
        for (name, query, status, part) in [
            ("heap", "", 501, "Go programs only"),
            ("profile", "debug=1", 501, "binary"),
            ("profile", "seconds=0", 400, "seconds=0"),
            ("mutex", "seconds=nan", 400, "not a time"),
            ("mutex", "seconds=301", 400, "up to 300"),
            ("nothing", "", 404, "profile, mutex and block"),
        ] {
            let response = answer(name, query);
            let text = String::from_utf8(response.body).unwrap();
            assert_eq!(response.status, status, "{name}?{query}: {text}");
            assert!(text.contains(part), "{name}?{query}: {text}");
        }
        assert_eq!(answer("", "").status, 200);
    }
}
