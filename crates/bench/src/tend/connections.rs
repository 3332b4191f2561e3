// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PostgreSQL, which forks a process for each connection: how long does it take to connect, tended
//! or not?

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cowlab_probes::unix_ns;
use cowlab_schema::tend;
use cowlab_store::{Params, histogram_of};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::BENCH;
use super::policy::{self, Policy};
use super::tender::Tending;
use crate::task::{Round, Task};

/// The server's port, which only names its socket.
const PORT: u16 = 54321;
/// Of a message before the first query: they are short.
const MOST_MESSAGE_BYTES: usize = 64 << 10;
const START_LIMIT: Duration = Duration::from_secs(30);

/// One server.
#[derive(Debug, Clone, PartialEq)]
pub struct Connections {
    /// Where initdb and postgres are.
    pub programs: PathBuf,
    /// Connections at a time, all kept open.
    pub connections: u32,
    /// How often they are all made.
    pub turns: u32,
    /// Untended or tended.
    pub policy: Policy,
    /// How tend is run.
    pub tending: Tending,
}

/// Where PostgreSQL's server is: in PATH, or where Debian puts it. An error says how to get it.
pub fn programs() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    folders.extend(debian.map(|version| version.path().join("bin")));
    let has =
        |folder: &PathBuf| ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file());
    folders.into_iter().find(has).context("PostgreSQL is not installed: apt-get install postgresql")
}

impl Connections {
    fn params(&self) -> Params {
        let mut params = Params::new();
        tend::PROGRAM.put(&mut params, tend::Program::Postgres);
        tend::POLICY.put(&mut params, self.policy);
        tend::CONNECTIONS.put(&mut params, self.connections);
        params
    }
}

/// One task for each server.
pub fn tasks(cells: Vec<Connections>) -> Vec<Task> {
    let task = |cell: Connections| {
        let name = format!("{BENCH}: PostgreSQL, {}", cell.policy);
        Task::new(name, move |_, round| measure(&cell, round))
    };
    cells.into_iter().map(task).collect()
}

/// A server in a folder that goes with it. It does not run as root.
struct Server {
    child: Child,
    folder: TempDir,
    /// What it says: in no folder of the server's, where it could put a link in its place.
    said: File,
}

impl Server {
    fn start(programs: &Path, connections: u32) -> Result<Server> {
        let folder = tempfile::Builder::new().prefix("cowlab-postgres-").tempdir()?;
        let data = folder.path().join("data");
        let is_root = rustix::process::geteuid().is_root();
        // Whoever it runs as, the folder is theirs.
        let run = |program: &str| {
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL"]);
            if is_root {
                command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]);
            }
            command.arg("--").arg(programs.join(program)).current_dir(folder.path());
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command
        };
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700))?;
        if is_root {
            let user = |database: &str, key: &str| -> Option<u32> {
                let text = fs::read_to_string(database).ok()?;
                let line = text.lines().find_map(|line| line.strip_prefix(key))?;
                line.split(':').nth(1)?.parse().ok()
            };
            let uid = user("/etc/passwd", "nobody:").context("there is no user `nobody`")?;
            let gid = user("/etc/group", "nogroup:").context("there is no group `nogroup`")?;
            std::os::unix::fs::chown(folder.path(), Some(uid), Some(gid))?;
        }
        let made = run("initdb")
            .args(["--auth=trust", "--username=cowlab", "--no-sync", "-D"])
            .arg(&data)
            .output()
            .context("cannot start initdb by setpriv (of util-linux)")?;
        if !made.status.success() {
            bail!("initdb: {}", String::from_utf8_lossy(&made.stderr).trim());
        }
        let said = tempfile::tempfile()?;
        let child = run("postgres")
            .arg("-D")
            .arg(&data)
            .args(["-p", &PORT.to_string(), "-c", "listen_addresses=", "-c", "fsync=off", "-k"])
            .arg(folder.path())
            .args(["-c", &format!("max_connections={}", connections + 10)])
            .stderr(said.try_clone()?)
            .process_group(0)
            .spawn()
            .context("cannot start postgres")?;
        let mut server = Server { child, folder, said };
        let began = Instant::now();
        while server.connect().is_err() {
            if server.child.try_wait()?.is_some() || began.elapsed() > START_LIMIT {
                let mut said = String::new();
                server.said.rewind()?;
                (&server.said).take(MOST_MESSAGE_BYTES as u64).read_to_string(&mut said)?;
                bail!("postgres did not start: {}", said.lines().last().unwrap_or(""));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// A new connection, and how long it took until a query may be sent.
    fn connect(&self) -> Result<(UnixStream, u64)> {
        let socket = self.folder.path().join(format!(".s.PGSQL.{PORT}"));
        let mut startup = Vec::new();
        // Protocol 3.0 (PostgreSQL's documentation, "Message Formats": StartupMessage).
        startup.extend(0x0003_0000_u32.to_be_bytes());
        startup.extend(b"user\0cowlab\0database\0postgres\0\0");
        let began = Instant::now();
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(START_LIMIT))?;
        stream.write_all(&(startup.len() as u32 + 4).to_be_bytes())?;
        stream.write_all(&startup)?;
        loop {
            let (kind, body) = message(&mut stream)?;
            match kind {
                b'Z' => return Ok((stream, began.elapsed().as_nanos() as u64)),
                b'E' => bail!("postgres refuses: {}", String::from_utf8_lossy(&body)),
                _ => {}
            }
        }
    }
}

