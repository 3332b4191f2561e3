// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The subset of HTTP/1 that scrapers need: one request a connection, whose body is not read. Clients
//! are not trusted: requests have a size and a time, and there are only so many at once.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use httparse::{EMPTY_HEADER, Error, Status};
use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Connections at once. The next client takes the place of the oldest, or is turned away.
const MOST_CONNECTIONS: usize = 8;
/// How long a connection keeps its place in any case: a scrape is answered within milliseconds.
const KEEPS_PLACE: Duration = Duration::from_secs(1);
/// A request without its body.
const MOST_HEAD_BYTES: usize = 8 << 10;
const MOST_HEADERS: usize = 64;
/// Of a body that nobody asked for.
const MOST_UNWANTED_BYTES: u64 = 64 << 10;
/// After an error that may pass, such as no free descriptor.
const PAUSE_NS: i64 = 100_000_000;
const PLAIN: &str = "text/plain; charset=UTF-8";

/// How long a client may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    pub silence: Duration,
    /// For all of it, so that a byte now and then does not hold a connection.
    pub whole: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { silence: Duration::from_secs(5), whole: Duration::from_secs(15) }
    }
}

#[derive(Debug)]
pub struct Request {
    pub method: String,
    /// Path and query, as they came.
    pub target: String,
    /// The header `Accept`, or nothing.
    pub accept: String,
}

#[derive(Debug)]
pub struct Answer {
    status: u16,
    kind: &'static str,
    text: String,
}

impl Answer {
    pub fn good(kind: &'static str, text: String) -> Answer {
        Answer { status: 200, kind, text }
    }

    pub fn refusal(status: u16, why: &str) -> Answer {
        Answer { status, kind: PLAIN, text: format!("{why}\n") }
    }

    fn bytes(&self, is_head: bool) -> Vec<u8> {
        let reason = match self.status {
            200 => "OK",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            431 => "Request Header Fields Too Large",
            500 => "Internal Server Error",
            503 => "Service Unavailable",
            505 => "HTTP Version Not Supported",
            _ => "Bad Request",
        };
        let date = Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT");
        let head = format!(
            "HTTP/1.1 {} {reason}\r\nDate: {date}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            self.status,
            self.kind,
            self.text.len()
        );
        let text = if is_head { "" } else { &self.text };
        [head.as_bytes(), text.as_bytes()].concat()
    }
}

