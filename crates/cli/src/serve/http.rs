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

/// Until a request must be there.
const READING: Duration = Duration::from_secs(5);

/// Until a part of an answer must be taken.
const WRITING: Duration = Duration::from_secs(10);

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
    pub fn run(self, answer: impl Fn(&Request) -> Response + Send + Sync + 'static) {
        let answer = Arc::new(answer);
        let open = Arc::new(AtomicUsize::new(0));
        thread::spawn(move || {
            for stream in self.listener.incoming() {
                match stream {
                    Ok(stream) => accept(stream, &open, &answer),
                    // Out of descriptors, say: others may become free.
                    Err(_) => thread::sleep(Duration::from_millis(100)),
                }
            }
        });
    }
}

/// Frees its place among the connections.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn accept<A>(stream: TcpStream, open: &Arc<AtomicUsize>, answer: &Arc<A>)
where
    A: Fn(&Request) -> Response + Send + Sync + 'static,
{
    let is_full = open.fetch_add(1, Ordering::AcqRel) >= MOST_CONNECTIONS;
    let place = Place(Arc::clone(open));
    if is_full {
        let text = "too many connections: try again";
        // This thread accepts all the others: it does not wait for this client.
        let _ = stream.set_nonblocking(true);
        let _ = send(&stream, &Response::failure(503, text), true);
        return;
    }
    let answer = Arc::clone(answer);
    let serve = move || {
        let _place = place;
        // A client that has gone needs no answer.
        let _ = converse(&stream, answer.as_ref());
    };
    // Without a thread the connection is closed.
    let _ = thread::Builder::new().stack_size(STACK).spawn(serve);
}

fn converse(stream: &TcpStream, answer: &impl Fn(&Request) -> Response) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITING))?;
    let (request, has_body) = match read(stream)? {
        Ok(request) => request,
        Err(refused) => {
            send(stream, &refused, true)?;
            return drain(stream);
        }
    };
    send(stream, &answer(&request), has_body)
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
    // A client may send several Accept headers: they are one list.
    let accept = parsed.headers.iter();
    let accept = accept.filter(|h| h.name.eq_ignore_ascii_case("accept"));
    let accept = accept.map(|h| String::from_utf8_lossy(h.value).into_owned());
    let request = Request {
        path: path.into(),
        query: query.into(),
        accept: accept.collect::<Vec<_>>().join(","),
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
    stream.write_all(&bytes)?;
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

    fn server() -> SocketAddr {
        let server = Server::bind("127.0.0.1:0").unwrap();
        let address = server.address().unwrap();
        server.run(|request| {
            let text = format!("{} {:?}", request.path, request.value("seconds"));
            Response::ok("text/plain", text)
        });
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
        let answer = ask(address, b"GET /a?x=1&seconds=5 HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n/a Some(\"5\")"), "{answer}");
        let answer = ask(address, b"HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(answer.contains("Content-Length: 7") && answer.ends_with("\r\n\r\n"));
        let answer = ask(address, b"POST /a HTTP/1.1\r\nHost: h\r\n\r\n");
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
    fn an_address_in_use_is_an_error() {
        let first = Server::bind("127.0.0.1:0").unwrap();
        let address = first.address().unwrap().to_string();
        let error = Server::bind(&address).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
