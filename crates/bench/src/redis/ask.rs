// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What somebody's redis-server says of its snapshots and replicas. It is only asked.

use std::time::Duration;

use anyhow::{Result, anyhow};
use cowlab_machine::verdict::Replication;
use cowlab_model::advice::Server;
use cowlab_store::without_user;
use redis::{Client, Connection, ErrorKind, InfoDict, RedisError};

/// A server that does not answer for so long is not waited for.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The server's process, as it tells itself: a number of its own machine or container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerProcess {
    /// Its pid there.
    pub pid: u64,
    /// How long it has run.
    pub uptime_s: u64,
    /// The program's file.
    pub executable: Option<String>,
}

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// `None` where it does not say.
    pub process: Option<ServerProcess>,
    /// How long its last fork stopped it, by its own clock (latest_fork_usec); `None` before the first.
    pub last_fork_ns: Option<u64>,
    /// Its snapshots and replicas.
    pub replication: Replication,
    /// What it is.
    pub server: Option<Server>,
}

/// What the server at `address` (`redis://host:port`, `unix:///path`) says.
pub fn ask(address: &str) -> Result<Asked> {
    let no_answer = || {
        let address = without_user(address);
        format!("no Redis answers at {address}: give redis://[:PASSWORD@]HOST:PORT or unix:///PATH")
    };
    let explained = |error: RedisError| match error.kind() {
        ErrorKind::Parse => {
            anyhow!("what answers there speaks another protocol").context(no_answer())
        }
        _ => anyhow::Error::from(error).context(no_answer()),
    };
    let client = Client::open(address).map_err(explained)?;
    let mut server = client.get_connection_with_timeout(ANSWER_LIMIT).map_err(explained)?;
    server.set_read_timeout(Some(ANSWER_LIMIT))?;
    server.set_write_timeout(Some(ANSWER_LIMIT))?;
    let info: InfoDict = redis::cmd("INFO").query(&mut server).map_err(explained)?;
    let number =
        |key: &str| info.get::<String>(key).and_then(|text| text.trim().parse::<u64>().ok());
    // Asked of servers on which CONFIG is forbidden, that is an answer too.
    let buffers = setting(&mut server, "client-output-buffer-limit");
    let diskless = setting(&mut server, "repl-diskless-sync");
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
    let executable = info.get("executable");
    let process = process.map(|(pid, uptime_s)| ServerProcess { pid, uptime_s, executable });
    let method = setting(&mut server, "bgsave-default-method");
    let saves_without_fork = method.map(|method| method == "forkless");
    let version = |key: &str| info.get::<String>(key).as_deref().and_then(version);
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

fn setting(server: &mut Connection, name: &str) -> Option<String> {
    let answer: Vec<String> = redis::cmd("CONFIG").arg("GET").arg(name).query(server).ok()?;
    answer.get(1).cloned()
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
