// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that tells: asked again and again while a region is collapsed, by how much does it
//! answer later than before?

use std::net::ToSocketAddrs;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::sockopt::{Timeout, set_socket_timeout, set_tcp_nodelay};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};

/// For a connection, or for a whole answer. Whoever holds the port is not trusted: a byte now and then
/// does not make it longer. It is asked again, over a connection of its own, at another collapse.
const LIMIT: Duration = Duration::from_secs(2);
/// How long a collapse waits for an answer. What is later counts as so late.
const WAIT: Duration = Duration::from_millis(500);
/// Of an answer: a line.
const ANSWER_BYTES: usize = 1024;
/// The least time between two tries to connect again.
const RETRY: Duration = Duration::from_secs(1);
/// Between two questions.
const GAP: Duration = Duration::from_micros(200);
/// Any answer will do, an error too: Redis's PING, as a line.
const QUESTION: &[u8] = b"PING\r\n";

/// Asks on a thread of its own, only while it is listened to. Nobody waits for that thread: it ends
/// by itself, once what it waits for has come or its time is over.
#[derive(Debug)]
pub struct Ping {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct Shared {
    /// How the first question went.
    first: OnceLock<Result<(), String>>,
    listens: AtomicBool,
    ends: AtomicBool,
    is_deaf: AtomicBool,
    answers: AtomicU64,
    /// The slowest answer since it is listened to.
    slowest_ns: AtomicU64,
    /// A moving average of the first answer of each time.
    usual_ns: AtomicU64,
}

impl Shared {
    /// Waits for one more answer; `false` if there is none in time.
    fn waits_for_answer(&self) -> bool {
        let before = self.answers.load(Ordering::Acquire);
        let began = Instant::now();
        while self.answers.load(Ordering::Acquire) == before {
            if self.is_deaf.load(Ordering::Relaxed) || began.elapsed() >= WAIT {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        true
    }
}

impl Ping {
    /// Begins to ask `HOST:PORT`, or a socket by its path, whatever holds it. Returns at once.
    pub fn begin(address: &str) -> Result<Ping> {
        let mut asker = Asker { address: address.to_owned(), connection: None };
        let shared = Arc::new(Shared::default());
        let other = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("ping".into())
            .spawn(move || match asker.ask() {
                Ok(ns) => {
                    other.usual_ns.store(ns, Ordering::Relaxed);
                    let _ = other.first.set(Ok(()));
                    attend(&other, &mut asker);
                }
                Err(error) => _ = other.first.set(Err(format!("{error:#}"))),
            })
            .context("no thread can be started that asks the target (--set ping=…)")?;
        Ok(Ping { shared, thread: thread.thread().clone() })
    }

    /// How the first question went, once that is known.
    pub fn first(&self) -> Option<&Result<(), String>> {
        self.shared.first.get()
    }

    /// Begin to ask, and wait for the first answer: what is usual now. It is asked until the value
    /// that is returned goes.
    pub fn listen(&self) -> Listening {
        self.shared.slowest_ns.store(0, Ordering::Relaxed);
        self.shared.listens.store(true, Ordering::Release);
        self.thread.unpark();
        self.shared.waits_for_answer();
        Listening { shared: Arc::clone(&self.shared) }
    }
}

/// That it is asked.
#[derive(Debug)]
pub struct Listening {
    shared: Arc<Shared>,
}

impl Listening {
    /// Stop asking, once the last question is answered: how much later than usual the slowest
    /// answer came. `None` where it does not answer.
    pub fn heard_ns(self) -> Option<u64> {
        if !self.shared.waits_for_answer() {
            self.shared.slowest_ns.fetch_max(WAIT.as_nanos() as u64, Ordering::Relaxed);
        }
        if self.shared.is_deaf.load(Ordering::Relaxed) {
            return None;
        }
        let slowest = self.shared.slowest_ns.load(Ordering::Relaxed);
        Some(slowest.saturating_sub(self.shared.usual_ns.load(Ordering::Relaxed)))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.shared.listens.store(false, Ordering::Release);
    }
}

impl Drop for Ping {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Whom to ask, over a connection that is made anew where it was lost: servers close idle ones.
struct Asker {
    address: String,
    connection: Option<Connection>,
}

struct Connection(OwnedFd);

impl Asker {
    /// How long an answer took.
    fn ask(&mut self) -> Result<u64> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(&self.address)
                .with_context(|| format!("nobody answers at {}", self.address))?,
        };
        let ns =
            connection.ask().with_context(|| format!("{} does not answer PING", self.address))?;
        self.connection = Some(connection);
        Ok(ns)
    }
}

impl Connection {
    fn open(address: &str) -> Result<Connection> {
        if address.contains('/') {
            return Connection::to(AddressFamily::UNIX, &SocketAddrUnix::new(address)?);
        }
        let mut last = anyhow::anyhow!("the name has no address");
        for address in address.to_socket_addrs()? {
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            match Connection::to(family, &address) {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn to(family: AddressFamily, address: &impl SocketAddrArg) -> Result<Connection> {
        let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // For connecting too, which std bounds for TCP only: a socket's queue may be full.
        set_socket_timeout(&socket, Timeout::Send, Some(LIMIT))?;
        match connect(&socket, address) {
            Err(Errno::INPROGRESS | Errno::AGAIN) => {
                bail!("no connection after {} s", LIMIT.as_secs())
            }
            connected => connected?,
        }
        if family != AddressFamily::UNIX {
            set_tcp_nodelay(&socket, true)?;
        }
        Ok(Connection(socket))
    }

    fn ask(&mut self) -> Result<u64> {
        let began = Instant::now();
        let sent = send(&self.0, QUESTION, SendFlags::NOSIGNAL)?;
        let mut answer = [0; ANSWER_BYTES];
        let mut length = 0;
        while sent == QUESTION.len() && length < answer.len() {
            let left = LIMIT.saturating_sub(began.elapsed());
            if left.is_zero() {
                bail!("there is no whole line after {} s", LIMIT.as_secs());
            }
            set_socket_timeout(&self.0, Timeout::Recv, Some(left))?;
            let count = match recv(&self.0, &mut answer[length..], RecvFlags::empty()) {
                Err(Errno::AGAIN | Errno::INTR) => continue,
                received => received?.0,
            };
            if count == 0 {
                bail!("the connection was closed");
            }
            length += count;
            // What came before it was asked for would look like a fast answer.
            match answer[..length].iter().position(|byte| *byte == b'\n') {
                Some(end) if end + 1 == length => return Ok(began.elapsed().as_nanos() as u64),
                Some(_) => break,
                None => {}
            }
        }
        bail!("its answer is not one line of {ANSWER_BYTES} bytes at most")
    }
}

/// How long the answer to one question took, over a connection that is there.
pub fn ask_once(connection: OwnedFd) -> Result<u64> {
    Connection(connection).ask()
}

fn attend(shared: &Shared, asker: &mut Asker) {
    let mut is_first = true;
    let mut failed: Option<Instant> = None;
    while !shared.ends.load(Ordering::Acquire) {
        // Lost, it is asked once a second whether anybody listens or not.
        let is_due = match failed {
            Some(at) => at.elapsed() >= RETRY,
            None => shared.listens.load(Ordering::Acquire),
        };
        if !is_due {
            is_first = true;
            std::thread::park_timeout(if failed.is_some() { RETRY / 10 } else { RETRY });
            continue;
        }
        match asker.ask() {
            Ok(ns) if is_first => {
                is_first = false;
                let usual = shared.usual_ns.load(Ordering::Relaxed);
                shared.usual_ns.store(usual - usual / 8 + ns / 8, Ordering::Relaxed);
            }
            Ok(ns) => _ = shared.slowest_ns.fetch_max(ns, Ordering::Relaxed),
            Err(_) => {
                shared.is_deaf.store(true, Ordering::Relaxed);
                failed = Some(Instant::now());
                continue;
            }
        }
        failed = None;
        shared.is_deaf.store(false, Ordering::Relaxed);
        shared.answers.fetch_add(1, Ordering::Release);
        std::thread::sleep(GAP);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Asks, and waits for how that went.
    fn begun(address: &str) -> Result<Ping, String> {
        let ping = Ping::begin(address).unwrap();
        let began = Instant::now();
        while ping.first().is_none() {
            assert!(began.elapsed() < 5 * LIMIT, "asking has no time limit");
            std::thread::sleep(Duration::from_millis(1));
        }
        ping.first().unwrap().clone().map(|()| ping)
    }

    /// Listens, and tells each client `part` again and again until it goes; how much the clients took.
    fn chatter(part: &'static [u8], pause: Duration) -> (String, Arc<AtomicU64>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let took = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&took);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let count = Arc::clone(&count);
                std::thread::spawn(move || {
                    let _ = stream.read(&mut [0; 64]);
                    while stream.write_all(part).is_ok() {
                        count.fetch_add(part.len() as u64, Ordering::SeqCst);
                        std::thread::sleep(pause);
                    }
                });
            }
        });
        (address, took)
    }

    #[test]
    fn whoever_holds_the_port_cannot_make_it_read_without_end() {
        let (address, took) = chatter(&[b'x'; 1 << 16], Duration::ZERO);
        let error = begun(&address).unwrap_err();
        assert!(error.contains("not one line of 1024 bytes at most"), "{error}");
        // What the sockets' buffers hold, and no more.
        std::thread::sleep(Duration::from_millis(50));
        assert!(took.load(Ordering::SeqCst) < 64 << 20);
        // Answers that were not asked for are none.
        let (address, _) = chatter(b"+PONG\r\n+PONG\r\n", Duration::from_millis(1));
        assert!(begun(&address).unwrap_err().contains("not one line"));
    }

    #[test]
    fn a_byte_now_and_then_and_a_full_queue_end_with_the_time() {
        let (address, _) = chatter(b"+", Duration::from_millis(50));
        let began = Instant::now();
        let ping = Ping::begin(&address).unwrap();
        assert!(began.elapsed() < LIMIT / 2, "who begins is held up");
        drop(ping);
        assert!(began.elapsed() < LIMIT / 2, "who ends is held up");
        assert!(begun(&address).unwrap_err().contains("no whole line after 2 s"));
        // Nobody accepts, and the queue is full: connecting to it would wait.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (unix, stream) = (AddressFamily::UNIX, SocketType::STREAM);
        let listener = socket_with(unix, stream, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let _first = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let error = begun(path.to_str().unwrap()).unwrap_err();
        assert!(error.contains("no connection after 2 s"), "{error}");
    }

    #[test]
    fn a_late_answer_is_heard_and_silence_is_not_taken_for_speed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let late = Arc::new(AtomicBool::new(false));
        let is_late = Arc::clone(&late);
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut back = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while back.read_line(&mut line).is_ok_and(|read| read > 0) && line != "end" {
                if is_late.swap(false, Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(50));
                }
                if stream.write_all(b"+PONG\r\n").is_err() {
                    return;
                }
                line.clear();
            }
        });
        let ping = begun(path.to_str().unwrap()).unwrap();
        let listening = ping.listen();
        late.store(true, Ordering::SeqCst);
        let began = Instant::now();
        while late.load(Ordering::SeqCst) && began.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(listening.heard_ns().unwrap() > 40_000_000);
        // Nobody listens: no more questions than one that was on its way.
        let asked = || ping.shared.answers.load(Ordering::Acquire);
        drop(ping.listen());
        std::thread::sleep(Duration::from_millis(20));
        let before = asked();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(asked(), before);
        drop(ping);
        server.join().unwrap();
        assert!(begun("/nonexistent/socket").is_err());
    }

    #[test]
    fn a_server_that_closes_idle_connections_is_heard_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            // The first connection is closed after one answer.
            for most in [1, usize::MAX] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut back = BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                for _ in 0..most {
                    line.clear();
                    if back.read_line(&mut line).is_ok_and(|read| read == 0)
                        || stream.write_all(b"+PONG\r\n").is_err()
                    {
                        break;
                    }
                }
            }
        });
        let ping = begun(path.to_str().unwrap()).unwrap();
        assert_eq!(ping.listen().heard_ns(), None, "nothing was heard over a closed connection");
        let began = Instant::now();
        while ping.listen().heard_ns().is_none() {
            assert!(began.elapsed() < 5 * LIMIT, "it is never asked again");
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(ping);
        server.join().unwrap();
    }
}
