//! A small HTTP/1.1 server for scrapers: GET and HEAD, one request for each connection. Bounded:
//! the size of a request, the time that it may take, and the number of connections.
//!
//! Requests are parsed by `httparse`. (`tiny_http` has no limit of time or of connections: one
//! client that sends nothing would keep a thread for ever.)

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Most bytes of a request.
const MOST_BYTES: usize = 16 << 10;

/// Most headers of a request.
const MOST_HEADERS: usize = 64;

/// Most connections at a time; more are answered with 503.
const MOST_CONNECTIONS: usize = 16;

/// Of them, most that are answered slowly: the others are kept for `/metrics`.
const MOST_SLOW: usize = 8;

/// Until a request must be there.
const READING: Duration = Duration::from_secs(5);

/// Until an answer must be taken, all of it: it is some megabytes at most.
const WRITING: Duration = Duration::from_secs(30);

/// The stack of a thread that serves a connection: analyses of recordings run there.
const STACK: usize = 8 << 20;

/// A request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Path without the query.
    pub path: String,
    /// After the question mark, as it was sent.
    pub query: String,
    /// The `Accept` header; empty without one.
    pub accept: String,
    /// The `Host` header; empty without one.
    pub host: String,
}

/// Who has asked.
#[derive(Debug)]
pub struct Client<'a>(Option<&'a TcpStream>);

impl Client<'_> {
    /// Whether it has closed the connection: nobody waits for the answer any more.
    pub fn is_gone(&self) -> bool {
        let Some(stream) = self.0 else { return false };
        let mut byte = [0];
        let is_set = stream.set_nonblocking(true).is_ok();
        let peeked = stream.peek(&mut byte);
        let is_reset = is_set && stream.set_nonblocking(false).is_err();
        match peeked {
            Ok(n) => n == 0 || is_reset,
            Err(e) => !matches!(
                e.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ),
        }
    }

    /// One that stays.
    #[cfg(test)]
    pub fn patient() -> Self {
        Client(None)
    }
}

/// Answers requests.
pub trait Answer: Send + Sync + 'static {
    /// Whether that takes long, as a recording does.
    fn is_slow(&self, request: &Request) -> bool;

    /// The answer.
    fn answer(&self, request: &Request, client: &Client<'_>) -> Response;
}

impl Request {
    /// The value of a key of the query.
    pub fn value(&self, key: &str) -> Option<&str> {
        let pairs = self.query.split('&');
        let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.find(|(k, _)| *k == key).map(|(_, value)| value)
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// What the body is.
    pub content_type: &'static str,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// A success.
    pub fn ok(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            content_type,
            headers: Vec::new(),
            body: body.into(),
        }
    }

    /// A failure, with a sentence.
    pub fn failure(status: u16, text: &str) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            headers: Vec::new(),
            body: format!("{text}\n").into(),
        }
    }

    /// With one more header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        _ => "Service Unavailable",
    }
}

/// A socket that is bound.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
}

impl Server {
    /// Binds `HOST:PORT`.
    ///
    /// # Errors
    /// The address does not exist here, or is in use.
    pub fn bind(address: &str) -> io::Result<Self> {
        let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
        let listener = TcpListener::bind(addresses.as_slice())?;
        Ok(Self { listener })
    }

    /// The address that it is bound to.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until convoy ends.
    pub fn run(self, answer: impl Answer) {
        let is_local = self.address().is_ok_and(|at| at.ip().is_loopback());
        let shared = Arc::new(Shared {
            answer,
            is_local,
            open: Arc::default(),
            slow: Arc::default(),
        });
        thread::spawn(move || {
            for stream in self.listener.incoming() {
                match stream {
                    Ok(stream) => accept(stream, &shared),
                    // Out of descriptors, say: others may become free.
                    Err(_) => thread::sleep(Duration::from_millis(100)),
                }
            }
        });
    }
}

/// What all connections share.
struct Shared<A> {
    answer: A,
    /// Only programs on this machine can connect.
    is_local: bool,
    open: Arc<AtomicUsize>,
    slow: Arc<AtomicUsize>,
}