/// A message's kind and content.
fn message(stream: &mut impl Read) -> Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if length > MOST_MESSAGE_BYTES {
        bail!("its answer is {length} bytes long: this is no postgres");
    }
    let mut body = vec![0; length.saturating_sub(4)];
    stream.read_exact(&mut body)?;
    Ok((head[0], body))
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends its children at once (SIGQUIT: immediate shutdown).
        let _ = kill_process(Pid::from_child(&self.child), Signal::QUIT);
        for _ in 0..250 {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn measure(cell: &Connections, round: &mut Round) -> Result<()> {
    let server = Server::start(&cell.programs, cell.connections)?;
    let pid = server.child.id();
    let mut out = round.record(BENCH, cell.params(), unix_ns());
    let log = tempfile::NamedTempFile::new()?;
    let mut tend = None;
    if policy::is_tended(cell.policy) {
        // Not --once: helper processes share its memory from the beginning, and it would wait.
        tend = Some(cell.tending.start(pid, None, log.path())?);
        std::thread::sleep(Duration::from_secs(2));
    }
    out.known(tend::PREDICTED_FORK_NS, cell.tending.predict(pid)?);
    let mut took = Vec::new();
    for _ in 0..cell.turns {
        let mut open = Vec::new();
        for _ in 0..cell.connections {
            let (stream, ns) = server.connect()?;
            open.push(stream);
            took.push(ns);
        }
        drop(open);
        std::thread::sleep(Duration::from_millis(200));
    }
    out.add_distribution(tend::CONNECT_NS, &histogram_of(took));
    if let Some(tend) = tend {
        out.known(tend::TENDING_CPU_NS, tend.cpu_ns());
        tend.end(log.path())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_a_limit() {
        let read = |mut bytes: &[u8]| message(&mut bytes);
        assert_eq!(read(b"Z\0\0\0\x05I").unwrap(), (b'Z', b"I".to_vec()));
        assert!(read(b"E\xff\xff\xff\xff").unwrap_err().to_string().contains("no postgres"));
        assert!(read(b"E\0\0\0\x09abc").is_err(), "cut");
    }

    #[test]
    fn what_the_server_says_is_in_no_folder_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let programs = folder.path().join("programs");
        fs::create_dir(&programs).unwrap();
        for (name, script) in [
            ("initdb", "#!/bin/sh\nln -s \"$PWD/victim\" said\n"),
            ("postgres", "#!/bin/sh\nls >&2; exit 1\n"),
        ] {
            fs::write(programs.join(name), script).unwrap();
            fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let error = Server::start(&programs, 1).err().unwrap().to_string();
        // The link is there, and what it names was not made.
        assert!(error.ends_with("said"), "{error}");
    }
}
