//! `convoy serve`: metrics and profiles of running programs for scrapers and collectors.

mod always_on;
mod args;
mod http;
mod otlp;
mod pprof;
mod routes;

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use convoy_capture::{Interrupt, ProcessReading, Targets, Watch};
use convoy_live::{Request, Subject, Thread};
use convoy_serve::{Process, ProcessFigures, Resource, Selection, Totals};

use crate::child_recording::Recordings;
use crate::exit::Status;
use crate::live::engine::{Engine, Step};
use crate::live::readers::Locks;
use crate::live::{end, enter, failed, parse, tell, with_command};
use crate::message::{say, Message};

pub use args::Serve;

use http::Server;
use otlp::Exporter;
use pprof::{Profiles, Tables};
use routes::Routes;

/// Ctrl-C is answered within this.
const PATIENCE: Duration = Duration::from_millis(50);

/// Reading locks may take this share of a CPU: one part in so many.
const LOCKS_SHARE: u32 = 20;

/// Serves.
pub fn serve(serve: &Serve) -> Status {
    let done = match serve.process.pid() {
        _ if serve.always_on => always_on::always_on(serve),
        Some(pid) => of_process(serve, pid),
        None => return of_command(serve),
    };
    match done {
        Ok(()) => Status::Success,
        Err(message) => {
            message.print();
            Status::Failure
        }
    }
}

/// Everything that can be wrong before the process is touched.
struct Prepared {
    requests: Vec<Request>,
    outlets: Outlets,
}

/// Who is told.
struct Outlets {
    server: Option<Server>,
    /// The URL of a collector.
    collector: Option<String>,
}

fn prepare(serve: &Serve) -> Result<Prepared, Message> {
    let requests = parse(serve.metric.iter().map(String::as_str))?;
    if let Some(request) = requests.iter().find(|r| !Selection::has_family(r)) {
        return Err(Message::new(
            format!("{request} has no counter that a scraper could read"),
            "nothing is served",
            format!("ask convoy live for {}", request.metric),
        ));
    }
    let collector = serve.otlp.as_deref().map(otlp::endpoint).transpose()?;
    let server = serve.address().map(|address| bind(address, serve.quiet));
    let outlets = Outlets {
        server: server.transpose()?,
        collector,
    };
    Ok(Prepared { requests, outlets })
}

fn bind(address: &str, quiet: bool) -> Result<Server, Message> {
    let refused = |e: &std::io::Error| {
        let fix = match e.kind() {
            ErrorKind::AddrInUse => {
                "end what listens there, or choose another port: --listen HOST:0"
            }
            ErrorKind::PermissionDenied => "choose a port above 1023, or run convoy as root",
            _ => "give an address of this machine and a port: --listen 127.0.0.1:6060",
        };
        Message::new(
            format!("cannot listen at {address}: {e}"),
            "nothing is served, and the process is not touched",
            fix,
        )
    };
    let server = Server::bind(address).map_err(|e| refused(&e))?;
    let bound = server.address().map_err(|e| refused(&e))?;
    if !bound.ip().is_loopback() && !quiet {
        Message::new(
            format!("{bound} can be reached from other machines"),
            "everybody there can read names of functions, threads and locks, and start recordings",
            "listen at 127.0.0.1, or let a firewall admit the scraper only",
        )
        .print();
    }
    Ok(server)
}

fn of_process(serve: &Serve, pid: u32) -> Result<(), Message> {
    let prepared = prepare(serve)?;
    Targets::check(pid).map_err(|trouble| Message::from(&trouble))?;
    let interrupt = Interrupt::watch();
    // Dropped last: the agent goes out when the probes are.
    let (_agent, watch) = enter(serve.agent, pid)?;
    run(serve, pid, watch, prepared, || interrupt.asked())
}

/// Starts a program, and serves it from the start.
fn of_command(serve: &Serve) -> Status {
    let prepared = match prepare(serve) {
        Ok(prepared) => prepared,
        Err(message) => {
            message.print();
            return Status::OwnFailure;
        }
    };
    with_command(&serve.command, serve.quiet, |pid, watch| {
        run(serve, pid, watch, prepared, || false)
    })
}

/// Serves until the process ends, or `asked` says so.
fn run(
    serve: &Serve,
    pid: u32,
    watch: Option<Watch>,
    prepared: Prepared,
    asked: impl Fn() -> bool,
) -> Result<(), Message> {
    let selection = match prepared.requests.is_empty() {
        true => Selection::cheap(watch.is_some()),
        false => Selection::new(prepared.requests),
    };
    check_locks(&selection, pid, watch.is_some())?;
    let locks = watch.map(LockReader::new);
    let mut engine = Engine::new(pid, None, serve.budget(), serve.every).map_err(|e| failed(&e))?;
    let served = add(&mut engine, &selection, serve.quiet).and_then(|()| {
        let reader = Reader::new(&engine, selection, locks);
        let subject = format!("{} ({})", engine.process(), engine.pid());
        let open = Open::of(serve, prepared.outlets, &reader.routes, &subject);
        let measured = measure(&mut engine, serve, reader, asked);
        open.close();
        measured
    });
    end(engine, served)
}

