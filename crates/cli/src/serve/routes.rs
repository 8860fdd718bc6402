//! Paths of `convoy serve`, and what is answered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use convoy_serve::{render, Format, Resource, Snapshot, Totals};

use super::http::{Answer, Client, Request, Response};
use super::pprof::Profiles;

/// The first page.
const INDEX: &str = "\
<!DOCTYPE html>
<html lang=\"en\"><head><meta charset=\"utf-8\"><title>convoy serve</title></head><body>
<h1>convoy serve</h1>
<ul>
<li><a href=\"/metrics\">/metrics</a>: for Prometheus</li>
<li><a href=\"/debug/pprof/\">/debug/pprof/</a>: for pprof, Parca and Pyroscope</li>
</ul>
</body></html>
";

/// What all requests share.
#[derive(Debug)]
pub struct Routes {
    totals: Mutex<Totals>,
    /// Whose metrics they are.
    pub resource: Resource,
    /// Profiles of the process.
    pub profiles: Profiles,
}

impl Routes {
    /// Of a process.
    pub fn new(totals: Totals, resource: Resource, profiles: Profiles) -> Self {
        Self {
            totals: Mutex::new(totals),
            resource,
            profiles,
        }
    }

    /// The counters, to take a reading.
    pub fn totals(&self) -> MutexGuard<'_, Totals> {
        // A thread that has panicked has not left half a reading: counters are still sums.
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All series now.
    pub fn snapshot(&self) -> Snapshot {
        self.totals().snapshot()
    }

    fn metrics(&self, request: &Request) -> Response {
        let format = Format::accepted(&request.accept);
        let text = render(&self.snapshot(), &self.resource, format);
        Response::ok(format.content_type(), text)
    }
}

/// Profiles: all else is there already.
const PROFILES: &str = "/debug/pprof/";

impl Answer for Arc<Routes> {
    fn is_slow(&self, request: &Request) -> bool {
        request.path.len() > PROFILES.len() && request.path.starts_with(PROFILES)
    }

    fn answer(&self, request: &Request, client: &Client<'_>) -> Response {
        let path = request.path.as_str();
        if let Some(name) = path.strip_prefix(PROFILES) {
            return self.profiles.answer(name, request, client);
        }
        match path {
            "/" => Response::ok("text/html; charset=utf-8", INDEX),
            "/metrics" => self.metrics(request),
            "/debug/pprof" => self.profiles.answer("", request, client),
            _ => Response::failure(404, "no such page: see / for those that there are"),
        }
    }
}
