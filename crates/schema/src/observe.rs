// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `observe`: what watching costs.

use crate::bench::bench;
use crate::choice::choices;

choices! {
    /// Who watches meanwhile.
    Watcher, "watcher", {
        /// nobody, twice: how far two runs of the same differ
        Alone = "alone",
        /// `watch` as it is by default: forks, exits, execs
        Events = "events",
        /// faults counted by process
        Count = "count",
        /// faults counted by 2 MiB
        Regions = "regions",
        /// every fault with its address
        Every = "every-fault",
        /// copies counted, as those that `blame` does not tell
        Counted = "copies-counted",
        /// every copy with its stack, as `blame --every 1`
        Copies = "copies",
        /// bpftrace, counting exceptions:page_fault_user
        Bpftrace = "bpftrace",
        /// perf record of the same
        Perf = "perf",
    }
}

bench! {
    /// What watching costs a program that does nothing but fault, and how well a stop is seen
    "observe";

    /// Who watches what: rows have either the memory that is written or the heap.
    cell Observed {
        /// Who watches
        watcher: Watcher = Watcher::Alone, flag,
            sweep("alone,events,count,regions,every-fault,copies-counted,copies,bpftrace,perf");
        /// Memory of which every page is copied in each repetition
        size_bytes: u64 = 64 << 20, flag, size;
        /// Heap of a program whose forks are timed from inside and outside
        heap_bytes: u64 = 16 << 20, flag, size, sweep("1MiB,16MiB,256MiB,1GiB");
        /// Forks of each heap and round
        forks: u64 = 20, flag, within(1.0, 100e3), unstored;
    }

    metrics {
        /// A fault while somebody watches
        fault_ns: ns;
        /// The same while nobody does
        alone_fault_ns: ns;
        /// One by the other
        to_alone_ratio: ratio;
        /// Faults that were seen
        seen_faults: faults;
        /// Faults that were not
        lost_faults: faults;
        /// A fork, as the program times it
        fork_ns: ns;
        /// The same stop, as it is seen
        stop_ns: ns;
        /// What of it is not seen
        unseen_ns: ns;
        /// What is seen by what there was
        stop_to_fork_ratio: ratio;
    }
}
