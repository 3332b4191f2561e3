// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `redis`: CCoW's second benchmark (2022).

use crate::bench::bench;
use crate::choice::choices;
use crate::{Policy, Quantile, Text};

choices! {
    /// How a phase of updates is snapshotted.
    Snapshots, "snapshots", {
        /// not at all
        None = "none",
        /// BGSAVE
        Save = "bgsave",
        /// BGREWRITEAOF
        Rewrite = "aof-rewrite",
    }
}

choices! {
    /// Which requests.
    Part, "part", {
        /// all of them
        All = "all",
        /// those that met a snapshot
        Snapshot = "snapshot",
        /// the others
        Outside = "outside",
    }
}

/// The load of a closed loop, in which each client sends when it has its answer.
pub const CLOSED: &str = "closed";

/// The load of a server that is only populated.
pub const POPULATED: &str = "populated";

bench! {
    /// A real redis-server that takes snapshots under YCSB's updates: CCoW's second benchmark (2022)
    "redis";

    /// What one server stores and how it is updated.
    cell Store {
        /// What the kernel copies at a fault
        policy: Policy = Policy::Stock, flag;
        /// Size of the pages that its memory may be made of
        page_size_bytes: u64 = 4096, flag, size, by_machine("the base page");
        /// Memory of the records, roughly (CCoW: 10 GB)
        size_bytes: u64 = 0, flag, size, unstored,
            by_machine("a 64th of what is free, as a power of two");
        /// Records
        records: u64 = 0;
        /// Updates of each phase for each record
        turnovers: f64 = 10.0, flag, within(0.1, 10_000.0), unstored;
        /// Updates of a phase
        updates: u64 = 0, unstored;
        /// Exponent of Zipf's law by which records are chosen
        zipf_alpha: f64 = 1.0, set, within(0.0, 3.0);
        /// Clients, each with one request under way
        clients: u32 = 4, flag, within(1.0, 256.0);
        /// Updates of a request, sent and answered at once
        pipeline: u32 = 1, set, within(1.0, 1000.0);
        /// Give the server's first CPU to itself, and children and clients the others
        pinned: bool = true, set;
        /// Snapshots of each phase that takes any
        snapshots: u32 = 3, flag, within(1.0, 100.0), unstored;
        /// A TCP port of this machine instead of a socket in the server's folder; 0: none
        port: u32 = 0, set, within(0.0, 65535.0), unstored;
        /// Seed of the choice of records
        seed: u64 = 0, unstored;
    }

    parts {
        /// How the phase is snapshotted
        snapshots as kind: Snapshots;
        /// closed, populated, or the rate as a share of what a server of base pages answers at most
        load: Text;
        /// Of a distribution
        quantile: Quantile;
        /// Of the requests
        part: Part;
        /// Milliseconds since the fork
        since_fork_ms: i64;
    }

    metrics {
        /// The phase
        elapsed_ns: ns;
        /// Updates that were answered
        updates as answered: updates;
        /// Of them, those that the server counted
        served_updates: updates;
        /// Records of the populated server
        records as stored: records;
        /// What it says its memory is
        used_bytes: bytes;
        /// What it says is resident
        resident_bytes: bytes;
        /// Updates a second that were to be sent
        intended_per_s: per_s;
        /// Updates answered a second
        throughput_per_s: per_s;
        /// The same during snapshots
        snapshot_throughput_per_s: per_s;
        /// How much later than intended a request was sent, by quantile
        late_ns: ns;
        /// CPU time of the server by the phase's time
        server_cpu_fraction: fraction;
        /// CPU time that a hypervisor gave to others
        stolen_ns: ns;
        /// From the intended start of an update to its answer, by quantile
        latency_ns: ns;
        /// The same by the time since the fork
        around_fork_ns: ns;
        /// Snapshots that were taken
        snapshots as taken: snapshots;
        /// The fork, by the server's own measure
        fork_ns: ns;
        /// A snapshot, from its request to its end
        snapshot_ns: ns;
        /// Memory copied during a snapshot, as its child says in the end
        cow_bytes: bytes;
        /// The most that was told while it ran
        cow_peak_bytes: bytes;
        /// Resident memory of server and child, what is shared counted once
        pss_sum_bytes: bytes;
        /// The same, counted twice
        rss_sum_bytes: bytes;
        /// The server's memory in huge pages when the phase began
        huge_bytes: bytes;
        /// On a patched kernel: copy-on-write faults
        cow_faults: faults;
        /// Pages copied ahead of a write
        precopy_pages: pages;
        /// Of them, those that were written later
        precopy_written: pages;
        /// Of them, those that never were
        precopy_wasted: pages;
    }
}