/// Refuses requests for locks where nobody counts them.
fn check_locks(selection: &Selection, pid: u32, has_agent: bool) -> Result<(), Message> {
    let mut of_locks = selection
        .requests()
        .filter(|r| r.subject() == Subject::Lock);
    match of_locks.next() {
        Some(request) if !has_agent => Err(Message::new(
            format!("process {pid} does not carry the agent, which counts locks"),
            format!("{request} is not served"),
            "put it in with --agent=auto, or start the program: convoy serve -- COMMAND",
        )),
        _ => Ok(()),
    }
}

/// Puts in the probes that requests need.
fn add(engine: &mut Engine, selection: &Selection, quiet: bool) -> Result<(), Message> {
    let of_functions = selection.requests();
    for request in of_functions.filter(|r| r.subject().is_probed()) {
        engine.add(request.clone())?;
    }
    tell(engine.take_notices(), quiet);
    Ok(())
}

/// The server and the sender, while they are at work.
struct Open {
    routes: Arc<Routes>,
    exporter: Option<Exporter>,
}

impl Open {
    /// Begins to answer and to send. `subject`: what is served.
    fn of(serve: &Serve, outlets: Outlets, routes: &Arc<Routes>, subject: &str) -> Self {
        if let Some(server) = outlets.server {
            if let (Ok(address), false) = (server.address(), serve.quiet) {
                say(&format!(
                    "convoy: {subject} at http://{address}/metrics and \
                     http://{address}/debug/pprof/\n"
                ));
            }
            server.run(Arc::clone(routes));
        }
        let exporter = outlets.collector.map(|url| {
            let routes = Arc::clone(routes);
            Exporter::start(&url, serve.otlp_every, routes, serve.quiet)
        });
        Self {
            routes: Arc::clone(routes),
            exporter,
        }
    }

    /// Ends all recordings, and sends once more.
    fn close(self) {
        self.routes.profiles.end();
        if let Some(exporter) = self.exporter {
            exporter.end();
        }
    }
}

fn measure(
    engine: &mut Engine,
    serve: &Serve,
    mut reader: Reader,
    asked: impl Fn() -> bool,
) -> Result<(), Message> {
    loop {
        match engine.step(PATIENCE).map_err(|refusal| failed(&refusal))? {
            Step::Sampled(_) => reader.read(engine),
            Step::Waited => {}
            Step::Ended => {
                if !serve.quiet {
                    say(&format!("convoy: process {} has ended\n", engine.pid()));
                }
                return Ok(());
            }
        }
        tell(engine.take_notices(), serve.quiet);
        if asked() {
            return Ok(());
        }
    }
}

/// Reads the agent's tables, not more often than that is cheap.
struct LockReader {
    tables: Tables,
    next: Instant,
}

impl LockReader {
    fn new(watch: Watch) -> Self {
        Self {
            tables: Arc::new(Mutex::new(Locks::new(watch))),
            next: Instant::now(),
        }
    }

    fn read_if_due(&mut self) -> Option<convoy_live::LockReading> {
        let began = Instant::now();
        if began < self.next {
            return None;
        }
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let reading = tables.read();
        drop(tables);
        let now = Instant::now();
        self.next = now + (now - began) * LOCKS_SHARE;
        Some(reading)
    }
}

/// Takes readings into the counters.
struct Reader {
    routes: Arc<Routes>,
    locks: Option<LockReader>,
}

impl Reader {
    fn new(engine: &Engine, selection: Selection, locks: Option<LockReader>) -> Self {
        let resource = Resource {
            process: Some(Process {
                name: engine.process().to_owned(),
                pid: engine.pid(),
            }),
            host: host(),
        };
        let (pid, now) = (engine.pid(), unix_ns());
        let tables = locks.as_ref().map(|locks| Arc::clone(&locks.tables));
        let profiles = Profiles::of(Recordings::of(pid), engine.process(), tables, now);
        let totals = Totals::new(selection, now);
        let mut reader = Self {
            routes: Arc::new(Routes::new(totals, resource, profiles)),
            locks,
        };
        reader.read(engine);
        reader
    }

    fn read(&mut self, engine: &Engine) {
        let session = engine.session();
        let locks = self.locks.as_mut().and_then(LockReader::read_if_due);
        let threads: Vec<Thread> = session.threads().alive().cloned().collect();
        let figures = figures(engine.pid());
        let now_ns = session.sampled_ms().saturating_mul(1_000_000);
        // The scrapers wait for what follows, and it computes only.
        let mut totals = self.routes.totals();
        totals.read_threads(now_ns, unix_ns(), &figures, &threads);
        totals.read_functions(session);
        if let Some(reading) = locks {
            totals.read_locks(session.threads(), &reading);
        }
        read_own_cpu(&mut totals);
    }
}

fn figures(pid: u32) -> ProcessFigures {
    let reading = ProcessReading::of(pid);
    ProcessFigures {
        cpu_ns: reading.map(|r| r.cpu_ns),
        resident_bytes: reading.map(|r| r.resident_bytes),
        virtual_bytes: reading.map(|r| r.virtual_bytes),
        descriptors: reading.and_then(|r| r.descriptors),
        start_unix_ns: reading.and_then(|r| r.start_unix_ns),
    }
}

/// CPU time of convoy and of the recordings that it made.
fn read_own_cpu(totals: &mut Totals) {
    if let Some(own) = ProcessReading::of(std::process::id()) {
        totals.read_own_cpu(own.cpu_ns.saturating_add(own.children_cpu_ns));
    }
}

fn unix_ns() -> u64 {
    let since = UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_end().to_owned()
}
