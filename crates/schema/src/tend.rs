// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tend`: a forking process kept in huge pages.

use crate::bench::bench;
use crate::choice::choices;
use crate::{Quantile, Text};

choices! {
    /// Which program forks.
    Program, "program", {
        /// redis-server, under updates, with a snapshot now and then
        Redis = "redis",
        /// a pre-forking Python server, whose workers end and are replaced
        Prefork = "prefork",
        /// PostgreSQL, to which many connections are made
        Postgres = "postgres",
    }
}

choices! {
    /// What keeps the memory of a forking process in huge pages, or does not.
    Policy, "policy", {
        /// 4 KiB pages, and nobody changes that
        Untended = "untended",
        /// 4 KiB pages to begin with, and `cowlab tend`
        Tended = "tended",
        /// the program asks for huge pages for all of its memory; nobody repairs them
        Thp = "thp",
        /// the same, and `cowlab tend`
        ThpTended = "thp+tended",
        /// all of its memory has pages of 64 KiB, by the machine's setting
        Mthp = "mthp",
        /// the same, and `cowlab tend`
        MthpTended = "mthp+tended",
        /// it asks for huge pages, and the kernel's own thread repairs them as fast as it can
        Khugepaged = "khugepaged",
        /// a DAMON scheme that asks for huge pages
        Damon = "damon",
    }
}

choices! {
    /// Which requests.
    Part, "part", {
        /// those outside of snapshots
        Outside = "outside",
        /// of these, those that met no CPU time given to others
        Undisturbed = "undisturbed",
        /// of these, those that came while regions were collapsed
        Tending = "tending",
        /// those that met a snapshot
        Snapshot = "snapshot",
    }
}

choices! {
    /// In which state the memory is.
    State, "state", {
        /// as it is
        Now = "now",
        /// as tending would leave it
        After = "after",
    }
}

bench! {
    /// A forking program tended and untended: its stops, latencies and memory over many forks; and
    /// lines of the verb
    "tend";

    /// One program, and how it is tended.
    cell Tended {
        /// Which program forks
        program: Program = Program::Redis, flag;
        /// What keeps its memory in huge pages
        policy: Policy = Policy::Untended, flagged("tending"), sweep("untended,tended,thp");
        /// Memory of redis's records, roughly, or what the Python server loads
        size_bytes: u64 = 1536 << 20, flag, size;
        /// Rate of redis's updates, as a share of the most that one in base pages answers
        load: f64 = 0.5, flag, within(0.001, 1.0);
        /// Seconds from one snapshot to the next
        interval_s: f64 = 60.0, flagged("snapshot_every_s"), within(0.001, 1e9);
        /// Exponent of Zipf's law by which records are chosen
        zipf_alpha: f64 = 1.0, set, within(0.0, 3.0);
        /// Clients of redis, workers of the Python server, or tens of connections to PostgreSQL
        clients: u32 = 4, set, within(1.0, 64.0);
        /// Updates that a client of redis sends at a time: with one, clients on one CPU are the limit
        pipeline: u32 = 8, set, within(1.0, 1000.0);
        /// Give the server, its children and the clients CPUs of their own
        pinned: bool = true, set;
        /// Snapshots of redis, or forks of the Python server
        snapshots: u32 = 20, flag, within(1.0, 1000.0), unstored;
        /// tend's --budget-us; 0: what it has by itself
        budget_us: u64 = 0, set, within(0.0, 1e6), unstored;
        /// tend's cpu_share
        cpu_share: f64 = 0.05, set, within(0.001, 1.0), unstored;
        /// Have tend ask redis for its latency while it collapses
        ping: bool = false, set, unstored;
        /// Leave the kernel to report free memory to the hypervisor; without, it is put back after
        /// the run
        page_reporting: bool = true, set, unstored;
        /// Seed of the choice of records
        seed: u64 = 0, unstored;
    }

    parts {
        /// Of the verb: the process
        pid: u32;
        /// Of the verb: its name
        name: Text;
        /// Of the verb
        state: State;
        /// Records of redis
        records: u64;
        /// Workers of the Python server
        workers: u32;
        /// Requests of a worker
        requests: u32;
        /// Connections to PostgreSQL at once
        connections: u32;
        /// The snapshot's number
        snapshot: u64;
        /// Of the requests
        part: Part;
        /// Of a distribution
        quantile: Quantile;
    }

    metrics {
        /// A fork, by the program's own measure; of the verb, the forecast of the next one
        fork_ns: ns;
        /// The forecast's lower end
        fork_low_ns: ns;
        /// Its upper end
        fork_high_ns: ns;
        /// What was predicted of the first fork
        predicted_fork_ns: ns;
        /// A snapshot, from its request to its end
        snapshot_ns: ns;
        /// From the intended start of an update to its answer, by quantile
        latency_ns: ns;
        /// Updates answered a second
        throughput_per_s: per_s;
        /// Updates a second that were to be sent
        intended_per_s: per_s;
        /// How much later than intended a request was sent, by quantile
        late_ns: ns;
        /// CPU time of the server by the phase's time
        server_cpu_fraction: fraction;
        /// CPU time that a hypervisor gave to others
        stolen_ns: ns;
        /// Share of the updates that met no stolen time
        undisturbed_fraction: fraction;
        /// Updates a second that a closed loop gets answered
        most_per_s: per_s;
        /// CPU time of the server by the loop's time
        most_server_cpu_fraction: fraction;
        /// Memory copied during a snapshot
        cow_bytes: bytes;
        /// Resident memory of the server between snapshots
        rss_bytes: bytes;
        /// Memory charged to its group between snapshots
        group_bytes: bytes;
        /// The most that was charged to it
        group_peak_bytes: bytes;
        /// CPU time of tend's first pass
        first_pass_cpu_ns: ns;
        /// CPU time of tend meanwhile; of the verb, what tending would take
        tending_cpu_ns: ns;
        /// The same by the time
        tending_cpu_fraction: fraction;
        /// From a snapshot's end until all was huge again
        restored_ns: ns;
        /// The longest time that a call held the program up
        stall_max_ns: ns;
        /// The longest call
        call_max_ns: ns;
        /// A request of the Python server's worker, by quantile
        request_ns: ns;
        /// Memory of the server and its workers, what is shared counted once
        pss_sum_bytes: bytes;
        /// A connection to PostgreSQL, by quantile
        connect_ns: ns;
        /// Of the verb: pages that are not in huge ones
        small_pages: pages;
        /// Regions that are huge
        huge_regions: regions;
        /// Regions that could be
        candidate_regions: regions;
        /// Regions with too few pages
        sparse_regions: regions;
        /// Regions that were made huge
        collapsed_regions: regions;
        /// What making one huge takes
        collapse_ns: ns;
        /// What making all of them huge takes
        tending_ns: ns;
        /// How long a call held the program up, by quantile
        stall_ns: ns;
        /// CPU time of tend
        cpu_ns: ns;
        /// Of that, or of what tending would take, what warms huge pages and reads the target's
        warming_cpu_ns: ns;
        /// Forks that were seen
        forks: forks;
    }
}
