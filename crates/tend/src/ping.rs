// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that tells: asked again and again while a region is collapsed, by how much does it
//! answer later than before?

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// A server that does not answer for so long is not asked any more.
const LIMIT: Duration = Duration::from_secs(2);
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
        let mut ask: Box<dyn FnMut() -> Result<u64> + Send> = if address.contains('/') {
            let stream = UnixStream::connect(address)
                .with_context(|| format!("nobody answers at {address}"))?;
            stream.set_read_timeout(Some(LIMIT))?;
            asker(stream.try_clone()?, stream)
        } else {
            let stream = TcpStream::connect(address)
                .with_context(|| format!("nobody answers at {address}"))?;
            stream.set_read_timeout(Some(LIMIT))?;
            stream.set_nodelay(true)?;
            asker(stream.try_clone()?, stream)
        };
        let first = ask().with_context(|| format!("{address} does not answer PING"))?;
        let shared = Arc::new(Shared::default());
        shared.usual_ns.store(first, Ordering::Relaxed);
        let other = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("ping".into())
            .spawn(move || attend(&other, &mut *ask))
            .context("no thread for --ping")?;
        Ok(Ping { shared, thread: Some(thread) })
    }

    /// Begin to ask, and wait for the first answer: what is usual now.
    pub fn listen(&self) {
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
    }

    /// Stop asking, once the last question is answered: how much later than usual the slowest
    /// answer came. `None` once it does not answer any more.
    pub fn heard_ns(&self) -> Option<u64> {
        let answers = self.shared.answers.load(Ordering::Acquire);
        let began = Instant::now();
        while self.shared.answers.load(Ordering::Acquire) < answers + 1
            && !self.shared.is_deaf.load(Ordering::Relaxed)
            && began.elapsed() < LIMIT
        {
            std::thread::sleep(Duration::from_micros(50));
        }
        self.shared.listens.store(false, Ordering::Release);
        if self.shared.is_deaf.load(Ordering::Relaxed) {
            return None;
        }
        let slowest = self.shared.slowest_ns.load(Ordering::Relaxed);
        Some(slowest.saturating_sub(self.shared.usual_ns.load(Ordering::Relaxed)))
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

fn asker(
    mut out: impl Write + Send + 'static,
    back: impl std::io::Read + Send + 'static,
) -> Box<dyn FnMut() -> Result<u64> + Send> {
    let mut back = BufReader::new(back);
    let mut line = Vec::new();
    Box::new(move || {
        let began = Instant::now();
        out.write_all(QUESTION)?;
        line.clear();
        if back.read_until(b'\n', &mut line)? == 0 {
            anyhow::bail!("the connection was closed");
        }
        Ok(began.elapsed().as_nanos() as u64)
    })
}

fn attend(shared: &Shared, ask: &mut dyn FnMut() -> Result<u64>) {
    let mut is_first = true;
    while !shared.ends.load(Ordering::Acquire) {
        if !shared.listens.load(Ordering::Acquire) {
            is_first = true;
            std::thread::park_timeout(Duration::from_secs(1));
            continue;
        }
        match ask() {
            Ok(ns) if is_first => {
                is_first = false;
                let usual = shared.usual_ns.load(Ordering::Relaxed);
                shared.usual_ns.store(usual - usual / 8 + ns / 8, Ordering::Relaxed);
            }
            Ok(ns) => _ = shared.slowest_ns.fetch_max(ns, Ordering::Relaxed),
            Err(_) => {
                shared.is_deaf.store(true, Ordering::Relaxed);
                return;
            }
        }
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
        ping.listen();
        late.store(true, Ordering::SeqCst);
        let began = Instant::now();
        while late.load(Ordering::SeqCst) && began.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(ping.heard_ns().unwrap() > 40_000_000);
        drop(ping);
        server.join().unwrap();
        assert!(Ping::connect("/nonexistent/socket").is_err());
    }
}