/// Answers at a port, until it is dropped: which waits for no client.
pub struct Server {
    address: SocketAddr,
    wake: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn open(
        address: SocketAddr,
        patience: Patience,
        answer: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        // Who has gone between poll and accept must not hold up the thread.
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (wake, woken) = UnixStream::pair()?;
        let answer = Arc::new(answer);
        let accepts = move || accept_all(&listener, &woken, patience, &answer);
        let thread = Builder::new().spawn(accepts)?;
        Ok(Server { address, wake: Some(wake), thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.wake.take());
        // It never waits for a client. The connections' threads do, but nobody waits for those.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Gives each connection its thread, until the other end of `woken` is closed.
fn accept_all(
    listener: &TcpListener,
    woken: &UnixStream,
    patience: Patience,
    answer: &Arc<impl Fn(&Request) -> Answer + Send + Sync + 'static>,
) {
    let mut connections: Vec<Connection> = Vec::new();
    loop {
        let end = PollFd::new(woken, PollFlags::IN);
        let mut both = [end, PollFd::new(listener, PollFlags::IN)];
        // Interrupted, it is called again: there is nothing to accept.
        let _ = poll(&mut both, None);
        if !both[0].revents().is_empty() {
            return;
        }
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if is_nothing(error.kind()) => continue,
            Err(_) => {
                pause(woken);
                continue;
            }
        };
        connections.retain(|connection| connection.thread.strong_count() > 0);
        if connections.len() >= MOST_CONNECTIONS {
            // Idle ones must not keep scrapers out.
            if connections[0].began.elapsed() < KEEPS_PLACE {
                turn_away(&stream);
                continue;
            }
            let _ = connections.remove(0).stream.shutdown(Shutdown::Both);
        }
        let (Ok(same), alive) = (stream.try_clone(), Arc::new(())) else {
            pause(woken);
            continue;
        };
        let thread = Arc::downgrade(&alive);
        let answer = Arc::clone(answer);
        // Who goes before being answered is no error of ours.
        let serves = move || {
            let _alive = alive;
            drop(serve(stream, patience, &*answer));
        };
        match Builder::new().spawn(serves) {
            Ok(_) => connections.push(Connection { began: Instant::now(), stream: same, thread }),
            Err(_) => pause(woken),
        }
    }
}

/// One that is being served, as its server sees it.
struct Connection {
    began: Instant,
    stream: TcpStream,
    thread: Weak<()>,
}

/// Nobody is there, or not any more.
fn is_nothing(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

/// Less than that if the end comes.
fn pause(woken: &UnixStream) {
    let limit = Timespec { tv_sec: 0, tv_nsec: PAUSE_NS };
    let _ = poll(&mut [PollFd::new(woken, PollFlags::IN)], Some(&limit));
}

/// In the thread that accepts, hence without any wait: it may be closed without a word.
fn turn_away(mut stream: &TcpStream) {
    if stream.set_nonblocking(true).is_ok() {
        let _ = stream.write(&Answer::refusal(503, "too many connections").bytes(false));
    }
}

fn serve(
    stream: TcpStream,
    patience: Patience,
    answer: &impl Fn(&Request) -> Answer,
) -> io::Result<()> {
    let until = Instant::now() + patience.whole;
    let mut client = Client { stream, silence: patience.silence, until };
    let bytes = match read_head(&mut client)? {
        Ok(request) => answer(&request).bytes(request.method == "HEAD"),
        Err(refusal) => refusal.bytes(false),
    };
    client.write_all(&bytes)?;
    // Closed with something unread, a connection is reset, and the answer may be lost with it.
    client.stream.shutdown(Shutdown::Write)?;
    io::copy(&mut client.take(MOST_UNWANTED_BYTES), &mut io::sink())?;
    Ok(())
}

/// The request, or what is answered to one that is none.
fn read_head(client: &mut Client) -> io::Result<Result<Request, Answer>> {
    let mut head = [0; MOST_HEAD_BYTES];
    let mut length = 0;
    while length < head.len() {
        match client.read(&mut head[length..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => length += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if let Some(request) = parse_head(&head[..length]).transpose() {
            return Ok(request);
        }
    }
    Ok(Err(Answer::refusal(431, "too long")))
}

/// The request in a head; `None` if there is more to come.
pub fn parse_head(head: &[u8]) -> Result<Option<Request>, Answer> {
    let mut headers = [EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) => return Ok(None),
        Err(Error::TooManyHeaders) => return Err(Answer::refusal(431, "too many headers")),
        Err(Error::Version) => return Err(Answer::refusal(505, "HTTP/1.0 or 1.1 only")),
        Err(error) => return Err(Answer::refusal(400, &error.to_string())),
    }
    // A page in somebody's browser has its own name led here to read what only this machine may.
    let mut hosts = request.headers.iter().filter(|it| it.name.eq_ignore_ascii_case("host"));
    if !hosts.all(|host| std::str::from_utf8(host.value).is_ok_and(is_own)) {
        let why = "ask by an IP address, by localhost or by this machine's own name";
        return Err(Answer::refusal(403, why));
    }
    let accept = request.headers.iter().find(|it| it.name.eq_ignore_ascii_case("accept"));
    let accept = accept.map(|it| String::from_utf8_lossy(it.value).into_owned());
    Ok(Some(Request {
        method: request.method.unwrap_or_default().to_owned(),
        target: request.path.unwrap_or_default().to_owned(),
        accept: accept.unwrap_or_default(),
    }))
}

/// Whether a header `Host` means this machine: only who knows its address or name can say so.
fn is_own(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    let node = rustix::system::uname();
    name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || node.nodename().to_str().is_ok_and(|node| node.eq_ignore_ascii_case(name))
}

struct Client {
    stream: TcpStream,
    silence: Duration,
    until: Instant,
}

impl Drop for Client {
    /// The thread that accepts has the connection as well, until the next one comes.
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Client {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now()).min(self.silence);
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Client {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer)
    }
}

impl Write for Client {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far above what anything here takes.
    const LONG: Duration = Duration::from_secs(20);

    const MANY_BYTES: usize = 16 << 20;

    const PATIENCE: Patience =
        Patience { silence: Duration::from_millis(500), whole: Duration::from_secs(1) };

    /// Echoes what is asked for; `/long` is answered at length.
    fn open() -> Server {
        open_with(PATIENCE)
    }

    fn open_with(patience: Patience) -> Server {
        let answer = |request: &Request| match request.target.as_str() {
            "/long" => Answer::good("text/long", "x".repeat(MANY_BYTES)),
            target => Answer::good("text/echo", format!("{} {target}", request.method)),
        };
        Server::open("127.0.0.1:0".parse().unwrap(), patience, answer).unwrap()
    }

    fn connect(server: &Server) -> TcpStream {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// All that comes until the connection is closed, or reset.
    fn rest(mut stream: &TcpStream) -> String {
        let mut bytes = Vec::new();
        if let Err(error) = stream.read_to_end(&mut bytes) {
            assert_ne!(error.kind(), ErrorKind::WouldBlock, "it stays open");
        }
        String::from_utf8(bytes).unwrap()
    }

    fn ask(server: &Server, request: &str) -> String {
        let mut stream = connect(server);
        stream.write_all(request.as_bytes()).unwrap();
        rest(&stream)
    }

    fn is_served(server: &Server) -> bool {
        ask(server, "GET /x HTTP/1.1\r\n\r\n").ends_with("\r\n\r\nGET /x")
    }

    #[test]
    fn what_is_asked_is_answered_once() {
        let server = open();
        let got =
            ask(&server, "GET /x?y HTTP/1.0\r\nHost: [::1]:80\r\n\r\nGET /z HTTP/1.0\r\n\r\n");
        assert!(got.starts_with("HTTP/1.1 200 OK\r\nDate: ") && got.ends_with("GET /x?y"), "{got}");
        assert!(got.contains(" GMT\r\nContent-Type: text/echo\r\nContent-Length: 8\r\n"), "{got}");
        assert!(got.contains("\r\nConnection: close\r\n"), "{got}");
        let head = ask(&server, "HEAD /x HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 7\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        for (wrong, status) in [
            ("GET\r\n\r\n".to_owned(), "400"),
            ("\x16\x03\x01\x02\r\n\r\n".to_owned(), "400"),
            ("GET / HTTP/2.0\r\n\r\n".to_owned(), "505"),
            (format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65)), "431"),
            (format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "b".repeat(20_000)), "431"),
        ] {
            let got = ask(&server, &wrong);
            assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{wrong}: {got}");
        }
    }

    #[test]
    fn promised_bodies_are_neither_kept_nor_waited_for() {
        let server = open();
        for length in ["10", "9000000000000000000", "99999999999999999999999"] {
            for expect in ["", "Expect: 100-continue\r\n"] {
                let head = format!("GET /x HTTP/1.1\r\nContent-Length: {length}\r\n{expect}\r\n");
                let got = ask(&server, &head);
                assert!(got.ends_with("\r\n\r\nGET /x"), "{length}: {got}");
            }
        }
        // One that comes is read to be thrown away, so that the answer arrives.
        let got = ask(&server, &format!("POST /x HTTP/1.1\r\n\r\n{}", "b".repeat(40_000)));
        assert!(got.ends_with("POST /x"), "{got}");
    }

    #[test]
    fn who_is_silent_or_slow_is_left() {
        let server = open();
        assert_eq!(rest(&connect(&server)), "");
        let mut slow = connect(&server);
        let began = Instant::now();
        while slow.write_all(b"a").is_ok() {
            assert!(began.elapsed() < LONG, "a byte now and then holds it");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[test]
    fn idle_connections_are_no_more_than_so_many_and_end() {
        let server = open();
        let idle: Vec<TcpStream> = (0..20).map(|_| connect(&server)).collect();
        // Those above the limit at once, the others when their time is over.
        let answers: Vec<String> = idle.iter().rev().map(rest).collect();
        let away = answers.iter().filter(|answer| answer.starts_with("HTTP/1.1 503 ")).count();
        // Fewer, if the first ones' time was over before the last ones came.
        assert!((1..=20 - MOST_CONNECTIONS).contains(&away), "{answers:?}");
        let began = Instant::now();
        while !is_served(&server) {
            assert!(began.elapsed() < LONG, "nobody is served any more");
        }
    }

    #[test]
    fn idle_connections_do_not_keep_scrapers_out() {
        let server = open_with(Patience { silence: 3 * LONG, whole: 3 * LONG });
        let mut idle: Vec<TcpStream> = (0..MOST_CONNECTIONS).map(|_| connect(&server)).collect();
        let began = Instant::now();
        while !is_served(&server) {
            assert!(began.elapsed() < LONG, "nobody is served any more");
            std::thread::sleep(Duration::from_millis(20));
        }
        // The others keep their places.
        let newest = idle.last_mut().unwrap();
        newest.write_all(b"GET /x HTTP/1.1\r\n\r\n").unwrap();
        assert!(rest(newest).ends_with("GET /x"));
    }

    #[test]
    fn names_of_others_are_refused() {
        let server = open();
        let node = rustix::system::uname().nodename().to_str().unwrap().to_uppercase();
        let own = ["127.0.0.1", "10.1.2.3:9188", "[::1]:9188", "localhost:1", &node];
        for (hosts, status) in
            [(&own[..], 200), (&["example.org", "", "::evil", "a:127.0.0.1"], 403)]
        {
            for host in hosts {
                let got = ask(&server, &format!("GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n"));
                assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {got}");
            }
        }
        let both = "GET /x HTTP/1.1\r\nHost: localhost\r\nHost: example.org\r\n\r\n";
        assert!(ask(&server, both).starts_with("HTTP/1.1 403 "));
    }

    #[test]
    fn who_reads_nothing_holds_up_neither_others_nor_the_end() {
        let server = open();
        let mut deaf: Vec<TcpStream> = (0..4).map(|_| connect(&server)).collect();
        for stream in &mut deaf {
            stream.write_all(b"GET /long HTTP/1.1\r\n\r\n").unwrap();
        }
        assert!(is_served(&server));
        let _idle = connect(&server);
        let address = server.address();
        let began = Instant::now();
        drop(server);
        assert!(began.elapsed() < Duration::from_secs(2), "took {:?}", began.elapsed());
        assert!(TcpStream::connect(address).is_err(), "it listens on");
        std::thread::sleep(2 * PATIENCE.whole);
        for stream in &deaf {
            assert!(rest(stream).len() < MANY_BYTES, "its time was not limited");
        }
    }
}
