// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How every verb names the programs that it looks at.

use std::path::Path;

use anyhow::{Result, bail};
use cowlab_machine::Stat;
use cowlab_machine::process::Target;
use cowlab_observe::redis::{Asked, ask};
use cowlab_observe::watch::Wanted;

use crate::output::say;

/// A program that runs: a PID, a NAME as `ps -o comm` shows it, a CGROUP (/sys/fs/cgroup/…), or the ADDRESS of a Redis
/// or Valkey here, which is asked as well. [`TargetWord::parse`] is the parser for a `value_name = "TARGET"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetWord {
    /// By its pid, name or control group.
    Process(Wanted),
    /// A server, by its address.
    Server(String),
}

/// How far two accounts of one process's age may be apart: it reads its configuration first.
const SAME_AGE_S: u64 = 10;

impl TargetWord {
    /// The parser for clap.
    pub fn parse(word: &str) -> Result<TargetWord, String> {
        match ["redis://", "unix://"].iter().any(|scheme| word.starts_with(scheme)) {
            true => Ok(TargetWord::Server(word.to_owned())),
            false => Wanted::parse(word).map(TargetWord::Process),
        }
    }

    /// The one process that is meant, and what the server says that was asked. Of several processes of a name
    /// it says which.
    pub fn process(&self) -> Result<(i32, Option<Asked>)> {
        match self {
            TargetWord::Process(wanted) => Ok((only(wanted)?, None)),
            TargetWord::Server(address) => {
                let asked = ask(address)?;
                Ok((local_pid(&asked)?, Some(asked)))
            }
        }
    }
}

/// The processes that are meant; of a server, the one that serves at the address.
pub fn wanted(words: &[TargetWord]) -> Result<Vec<Wanted>> {
    let wanted = |word: &TargetWord| match word {
        TargetWord::Process(wanted) => Ok(wanted.clone()),
        TargetWord::Server(_) => Ok(Wanted::Pid(word.process()?.0.cast_unsigned())),
    };
    words.iter().map(wanted).collect()
}

/// The one process that is meant. Of several of a name it says which.
fn only(wanted: &Wanted) -> Result<i32> {
    let pid = wanted.only()?;
    if let Wanted::Name(name) = wanted {
        let count = wanted.find()?.len();
        if count > 1 {
            say(&format!(
                "{count} processes are named {name}: looking at {pid}, which forks the others"
            ));
        }
    }
    Ok(pid)
}

/// The process here with the server's own number, if it has run for as long: in a container or on
/// another machine that number is somebody else's.
fn local_pid(asked: &Asked) -> Result<i32> {
    let Some(server) = &asked.process else {
        bail!("the server does not say its pid: name it by its pid")
    };
    let age_s = || -> Option<u64> {
        let target = Target::open(i32::try_from(server.pid).ok()?).ok()?;
        let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
        let uptime_s: f64 = uptime.split_whitespace().next()?.parse().ok()?;
        let started_s = target.start_ticks() / rustix::param::clock_ticks_per_second();
        Some((uptime_s as u64).saturating_sub(started_s))
    };
    let pid = server.pid;
    // It is started by this name, of which the kernel keeps 15 bytes. (Debian's is a link to another.)
    let file = server.executable.as_deref().and_then(|path| Path::new(path).file_name());
    let file = file.map(|name| name.to_string_lossy().into_owned());
    let name = Stat::read(pid).map(|stat| stat.name);
    let is_another =
        file.zip(name).is_some_and(|(file, name)| !file.as_bytes().starts_with(name.as_bytes()));
    match age_s() {
        Some(age_s) if !is_another && age_s.abs_diff(server.uptime_s) <= SAME_AGE_S => {
            Ok(pid as i32)
        }
        _ => bail!(
            "the server calls itself process {pid}, and no process {pid} here has run for as long: \
             it is in a container or on another machine; name it by its number here"
        ),
    }
}
