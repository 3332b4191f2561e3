// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that tells: asked again and again while a region is collapsed, by how much does it
//! answer later than before?

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// A server that does not answer for so long is not waited for: it is asked again, over a connection
/// of its own, at another collapse.
const LIMIT: Duration = Duration::from_secs(2);
/// The least time between two tries to connect again.
const RETRY: Duration = Duration::from_secs(1);
/// Between two questions.
const GAP: Duration = Duration::from_micros(200);
/// Any answer will do, an error too: Redis's PING, as a line.
const QUESTION: &[u8] = b"PING\r\n";

/// Asks on a thread of its own, only while it is listened to.
#[derive(Debug)]
pub struct Ping {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    listens: AtomicBool,
    ends: AtomicBool,
    is_deaf: AtomicBool,
    answers: AtomicU64,
    /// The slowest answer since it is listened to.
    slowest_ns: AtomicU64,
    /// A moving average of the first answer of each time.
    usual_ns: AtomicU64,
}

impl Ping {
    /// Connects to `HOST:PORT`, or to a socket by its path.
    ///
    /// # Errors
    /// Nobody listens, or nobody answers.
    pub fn connect(address: &str) -> Result<Ping> {
        let mut asker = Asker { address: address.to_owned(), connection: None };
        let first = asker.ask()?;
        let shared = Arc::new(Shared::default());
        shared.usual_ns.store(first, Ordering::Relaxed);
        let other = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("ping".into())
            .spawn(move || attend(&other, &mut asker))
            .context("no thread for --ping")?;
        Ok(Ping { shared, thread: Some(thread) })
    }

    /// Begin to ask, and wait for the first answer: what is usual now. It is asked until the value
    /// that is returned goes.
    pub fn listen(&self) -> Listening {
        self.shared.slowest_ns.store(0, Ordering::Relaxed);
        let before = self.shared.answers.load(Ordering::Acquire);
        self.shared.listens.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
        let began = Instant::now();
        while self.shared.answers.load(Ordering::Acquire) == before
            && !self.shared.is_deaf.load(Ordering::Relaxed)
            && began.elapsed() < LIMIT
        {
            std::thread::sleep(Duration::from_micros(50));
        }
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
        let answers = self.shared.answers.load(Ordering::Acquire);
        let began = Instant::now();
        while self.shared.answers.load(Ordering::Acquire) < answers + 1
            && !self.shared.is_deaf.load(Ordering::Relaxed)
            && began.elapsed() < LIMIT
        {
            std::thread::sleep(Duration::from_micros(50));
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
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Whom to ask, over a connection that is made anew where it was lost: servers close idle ones.
struct Asker {
    address: String,
    connection: Option<Connection>,
}

struct Connection {
    out: Box<dyn Write + Send>,
    back: BufReader<Box<dyn Read + Send>>,
}

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
        let (out, back): (Box<dyn Write + Send>, Box<dyn Read + Send>) = if address.contains('/') {
            let stream = UnixStream::connect(address)?;
            stream.set_read_timeout(Some(LIMIT))?;
            (Box::new(stream.try_clone()?), Box::new(stream))
        } else {
            let stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(LIMIT))?;
            stream.set_nodelay(true)?;
            (Box::new(stream.try_clone()?), Box::new(stream))
        };
        Ok(Connection { out, back: BufReader::new(back) })
    }

    fn ask(&mut self) -> Result<u64> {
        let began = Instant::now();
        self.out.write_all(QUESTION)?;
        let mut line = Vec::new();
        if self.back.read_until(b'\n', &mut line)? == 0 {
            anyhow::bail!("the connection was closed");
        }
        Ok(began.elapsed().as_nanos() as u64)
    }
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
    use std::os::unix::net::UnixListener;

    use super::*;

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
        let ping = Ping::connect(path.to_str().unwrap()).unwrap();
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
        assert!(Ping::connect("/nonexistent/socket").is_err());
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
        let ping = Ping::connect(path.to_str().unwrap()).unwrap();
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