/// A place among a limited number; it is free again when this is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(places: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let place = Self(Arc::clone(places));
        (places.fetch_add(1, Ordering::AcqRel) < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn accept<A: Answer>(stream: TcpStream, shared: &Arc<Shared<A>>) {
    let Some(place) = Place::take(&shared.open, MOST_CONNECTIONS) else {
        let text = "too many connections: try again";
        // This thread accepts all the others: it does not wait for this client.
        let _ = stream.set_nonblocking(true);
        let _ = send(&stream, &Response::failure(503, text), true);
        return;
    };
    let shared = Arc::clone(shared);
    let serve = move || {
        let _place = place;
        // A client that has gone needs no answer.
        let _ = converse(&stream, &shared);
    };
    // Without a thread the connection is closed.
    let _ = thread::Builder::new().stack_size(STACK).spawn(serve);
}

fn converse<A: Answer>(stream: &TcpStream, shared: &Shared<A>) -> io::Result<()> {
    let (request, has_body) = match read(stream)? {
        Ok(request) => request,
        Err(refused) => {
            send(stream, &refused, true)?;
            return drain(stream);
        }
    };
    if shared.is_local && !is_local_name(&request.host) {
        let text = format!(
            "{} is not this machine: ask for localhost or 127.0.0.1",
            request.host
        );
        return send(stream, &Response::failure(403, &text), has_body);
    }
    let is_slow = shared.answer.is_slow(&request);
    let place = is_slow.then(|| Place::take(&shared.slow, MOST_SLOW));
    if matches!(place, Some(None)) {
        let busy = Response::failure(503, "too many profiles at a time: try again");
        return send(stream, &busy.with("Retry-After", "10"), has_body);
    }
    let answer = shared.answer.answer(&request, &Client(Some(stream)));
    drop(place);
    send(stream, &answer, has_body)
}

/// Whether a `Host` header can be meant for a server on the loopback interface. A page from
/// elsewhere can make its own name stand for 127.0.0.1 (DNS rebinding), but no address, and not
/// `localhost`. Clients older than HTTP/1.1 send none.
fn is_local_name(host: &str) -> bool {
    let is_address = |text: &str| text.parse::<std::net::IpAddr>().is_ok();
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').is_some_and(|(ip, _)| is_address(ip));
    }
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name.is_empty() || name == "localhost" || name.ends_with(".localhost") || is_address(&name)
}

/// Reads a request; whether its answer has a body (not that of HEAD).
fn read(mut stream: &TcpStream) -> io::Result<Result<(Request, bool), Response>> {
    let began = Instant::now();
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        match parse(&bytes) {
            Ok(Some(request)) => return Ok(Ok(request)),
            Ok(None) if bytes.len() >= MOST_BYTES => {
                let text = format!("a request has at most {MOST_BYTES} bytes");
                return Ok(Err(Response::failure(431, &text)));
            }
            Ok(None) => {}
            Err(refused) => return Ok(Err(refused)),
        }
        let left = READING.saturating_sub(began.elapsed());
        let late = || {
            Ok(Err(Response::failure(
                408,
                "the request did not come in time",
            )))
        };
        if left.is_zero() {
            return late();
        }
        stream.set_read_timeout(Some(left))?;
        let room = part.len().min(MOST_BYTES - bytes.len());
        match stream.read(&mut part[..room]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => bytes.extend_from_slice(&part[..n]),
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                return late();
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// A whole request, or `None` if more must come.
fn parse(bytes: &[u8]) -> Result<Option<(Request, bool)>, Response> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            let text = format!("a request has at most {MOST_HEADERS} headers");
            return Err(Response::failure(431, &text));
        }
        Err(e) => return Err(Response::failure(400, &format!("no HTTP request: {e}"))),
    }
    let has_body = match parsed.method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => {
            let refused = Response::failure(405, "only GET and HEAD are answered");
            return Err(refused.with("Allow", "GET, HEAD"));
        }
    };
    let target = parsed.path.unwrap_or("/");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let header = |name: &str| -> Vec<String> {
        let headers = parsed.headers.iter();
        let headers = headers.filter(|h| h.name.eq_ignore_ascii_case(name));
        let values = headers.map(|h| String::from_utf8_lossy(h.value).trim().to_owned());
        values.collect()
    };
    let hosts = header("host");
    if hosts.len() > 1 {
        return Err(Response::failure(400, "a request has one Host header"));
    }
    let request = Request {
        path: path.into(),
        query: query.into(),
        // A client may send several Accept headers: they are one list.
        accept: header("accept").join(","),
        host: hosts.into_iter().next().unwrap_or_default(),
    };
    Ok(Some((request, has_body)))
}

fn send(mut stream: &TcpStream, response: &Response, has_body: bool) -> io::Result<()> {
    let mut head = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
         X-Content-Type-Options: nosniff\r\n",
        response.status,
        reason(response.status),
        response.content_type,
        response.body.len()
    );
    for (name, value) in &response.headers {
        // Writing to a string does not fail.
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    if has_body {
        bytes.extend_from_slice(&response.body);
    }
    let began = Instant::now();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        // A client that takes a byte now and then must not keep its place.
        let left = WRITING.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => rest = rest.get(n..).unwrap_or_default(),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    stream.shutdown(std::net::Shutdown::Write)
}

