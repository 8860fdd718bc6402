//! Sends metrics to a collector by OTLP over HTTP, in a thread of its own.
//!
//! Counters are cumulative: what could not be sent is in the next request, so that nothing is
//! queued. A collector that does not answer costs this thread's time only.

use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use convoy_serve::{export_request, rejected};
use ureq::http::Uri;
use ureq::Agent;

use super::routes::Routes;
use super::unix_ns;
use crate::message::{say, Message};

/// Where collectors take metrics (OTLP 1.x, "Default URL paths").
const PATH: &str = "/v1/metrics";

/// A request takes no longer than this...
const ANSWER: Duration = Duration::from_secs(10);

/// ... and convoy's end waits no longer for the last one.
const LAST: Duration = Duration::from_secs(2);

/// From a first failure to the next try; it doubles with each further one...
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// ... up to this. A collector's `Retry-After` counts up to this, too.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// Most bytes that are read of an answer.
const MOST_ANSWER: u64 = 64 << 10;

/// The thread that sends.
#[derive(Debug)]
pub struct Exporter {
    stop: Sender<()>,
    done: Receiver<()>,
}

impl Exporter {
    /// Begins to send to `url`.
    pub fn start(url: &str, every: Duration, routes: Arc<Routes>, quiet: bool) -> Self {
        let (stop, stopped) = channel();
        let (finished, done) = channel();
        let mut sending = Sending {
            url: url.to_owned(),
            agent: agent(ANSWER),
            routes,
            quiet,
            failures: 0,
        };
        thread::spawn(move || {
            sending.run(every, &stopped);
            // Nobody waits if convoy's end was in a hurry.
            let _ = finished.send(());
        });
        Self { stop, done }
    }

    /// Sends once more, and ends.
    pub fn end(self) {
        drop(self.stop);
        let _ = self.done.recv_timeout(LAST + Duration::from_millis(500));
    }
}

/// The URL that metrics are sent to.
///
/// # Errors
/// It is none that can be used.
pub fn endpoint(url: &str) -> Result<String, Message> {
    let refused = |found: String, fix: &str| Message::new(found, "nothing is sent", fix);
    let example = "give http://HOST:PORT, for example --otlp http://127.0.0.1:4318";
    let uri: Uri = url
        .parse()
        .map_err(|e| refused(format!("--otlp {url} is no URL: {e}"), example))?;
    match uri.scheme_str() {
        Some("http") if uri.host().is_some_and(|host| !host.is_empty()) => {}
        Some("https") => {
            return Err(refused(
                format!("--otlp {url} asks for TLS, which convoy does not speak"),
                "run a collector on this machine, and send to it: --otlp http://127.0.0.1:4318",
            ))
        }
        _ => return Err(refused(format!("--otlp {url} is no http:// URL"), example)),
    }
    Ok(match uri.path() {
        "" | "/" => format!("{}{PATH}", url.trim_end_matches('/')),
        _ => url.to_owned(),
    })
}

