// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client of Redis's protocol (RESP2), and what a server says of itself. What answers is not
//! trusted: an answer has a size and a time by which it must have come whole.

mod address;
mod ask;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, set_tcp_nodelay};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with,
};

pub use address::Address;
pub use ask::{Asked, ServerProcess, ask};

/// Of one answer: INFO has some 10 KiB.
const MOST_BYTES: usize = 1 << 20;
/// Answers within an answer, and how deep: CONFIG GET has two, one deep.
const MOST_PARTS: usize = 1024;
const DEEPEST: u32 = 4;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Address(String),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It did not answer in time.
    #[error("no answer within {0} s")]
    Late(u64),
    #[error("what answers there speaks another protocol")]
    Foreign,
    /// The server refuses, in its own words.
    #[error("{0}")]
    Refused(String),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A line or a string; `None` where there is none.
    Text(Option<Vec<u8>>),
    Number(i64),
    Many(Vec<Reply>),
}

impl Reply {
    /// Its text, if it is one.
    pub fn text(self) -> Option<String> {
        match self {
            Reply::Text(bytes) => String::from_utf8(bytes?).ok(),
            _ => None,
        }
    }
}

/// INFO: keys and their values.
#[derive(Debug, Default)]
pub struct Info(HashMap<String, String>);

impl Info {
    fn parse(text: &str) -> Info {
        let pairs = text.lines().filter_map(|line| line.trim().split_once(':'));
        Info(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub fn number(&self, key: &str) -> Option<u64> {
        self.text(key)?.trim().parse().ok()
    }
}

/// Commands that are sent at once.
#[derive(Debug, Default)]
pub struct Pipeline {
    bytes: Vec<u8>,
    commands: usize,
}

impl Pipeline {
    pub fn add<'a>(&mut self, words: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.bytes.extend(format!("*{}\r\n", words.len()).bytes());
        for word in words {
            self.bytes.extend(format!("${}\r\n", word.len()).bytes());
            self.bytes.extend(word);
            self.bytes.extend(b"\r\n");
        }
        self.commands += 1;
    }
}

#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    limit: Duration,
    /// What was received and is not read yet, from `at` on.
    buffer: Vec<u8>,
    at: usize,
    /// Of the answer that is read: when it must be whole, and how much of it may still come.
    deadline: Instant,
    left_bytes: usize,
    has_short_timeout: bool,
}

impl Connection {
    /// Connects and authenticates, each within `limit`, which holds for every answer as well.
    pub fn open(address: &Address, limit: Duration) -> Result<Connection, Error> {
        let mut last = Error::Address("its host has no address".to_owned());
        for (family, endpoint) in address.endpoints()? {
            match Connection::to(family, &endpoint, limit) {
                Ok(mut connection) => {
                    let words = address.authentication();
                    if !words.is_empty() {
                        connection.ask(&words)?;
                    }
                    return Ok(connection);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn to(
        family: AddressFamily,
        endpoint: &impl rustix::net::addr::SocketAddrArg,
        limit: Duration,
    ) -> Result<Connection, Error> {
        let io = |errno: Errno| Error::Io(errno.into());
        let socket =
            socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None).map_err(io)?;
        // For connecting too, which std bounds for TCP only: a socket's queue may be full.
        set_socket_timeout(&socket, Timeout::Send, Some(limit)).map_err(io)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(limit)).map_err(io)?;
        match connect(&socket, endpoint) {
            Err(Errno::INPROGRESS | Errno::AGAIN) => return Err(Error::Late(limit.as_secs())),
            connected => connected.map_err(io)?,
        }
        if family != AddressFamily::UNIX {
            set_tcp_nodelay(&socket, true).map_err(io)?;
        }
        Ok(Connection {
            socket,
            limit,
            buffer: Vec::new(),
            at: 0,
            deadline: Instant::now(),
            left_bytes: 0,
            has_short_timeout: false,
        })
    }

    pub fn ask(&mut self, words: &[&str]) -> Result<Reply, Error> {
        let mut one = Pipeline::default();
        one.add(words.iter().map(|word| word.as_bytes()));
        self.send(&one)?;
        self.answer()
    }

    /// Commands of which no answer is wanted, but that they are done.
    pub fn run(&mut self, commands: &Pipeline) -> Result<(), Error> {
        self.send(commands)?;
        (0..commands.commands).try_for_each(|_| self.answer().map(drop))
    }

    pub fn info(&mut self, section: &str) -> Result<Info, Error> {
        let text = self.ask(&["INFO", section])?.text().ok_or(Error::Foreign)?;
        Ok(Info::parse(&text))
    }

    /// A setting; `None` where the server does not tell.
    pub fn setting(&mut self, name: &str) -> Option<String> {
        match self.ask(&["CONFIG", "GET", name]).ok()? {
            Reply::Many(mut pair) if pair.len() == 2 => pair.pop()?.text(),
            _ => None,
        }
    }

    fn late(&self, error: Errno) -> Error {
        match error {
            Errno::AGAIN => Error::Late(self.limit.as_secs()),
            other => Error::Io(other.into()),
        }
    }

    fn send(&mut self, commands: &Pipeline) -> Result<(), Error> {
        let mut rest = &commands.bytes[..];
        while !rest.is_empty() {
            match send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.late(error)),
            }
        }
        Ok(())
    }

