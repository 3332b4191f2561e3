// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `trace`: what events and instrumented calls cost, by tracer.

use crate::Text;
use crate::bench::bench;
use crate::choice::choices;

choices! {
    /// Whose events or calls are measured.
    Tool, "tool", {
        /// a time-stamp read and a 24-byte store
        Floor = "floor",
        /// libcasper: casrecord, and functions instrumented by `cowlab insert`
        Casper = "casper",
        /// libcasper's hooks for -finstrument-functions
        CasperFinstrument = "casper-finstrument",
        /// LTTng-UST
        LttngUst = "lttng-ust",
        /// uftrace
        Uftrace = "uftrace",
    }
}

bench! {
    /// What an event and an instrumented call cost, beside LTTng-UST and uftrace
    "trace";

    /// What is traced by whom.
    cell Traced, check {
        /// Whose events or calls
        tool: Tool = Tool::Floor, flag, sweep("floor,casper,casper-finstrument,lttng-ust,uftrace");
        /// Threads that make events at once
        threads: u32 = 1, flag, within(1.0, 64.0), sweep("1,2");
        /// Timed events of each thread in a round
        events: u64 = 800_000, set, within(8.0, 100e6), unstored;
        /// Size of a thread's ring, a power of two
        buffer_bytes: u64 = 1 << 20, set, size, within(65536.0, 1073741824.0), unstored;
        /// Give each thread a CPU of its own
        pinned: bool = true, set;
    }

    parts {
        /// What tells apart what one tool can do in several ways
        variant: Text;
        /// The tool's version
        version: Text;
        /// Events of a batch
        batch_events: u64;
    }

    metrics {
        /// An event: the median batch of each thread, and of those the slowest thread's
        event_ns: ns;
        /// The batches behind it, as a distribution
        event_batch_ns: ns;
        /// An event while nobody records
        event_off_ns: ns;
        /// The batches behind it
        event_off_batch_ns: ns;
        /// A call of a leaf, traced less plain
        call_leaf_ns: ns;
        /// The same call, traced
        call_leaf_raw_ns: ns;
        /// The batches behind it
        call_leaf_raw_batch_ns: ns;
        /// The same call, plain
        call_leaf_plain_ns: ns;
        /// The batches behind it
        call_leaf_plain_batch_ns: ns;
        /// A call in a nest of eight, traced less plain
        call_nested_ns: ns;
        /// The same call, traced
        call_nested_raw_ns: ns;
        /// The batches behind it
        call_nested_raw_batch_ns: ns;
        /// The same call, plain
        call_nested_plain_ns: ns;
        /// The batches behind it
        call_nested_plain_batch_ns: ns;
        /// A leaf's call while nobody records, instrumented less plain
        call_leaf_off_ns: ns;
        /// The same call, instrumented
        call_leaf_off_raw_ns: ns;
        /// The batches behind it
        call_leaf_off_raw_batch_ns: ns;
        /// The same call, plain
        call_leaf_off_plain_ns: ns;
        /// The batches behind it
        call_leaf_off_plain_batch_ns: ns;
        /// A nested call while nobody records, instrumented less plain
        call_nested_off_ns: ns;
        /// The same call, instrumented
        call_nested_off_raw_ns: ns;
        /// The batches behind it
        call_nested_off_raw_batch_ns: ns;
        /// The same call, plain
        call_nested_off_plain_ns: ns;
        /// The batches behind it
        call_nested_off_plain_batch_ns: ns;
        /// Events that the tracer lost
        lost_events: events;
        /// Events that are not in what it recorded
        missing_events: events;
    }
}

impl Traced {
    /// Refuse what makes no sense.
    pub fn check(&self) -> Result<(), String> {
        match self.buffer_bytes.is_power_of_two() {
            true => Ok(()),
            false => Err("buffer_bytes must be a power of two".to_owned()),
        }
    }
}
