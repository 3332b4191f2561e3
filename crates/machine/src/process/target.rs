// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One process, held so that a later process with its PID is never taken for it.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process::error::ProcessError;
use crate::process::stat::Stat;
use crate::root::ReadError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process by its open folder in /proc: once the process has ended, every file in it is gone (ESRCH),
/// even if its PID belongs to another by then.
#[derive(Debug)]
pub struct Target {
    pid: i32,
    folder: OwnedFd,
    /// Readable once it has ended; `None` before Linux 5.3.
    pidfd: Option<OwnedFd>,
    stat: Stat,
    uid: u32,
}

/// Threads whose times are read: with more, a look would take too long.
const MOST_THREADS: usize = 256;

/// What one thread did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    pub cpu_ns: u64,
    pub minor_faults: u64,
}

/// Shared by forks until one of them executes a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    exe: CString,
    stack: u64,
}

impl Target {
    /// Fails for a kernel thread or a zombie.
    pub fn open(pid: i32) -> Result<Target, ProcessError> {
        let number = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw);
        let number = number.ok_or(ProcessError::NoSuchProcess { pid })?;
        let path = format!("/proc/{pid}");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match open(&path, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Err(ProcessError::NoSuchProcess { pid }),
            Err(error) => return Err(io_error(path.into(), error.into())),
        };
        let pidfd = match pidfd_open(number, PidfdFlags::empty()) {
            Err(error @ (Errno::MFILE | Errno::NFILE)) => {
                return Err(io_error(path.into(), error.into()));
            }
            other => other.ok(),
        };
        let mut target = Target { pid, folder, pidfd, stat: Stat::default(), uid: u32::MAX };
        // If the PID changed hands between the two opens, the folder's process has ended.
        target.stat = target.stat()?;
        target.uid = rustix::fs::fstat(&target.folder).map_or(u32::MAX, |stat| stat.st_uid);
        if target.stat.has_ended() || target.is_without_memory()? {
            return Err(ProcessError::NoMemory { pid, name: target.stat.name });
        }
        Ok(target)
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn name(&self) -> &str {
        &self.stat.name
    }

    pub fn start_ticks(&self) -> u64 {
        self.stat.start_ticks
    }

    /// The owner of its files in /proc.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Readable once it has ended; `None` before Linux 5.3.
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// False once it has ended, reaped or not.
    pub fn is_alive(&self) -> bool {
        self.stat().is_ok_and(|stat| !stat.has_ended())
    }

    /// Its parent, if neither has executed another program since: then this is a worker. `None` also if
    /// that may not be read.
    pub fn forked_by(&self) -> Option<Target> {
        let parent = Target::open(self.stat().ok()?.parent).ok()?;
        (self.image().ok()? == parent.image().ok()?).then_some(parent)
    }

    /// `None` if that may not be read.
    pub fn stack_start(&self) -> Option<u64> {
        self.stat().ok().map(|stat| stat.stack).filter(|start| *start > 0)
    }

    /// The program and where its first stack begins: an exec moves that, a fork does not. Fails if it
    /// may not be read.
    pub fn image(&self) -> Result<Image, ProcessError> {
        let exe = readlinkat(&self.folder, "exe", Vec::new())
            .map_err(|error| self.failed("exe", error.into()))?;
        Ok(Image { exe, stack: self.stat()?.stack })
    }