/// Reads what a refused client still sends: closing the socket before that would take the answer
/// away from it.
fn drain(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    let mut part = [0; 4096];
    for _ in 0..16 {
        if stream.read(&mut part)? == 0 {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;

    impl Answer for Echo {
        fn is_slow(&self, request: &Request) -> bool {
            request.path == "/slow"
        }

        fn answer(&self, request: &Request, client: &Client<'_>) -> Response {
            while request.path == "/slow" && !client.is_gone() {
                thread::sleep(Duration::from_millis(10));
            }
            let text = format!("{} {:?}", request.path, request.value("seconds"));
            Response::ok("text/plain", text)
        }
    }

    fn server() -> SocketAddr {
        let server = Server::bind("127.0.0.1:0").unwrap();
        let address = server.address().unwrap();
        server.run(Echo);
        address
    }

    fn ask(address: SocketAddr, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        // A server that has refused already may not read all of it.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn get_and_head_are_answered_and_nothing_else() {
        let address = server();
        let answer = ask(
            address,
            b"GET /a?x=1&seconds=5 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        );
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n/a Some(\"5\")"), "{answer}");
        let answer = ask(address, b"HEAD /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(answer.contains("Content-Length: 7") && answer.ends_with("\r\n\r\n"));
        let answer = ask(address, b"POST /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    }

    #[test]
    fn bad_and_large_requests_are_refused() {
        let address = server();
        assert!(ask(address, b"\x00\x01\x02\r\n\r\n").starts_with("HTTP/1.1 400 "));
        let large = format!("GET /{} HTTP/1.1\r\n", "a".repeat(2 * MOST_BYTES));
        assert!(ask(address, large.as_bytes()).starts_with("HTTP/1.1 431 "));
        let many = format!(
            "GET / HTTP/1.1\r\n{}\r\n",
            "a: b\r\n".repeat(MOST_HEADERS + 1)
        );
        assert!(ask(address, many.as_bytes()).starts_with("HTTP/1.1 431 "));
    }

    #[test]
    fn connections_beyond_the_limit_are_refused_and_places_become_free() {
        let address = server();
        let idle: Vec<TcpStream> = (0..MOST_CONNECTIONS)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        let get = b"GET /a HTTP/1.1\r\n\r\n";
        // Connections are accepted in order, so that all places are taken by now.
        assert!(ask(address, get).starts_with("HTTP/1.1 503 "));
        drop(idle);
        let began = Instant::now();
        while !ask(address, get).starts_with("HTTP/1.1 200 ") {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "no place is free"
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn slow_answers_leave_places_for_others_and_end_with_their_client() {
        let address = server();
        let slow = || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /slow HTTP/1.1\r\n\r\n").unwrap();
            stream
        };
        let all: Vec<TcpStream> = (0..MOST_SLOW).map(|_| slow()).collect();
        let began = Instant::now();
        let is_late = || began.elapsed() > Duration::from_secs(60);
        // All of them are being answered when one more is refused.
        let mut one_more = String::new();
        while !one_more.starts_with("HTTP/1.1 503 ") {
            assert!(!is_late(), "no limit: {one_more}");
            let mut stream = slow();
            stream
                .set_read_timeout(Some(Duration::from_millis(50)))
                .unwrap();
            one_more.clear();
            let _ = stream.read_to_string(&mut one_more);
        }
        assert!(ask(address, b"GET /a HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
        drop(all);
        loop {
            assert!(!is_late(), "they outlive their clients");
            let mut stream = slow();
            stream
                .set_read_timeout(Some(Duration::from_millis(50)))
                .unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            if answer.is_empty() {
                break; // it has a place
            }
        }
    }

    #[test]
    fn names_of_other_machines_are_refused_on_loopback() {
        let address = server();
        let get = format!(
            "GET /a HTTP/1.1\r\nHost: evil.example:{}\r\n\r\n",
            address.port()
        );
        assert!(ask(address, get.as_bytes()).starts_with("HTTP/1.1 403 "));
        for (host, is_local) in [
            ("", true),
            ("localhost:6060", true),
            ("127.0.0.1:6060", true),
            ("[::1]:6060", true),
            ("convoy.localhost", true),
            ("localhost.evil.example", false),
            ("[evil]:6060", false),
            ("server", false),
        ] {
            assert_eq!(is_local_name(host), is_local, "{host}");
        }
    }

    #[test]
    fn an_address_in_use_is_an_error() {
        let first = Server::bind("127.0.0.1:0").unwrap();
        let address = first.address().unwrap().to_string();
        let error = Server::bind(&address).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