fn agent(timeout: Duration) -> Agent {
    let config = Agent::config_builder()
        .timeout_global(Some(timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        // HTTP_PROXY is for the web: names of functions and locks go to the collector, and to
        // nobody else.
        .proxy(None)
        .build();
    config.into()
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Taken,
    /// Try again, not before this.
    Later(Option<Duration>, String),
    /// The same request would be refused again.
    Refused(String),
}

/// Statuses after which a request may be repeated (OTLP 1.x, "Retryable Response Codes").
fn outcome(status: u16, retry_after: Option<&str>, body: &[u8]) -> Outcome {
    match status {
        200..=299 => match rejected(body) {
            None => Outcome::Taken,
            Some((n, why)) => Outcome::Refused(format!("{n} points were rejected: {why}")),
        },
        429 | 502 | 503 | 504 => {
            let seconds = retry_after.and_then(|text| text.trim().parse().ok());
            let after = seconds.map(|s| Duration::from_secs(s).min(LONGEST_DELAY));
            Outcome::Later(after, format!("status {status}"))
        }
        _ => Outcome::Refused(format!("status {status}")),
    }
}

/// From the last of some failures to the next try. `random`: spreads the tries of many convoys.
fn delay(failures: u32, random: u64) -> Duration {
    let doubled = FIRST_DELAY.saturating_mul(1 << failures.saturating_sub(1).min(16));
    let most = doubled.min(LONGEST_DELAY);
    let half = most / 2;
    half + half.mul_f64((random % 1_000) as f64 / 1_000.0)
}

struct Sending {
    url: String,
    agent: Agent,
    routes: Arc<Routes>,
    quiet: bool,
    failures: u32,
}

impl Sending {
    fn run(&mut self, every: Duration, stopped: &Receiver<()>) {
        let mut pause = every;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            pause = self.next(every);
        }
        self.agent = agent(LAST);
        // Whoever is told of a failure now could do nothing about it.
        let _ = self.send();
    }

    /// Sends; returns when to send again.
    fn next(&mut self, every: Duration) -> Duration {
        let (why, pause) = match self.send() {
            Outcome::Taken => {
                if self.failures > 0 && !self.quiet {
                    say(&format!("convoy: {} takes metrics again\n", self.url));
                }
                self.failures = 0;
                return every;
            }
            Outcome::Later(after, why) => {
                let usual = delay(self.failures + 1, unix_ns());
                (why, after.map_or(usual, |after| after.max(usual)))
            }
            Outcome::Refused(why) => (why, every.max(LONGEST_DELAY)),
        };
        if self.failures == 0 {
            Message::new(
                format!("{} does not take metrics: {why}", self.url),
                "they are kept, and sent again later",
                "start the collector, or correct --otlp",
            )
            .print();
        }
        self.failures = self.failures.saturating_add(1);
        pause
    }

    fn send(&self) -> Outcome {
        let snapshot = self.routes.snapshot();
        let version = env!("CARGO_PKG_VERSION");
        let body = export_request(&snapshot, &self.routes.resource, version);
        let request = self.agent.post(&self.url);
        let sent = request
            .header("Content-Type", "application/x-protobuf")
            .send(&body[..]);
        let mut response = match sent {
            Ok(response) => response,
            Err(e) => return Outcome::Later(None, e.to_string()),
        };
        let after = response.headers().get("retry-after");
        let after = after
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned);
        let body = response.body_mut().with_config().limit(MOST_ANSWER);
        // An answer that cannot be read says nothing against the request.
        let body = body.read_to_vec().unwrap_or_default();
        outcome(response.status().as_u16(), after.as_deref(), &body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_are_found_at_their_usual_path() {
        let at = |url| endpoint(url).map_err(|message| message.line());
        let usual = "http://127.0.0.1:4318/v1/metrics".to_owned();
        assert_eq!(at("http://127.0.0.1:4318"), Ok(usual.clone()));
        assert_eq!(at("http://127.0.0.1:4318/"), Ok(usual));
        assert_eq!(at("http://h/other"), Ok("http://h/other".into()));
        for (url, part) in [
            ("https://h:4318", "TLS"),
            ("h:4318", "http://"),
            ("http://", "no URL"),
            ("ftp://h", "http://"),
        ] {
            assert!(at(url).unwrap_err().contains(part), "{url}: {:?}", at(url));
        }
    }

    #[test]
    fn busy_collectors_are_asked_again_and_refusals_are_final() {
        assert_eq!(outcome(200, None, &[]), Outcome::Taken);
        let later = |status, after| match outcome(status, after, &[]) {
            Outcome::Later(after, _) => after,
            other => panic!("{other:?}"),
        };
        assert_eq!(later(503, None), None);
        assert_eq!(later(429, Some("7")), Some(Duration::from_secs(7)));
        assert_eq!(later(429, Some("999999")), Some(LONGEST_DELAY));
        assert_eq!(later(429, Some("Sat, 28 Nov 2026 07:00:00 GMT")), None);
        assert!(matches!(outcome(400, None, &[]), Outcome::Refused(_)));
    }

    #[test]
    fn delays_double_up_to_a_limit() {
        for (failures, least, most) in [(1, 500, 1_000), (2, 1_000, 2_000), (60, 30_000, 60_000)] {
            for random in [0, 500, 999, u64::MAX] {
                let ms = delay(failures, random).as_millis();
                assert!((least..=most).contains(&ms), "{failures}: {ms} ms");
            }
        }
    }
}
