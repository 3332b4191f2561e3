// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A redis-server of our own: started in a folder that goes with it, and ended whatever happens.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use cowlab_observe::redis::{Address, Connection, Error};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CpuSet, sched_setaffinity};
use tempfile::TempDir;

/// Servers that speak the protocol and snapshot the same way, in the order in which they are taken.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// A server that does not answer for so long has hung; a fork of much memory takes seconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// A server that does not start within this time does not start.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The server in PATH. An error says how to get it.
pub fn program() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = PROGRAMS.iter().find_map(|name| {
        folders.iter().map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
    });
    found.context(
        "redis-server is not installed: run scripts/install redis, or apt-get install redis-server",
    )
}

/// Whether a server's memory may be huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HugePages {
    /// No, as Redis itself decides (`disable-thp yes`).
    Forbidden,
    /// They are asked for, as our probes do.
    Asked,
}

/// How a server is set up.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    pub program: PathBuf,
    /// Whether its memory may be huge pages.
    pub huge_pages: HugePages,
    /// A TCP port; `None`: a socket in its folder.
    pub port: Option<u16>,
    /// The CPUs for it and for others; `None`: as the scheduler likes.
    pub placement: Option<Placement>,
}

/// Who runs where: a server that shares its CPU with its clients now and then is measured with them.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    pub server: u32,
    pub others: Vec<u32>,
}

impl Placement {
    /// The first of the allowed CPUs for the server; `None` where there is no other.
    pub fn of(allowed: &[u32]) -> Option<Placement> {
        let (server, others) = allowed.split_first()?;
        (!others.is_empty()).then(|| Placement { server: *server, others: others.to_vec() })
    }

    /// Keep the calling thread, a client, from the server's CPU.
    pub fn place_client(&self) -> rustix::io::Result<()> {
        let mut set = CpuSet::new();
        self.others.iter().for_each(|cpu| set.set(*cpu as usize));
        sched_setaffinity(None, &set)
    }
}

/// A server that runs. Dropped, it and what it wrote are gone.
pub struct Server {
    child: Child,
    folder: TempDir,
    port: Option<u16>,
}

impl Server {
    /// Start it and wait until it answers.
    pub fn start(setup: &Setup) -> Result<Server> {
        if let Some(port) = setup.port {
            TcpListener::bind(("127.0.0.1", port)).with_context(|| {
                format!("port {port} cannot be had: leave --set port=… out, or name another")
            })?;
        }
        let folder = tempfile::Builder::new()
            .prefix("cowlab-redis-")
            .tempdir()
            .context("cannot make a folder for redis-server")?;
        // It must not outlive this program, however that ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&setup.program);
        command.args(arguments(setup, folder.path()));
        if setup.huge_pages == HugePages::Asked {
            // jemalloc then asks for them.
            command.env("MALLOC_CONF", "thp:always");
        }
        let said = fs::File::create(folder.path().join("said"))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said)
            .process_group(0)
            .spawn()
            .context("cannot start redis-server by setpriv (of util-linux)")?;
        let mut server = Server { child, folder, port: setup.port };
        let began = Instant::now();
        loop {
            if let Ok(mut connection) = server.connect()
                && connection.ask(&["PING"]).is_ok()
            {
                return Ok(server);
            }
            if let Some(dead) = server.death() {
                return Err(dead.context("redis-server did not start"));
            }
            if began.elapsed() > START_LIMIT {
                bail!("redis-server did not answer within {} s", START_LIMIT.as_secs());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn connect(&self) -> Result<Connection> {
        let address = match self.port {
            Some(port) => format!("redis://127.0.0.1:{port}"),
            None => format!("unix://{}", self.folder.path().join("socket").display()),
        };
        Ok(Connection::open(&Address::parse(&address)?, ANSWER_LIMIT)?)
    }

    /// `error`, or why the server is dead if it is: the same death shows in many ways.
    pub fn explain(&mut self, error: anyhow::Error) -> anyhow::Error {
        // A connection is closed before the process can be waited for.
        for _ in 0..20 {
            if let Some(dead) = self.death() {
                return dead;
            }
            if !error.chain().any(|cause| cause.is::<Error>()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        error
    }

    fn death(&mut self) -> Option<anyhow::Error> {
        let status = self.child.try_wait().ok()??;
        let said = ["log", "said"]
            .iter()
            .filter_map(|name| fs::read_to_string(self.folder.path().join(name)).ok())
            .find_map(|text| Some(text.lines().rfind(|line| !line.trim().is_empty())?.to_owned()));
        let hint = match std::os::unix::process::ExitStatusExt::signal(&status) {
            Some(9) => " (out of memory?)",
            _ => "",
        };
        let said = said.map_or_else(String::new, |line| format!("; it last said: {line}"));
        Some(anyhow!("redis-server ended: {status}{hint}{said}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its group: a snapshot's child is in it.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

fn arguments(setup: &Setup, folder: &Path) -> Vec<String> {
    let yes = |on: bool| if on { "yes" } else { "no" }.to_owned();
    let path = |name: &str| folder.join(name).display().to_string();
    let mut all = vec![
        ("--port", setup.port.unwrap_or(0).to_string()),
        ("--bind", "127.0.0.1".to_owned()),
        ("--unixsocket", path("socket")),
        ("--dir", folder.display().to_string()),
        ("--logfile", path("log")),
        ("--loglevel", "warning".to_owned()),
        ("--daemonize", yes(false)),
        // Snapshots are taken when the plan says so, and not by Redis itself.
        ("--save", String::new()),
        ("--appendonly", yes(false)),
        ("--auto-aof-rewrite-percentage", "0".to_owned()),
        ("--disable-thp", yes(setup.huge_pages == HugePages::Forbidden)),
    ];
    if let Some(Placement { server, others }) = &setup.placement {
        let others: Vec<String> = others.iter().map(u32::to_string).collect();
        let others = others.join(",");
        all.extend([
            ("--server_cpulist", server.to_string()),
            ("--bgsave_cpulist", others.clone()),
            ("--aof_rewrite_cpulist", others),
        ]);
    }
    all.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_redis_does_by_itself_is_switched_off() {
        let setup = Setup {
            program: "redis-server".into(),
            huge_pages: HugePages::Forbidden,
            port: None,
            placement: None,
        };
        let words = arguments(&setup, Path::new("/x")).join(" ");
        for expected in ["--port 0", "--save  ", "--disable-thp yes", "--unixsocket /x/socket"] {
            assert!(words.contains(expected), "{expected}: {words}");
        }
        assert!(!words.contains("cpulist"));
        let placement = Placement::of(&[2, 5, 7]);
        let huge = Setup { huge_pages: HugePages::Asked, port: Some(7000), placement, ..setup };
        let words = arguments(&huge, Path::new("/x")).join(" ");
        assert!(words.contains("--disable-thp no") && words.contains("--port 7000"), "{words}");
        assert!(words.contains("--server_cpulist 2 --bgsave_cpulist 5,7"), "{words}");
        assert_eq!(Placement::of(&[3]), None);
    }
}