    fn answer(&mut self) -> Result<Reply, Error> {
        self.deadline = Instant::now() + self.limit;
        self.left_bytes = MOST_BYTES;
        let reply = self.reply(0);
        if self.has_short_timeout {
            self.has_short_timeout = false;
            let _ = set_socket_timeout(&self.socket, Timeout::Recv, Some(self.limit));
        }
        reply
    }

    /// Waits for more of the answer; the first time for `limit`, then for what is left of that.
    fn receive(&mut self) -> Result<(), Error> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::Late(self.limit.as_secs()));
        }
        if self.left_bytes < MOST_BYTES {
            self.has_short_timeout = true;
            let least = Duration::from_millis(1);
            set_socket_timeout(&self.socket, Timeout::Recv, Some(left.max(least)))
                .map_err(|errno| Error::Io(errno.into()))?;
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        let held = self.buffer.len();
        self.buffer.resize(held + 16_384.min(self.left_bytes.max(1)), 0);
        let received = recv(&self.socket, &mut self.buffer[held..], RecvFlags::empty());
        let count = match received {
            Ok((0, _)) => return Err(Error::Io(std::io::ErrorKind::UnexpectedEof.into())),
            Ok((count, _)) => count,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(self.late(error)),
        };
        self.buffer.truncate(held + count);
        self.left_bytes = self.left_bytes.checked_sub(count).ok_or(Error::Foreign)?;
        Ok(())
    }

    fn line(&mut self) -> Result<Vec<u8>, Error> {
        loop {
            let waiting = &self.buffer[self.at..];
            if let Some(end) = waiting.windows(2).position(|two| two == b"\r\n") {
                let line = waiting[..end].to_vec();
                self.at += end + 2;
                return Ok(line);
            }
            // A line that goes on is none of this protocol.
            if waiting.len() > 4096 {
                return Err(Error::Foreign);
            }
            self.receive()?;
        }
    }

    fn exactly(&mut self, count: usize) -> Result<Vec<u8>, Error> {
        if count > MOST_BYTES {
            return Err(Error::Foreign);
        }
        while self.buffer.len() - self.at < count + 2 {
            self.receive()?;
        }
        let bytes = self.buffer[self.at..self.at + count].to_vec();
        self.at += count + 2;
        Ok(bytes)
    }

    fn reply(&mut self, depth: u32) -> Result<Reply, Error> {
        let line = self.line()?;
        let (kind, rest) = line.split_first().ok_or(Error::Foreign)?;
        let text = String::from_utf8_lossy(rest).into_owned();
        let number = || text.parse::<i64>().map_err(|_| Error::Foreign);
        let count = || Ok::<_, Error>(usize::try_from(number()?).ok());
        match kind {
            b'+' => Ok(Reply::Text(Some(rest.to_vec()))),
            b'-' => Err(Error::Refused(text.clone())),
            b':' => Ok(Reply::Number(number()?)),
            b'$' => match count()? {
                Some(count) => Ok(Reply::Text(Some(self.exactly(count)?))),
                None => Ok(Reply::Text(None)),
            },
            b'*' if depth < DEEPEST => {
                let count = count()?.unwrap_or(0);
                if count > MOST_PARTS {
                    return Err(Error::Foreign);
                }
                Ok(Reply::Many(
                    (0..count).map(|_| self.reply(depth + 1)).collect::<Result<_, _>>()?,
                ))
            }
            _ => Err(Error::Foreign),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// What is made of a server that says `answer`, piece by piece, `pause` apart.
    fn asked(answer: Vec<Vec<u8>>, pause: Duration, limit: Duration) -> Result<Reply, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1000]);
            for piece in answer {
                if stream.write_all(&piece).is_err() {
                    break;
                }
                std::thread::sleep(pause);
            }
        });
        let address = Address::parse(&format!("unix://{}", path.display())).unwrap();
        let reply = Connection::open(&address, limit).and_then(|mut one| one.ask(&["INFO"]));
        server.join().unwrap();
        reply
    }

    fn whole(answer: &[u8]) -> Result<Reply, Error> {
        asked(vec![answer.to_vec()], Duration::ZERO, Duration::from_secs(5))
    }

    #[test]
    fn answers_of_each_kind() {
        let text = |text: &str| Reply::Text(Some(text.into()));
        assert_eq!(whole(b"+OK\r\n").unwrap(), text("OK"));
        assert_eq!(whole(b":-7\r\n").unwrap(), Reply::Number(-7));
        assert_eq!(whole(b"$3\r\na\r\n\r\n").unwrap(), text("a\r\n"));
        assert_eq!(whole(b"$-1\r\n").unwrap(), Reply::Text(None));
        let pair = Reply::Many(vec![text("a"), Reply::Many(Vec::new())]);
        assert_eq!(whole(b"*2\r\n$1\r\na\r\n*0\r\n").unwrap(), pair);
        let refused = whole(b"-NOAUTH Authentication required.\r\n").unwrap_err().to_string();
        assert_eq!(refused, "NOAUTH Authentication required.");
        let pieces = b"$4\r\nabcd\r\n".iter().map(|byte| vec![*byte]).collect();
        assert_eq!(asked(pieces, Duration::ZERO, Duration::from_secs(5)).unwrap(), text("abcd"));
    }

    #[test]
    fn a_hostile_answer_is_bounded() {
        for foreign in [
            &b"HTTP/1.1 200 OK\r\n"[..],
            b"\r\n",
            b"$x\r\n",
            b"$9999999999\r\n",
            b"*99999\r\n",
            b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
        ] {
            assert!(matches!(whole(foreign), Err(Error::Foreign)), "{foreign:?}");
        }
        assert!(matches!(whole(&[b'+'; 2 << 20]), Err(Error::Foreign)), "a line without an end");
        assert!(matches!(whole(b"$5\r\nab"), Err(Error::Io(_))), "cut");
        // A byte now and then does not make it longer.
        let began = Instant::now();
        let pieces = vec![b"+".to_vec(); 30];
        let late = asked(pieces, Duration::from_millis(100), Duration::from_millis(300));
        assert!(matches!(late, Err(Error::Late(_))), "{late:?}");
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn info_has_keys_and_values() {
        let info = Info::parse("# Memory\r\nused_memory:12\r\ncmdstat_hset:calls=5,usec=3\r\n");
        assert_eq!((info.number("used_memory"), info.number("maxmemory")), (Some(12), None));
        assert_eq!(info.text("cmdstat_hset"), Some("calls=5,usec=3"));
    }
}