    /// Waits at most `at_most` for its end; whether it has ended.
    pub fn wait_for_end(&self, at_most: Duration) -> bool {
        let Some(pidfd) = self.pidfd() else {
            std::thread::sleep(at_most);
            return !self.is_alive();
        };
        let limit =
            Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
        let mut fds = [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&limit)), Ok(1..))
    }

    /// Fails once it has been reaped.
    pub fn stat(&self) -> Result<Stat, ProcessError> {
        let text = self.read_bytes("stat")?;
        let malformed = || ReadError::Malformed {
            path: self.path("stat"),
            reason: "not as proc_pid_stat(5) describes it".into(),
        };
        Ok(Stat::decode(&text).ok_or_else(malformed)?)
    }

    /// Reads a file of its folder; non-UTF-8 is replaced.
    pub fn read(&self, file: &str) -> Result<String, ProcessError> {
        Ok(String::from_utf8(self.read_bytes(file)?)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// The address in a Redis or Valkey's title; `None` for other programs.
    pub fn server_address(&self) -> Option<String> {
        address_in_title(&self.read("cmdline").ok()?)
    }

    /// CPU time and minor faults of each thread so far; `None` with more than 256, or if the
    /// kernel does not say (`schedstat` in Documentation/scheduler/sched-stats.rst).
    pub fn threads(&self) -> Option<BTreeMap<i32, ThreadTimes>> {
        let tasks: Vec<_> =
            std::fs::read_dir(self.path("task")).ok()?.flatten().take(MOST_THREADS + 1).collect();
        let mut threads = BTreeMap::new();
        for task in tasks.iter().filter(|_| tasks.len() <= MOST_THREADS) {
            let tid: i32 = task.file_name().to_str()?.parse().ok()?;
            // One that has just ended.
            let Some(stat) = Stat::read_thread(self.pid, tid) else { continue };
            let text = self.read(&format!("task/{tid}/schedstat")).ok()?;
            let cpu_ns = text.split_ascii_whitespace().next()?.parse().ok()?;
            threads.insert(tid, ThreadTimes { cpu_ns, minor_faults: stat.minor_faults });
        }
        (!threads.is_empty()).then_some(threads)
    }

    fn read_bytes(&self, file: &str) -> Result<Vec<u8>, ProcessError> {
        let mut bytes = Vec::new();
        let mut opened = self.open_file(file)?;
        opened.read_to_end(&mut bytes).map_err(|error| self.failed(file, error))?;
        Ok(bytes)
    }

    /// Opens a file of its folder for reading. `maps`, `pagemap` and `mem` are of its present memory:
    /// after an exec they read as empty.
    pub fn open_file(&self, file: &str) -> Result<File, ProcessError> {
        openat(&self.folder, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map(File::from)
            .map_err(|error| self.failed(file, error.into()))
    }

    pub fn path(&self, file: &str) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string()).join(file)
    }

    /// Explains an error of reading `file`.
    pub fn failed(&self, file: &str, error: io::Error) -> ProcessError {
        let code = error.raw_os_error();
        let is = |errno: Errno| code == Some(errno.raw_os_error());
        let path = self.path(file);
        if is(Errno::SRCH) {
            return ProcessError::Vanished { pid: self.pid };
        }
        if is(Errno::ACCESS) || is(Errno::PERM) {
            return ProcessError::NoPermission { pid: self.pid, path, uid: self.uid };
        }
        if is(Errno::NOENT) {
            return match file != "stat" && self.stat().is_ok() {
                true => ProcessError::Unsupported { path },
                false => ProcessError::Vanished { pid: self.pid },
            };
        }
        io_error(path, error)
    }

    /// Explains memory that reads as empty: it ended, or executed another program.
    pub fn lost_memory(&self) -> ProcessError {
        // An ending process loses its memory before it counts as ended.
        match self.is_alive() && matches!(self.is_without_memory(), Ok(false)) {
            true => ProcessError::Executed { pid: self.pid },
            false => ProcessError::Vanished { pid: self.pid },
        }
    }

    /// Kernel threads have an empty statm.
    fn is_without_memory(&self) -> Result<bool, ProcessError> {
        Ok(self.read("statm")?.starts_with("0 "))
    }
}

/// One argument: "redis-server *:6379", "redis-server unixsocket:/run/redis.sock", and perhaps more.
fn address_in_title(arguments: &str) -> Option<String> {
    let mut words = arguments.split('\0').next()?.split(' ');
    let program = Path::new(words.next()?).file_name()?.to_str()?;
    let listens = words.next()?;
    if !["redis-server", "valkey-server"].contains(&program) {
        return None;
    }
    if let Some(path) = listens.strip_prefix("unixsocket:") {
        return Some(format!("unix://{path}"));
    }
    let (host, port) = listens.rsplit_once(':')?;
    port.parse::<u16>().ok().filter(|port| *port > 0)?;
    Some(match host {
        "*" => format!("redis://127.0.0.1:{port}"),
        host if host.contains(':') => format!("redis://[{host}]:{port}"),
        host => format!("redis://{host}:{port}"),
    })
}

fn io_error(path: PathBuf, source: io::Error) -> ProcessError {
    ProcessError::Read(ReadError::Io { path, source })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn its_end_is_seen_before_and_after_it_is_reaped() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let target = Target::open(child.id() as i32).unwrap();
        assert!(target.is_alive() && target.start_ticks() > 0);
        assert!(!target.wait_for_end(Duration::ZERO));
        child.kill().unwrap();
        assert!(target.wait_for_end(Duration::from_secs(10)));
        assert!(!target.is_alive(), "a zombie is taken for a living process");
        child.wait().unwrap();
        assert!(matches!(target.read("maps"), Err(ProcessError::Vanished { .. })));
        assert!(matches!(target.lost_memory(), ProcessError::Vanished { .. }));
    }

    #[test]
    fn a_server_says_where_it_listens() {
        for (title, address) in [
            ("redis-server *:6379\0\0\0", Some("redis://127.0.0.1:6379")),
            ("/usr/bin/redis-server 10.0.0.1:7000 [cluster]", Some("redis://10.0.0.1:7000")),
            ("valkey-server ::1:6379", Some("redis://[::1]:6379")),
            ("redis-server unixsocket:/run/redis.sock", Some("unix:///run/redis.sock")),
            ("redis-server\0/etc/redis.conf\0", None),
            ("redis-server *:0", None),
            ("redis-server", None),
            ("python3\0*:6379\0", None),
        ] {
            assert_eq!(address_in_title(title).as_deref(), address, "{title}");
        }
    }

    #[test]
    fn who_is_not_there_or_has_no_memory_is_refused() {
        assert!(matches!(Target::open(i32::MAX), Err(ProcessError::NoSuchProcess { .. })));
        assert!(matches!(Target::open(-1), Err(ProcessError::NoSuchProcess { .. })));
        assert!(matches!(Target::open(0), Err(ProcessError::NoSuchProcess { .. })));
        let mut child = Command::new("true").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        assert!(matches!(Target::open(child.id() as i32), Err(ProcessError::NoMemory { .. })));
        child.wait().unwrap();
    }
}
