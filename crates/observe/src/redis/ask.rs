// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What somebody's redis-server says of its snapshots and replicas. It is only asked.

use std::time::Duration;

use anyhow::{Context, Result};
use cowlab_machine::verdict::Replication;
use cowlab_model::advice::Server;
use cowlab_store::without_user;

use super::{Address, Connection};

const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// The server's process, as it tells itself: a number of its own machine or container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerProcess {
    pub pid: u64,
    pub uptime_s: u64,
    pub executable: Option<String>,
}

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// `None` where it does not say.
    pub process: Option<ServerProcess>,
    /// How long its last fork stopped it, by its own clock (latest_fork_usec); `None` before the first.
    pub last_fork_ns: Option<u64>,
    pub replication: Replication,
    pub server: Option<Server>,
}

/// What the server at `address` (`redis://host:port`, `unix:///path`) says.
pub fn ask(address: &str) -> Result<Asked> {
    let no_answer = || {
        let address = without_user(address);
        format!("no Redis answers at {address}: give redis://[:PASSWORD@]HOST:PORT or unix:///PATH")
    };
    let opened = Address::parse(address).and_then(|at| Connection::open(&at, ANSWER_LIMIT));
    let mut server = opened.with_context(no_answer)?;
    let info = server.info("default").with_context(no_answer)?;
    let number = |key: &str| info.number(key);
    // Asked of servers on which CONFIG is forbidden, that is an answer too.
    let buffers = server.setting("client-output-buffer-limit");
    let diskless = server.setting("repl-diskless-sync");
    let replication = Replication {
        // 0 where the server has made no snapshot yet.
        last_cow_bytes: number("rdb_last_cow_size").filter(|bytes| *bytes > 0),
        replicas: number("connected_slaves"),
        replica_buffer_bytes: buffers.as_deref().and_then(replica_limit),
        diskless: diskless.map(|text| text == "yes"),
        max_memory_bytes: number("maxmemory"),
        used_memory_bytes: number("used_memory"),
    };
    let last_fork_ns =
        number("latest_fork_usec").filter(|us| *us > 0).map(|us| us.saturating_mul(1000));
    let process = number("process_id").zip(number("uptime_in_seconds"));
    let executable = info.text("executable").map(str::to_owned);
    let process = process.map(|(pid, uptime_s)| ServerProcess { pid, uptime_s, executable });
    let method = server.setting("bgsave-default-method");
    let saves_without_fork = method.map(|method| method == "forkless");
    let version = |key: &str| info.text(key).and_then(version);
    let server = match (version("valkey_version"), version("redis_version")) {
        (Some(version), _) => Some(Server { is_valkey: true, version, saves_without_fork }),
        (None, Some(version)) => Some(Server { is_valkey: false, version, saves_without_fork }),
        (None, None) => None,
    };
    Ok(Asked { process, last_fork_ns, replication, server })
}

/// The first two numbers of `9.2.0-rc1`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().split('.').map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// Of `normal 0 0 0 slave 268435456 67108864 60 pubsub …` the hard limit of replicas.
fn replica_limit(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    words.find(|word| matches!(*word, "slave" | "replica"))?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_two_numbers() {
        assert_eq!(version("9.2.0-rc1"), Some((9, 2)));
        assert_eq!(version("255.255.255"), Some((255, 255)));
        assert_eq!(version("unstable"), None);
    }

    #[test]
    fn the_hard_limit_of_replicas() {
        let text = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";
        assert_eq!(replica_limit(text), Some(268_435_456));
        assert_eq!(replica_limit("normal 0 0 0 replica 0 0 0"), Some(0));
        assert_eq!(replica_limit("normal 0 0 0"), None);
        assert_eq!(replica_limit(""), None);
    }
}
