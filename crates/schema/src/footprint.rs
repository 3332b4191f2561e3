// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `footprint`: the application profile.

use crate::bench::bench;
use crate::choice::choices;
use crate::{Text, Writer};

choices! {
    /// How writes are seen.
    Method, "method", {
        /// each fault with its address, by BPF: exact, and in their order
        Faults = "faults",
        /// what fork shared and is shared no longer, by the page table
        Exclusive = "exclusive",
        /// the bytes of two moments, compared
        Snapshot = "snapshot",
    }
}

choices! {
    /// Between which moments.
    Between, "span", {
        /// a program's exec and its end
        Run = "run",
        /// a fork and the child's end
        ForkToExit = "fork-to-exit",
        /// a fork and the child's exec
        ForkToExec = "fork-to-exec",
        /// two signals by which the program marks moments, or one and its end
        Marks = "marks",
        /// two times
        Interval = "interval",
    }
}

impl Between {
    /// Whether it begins with a fork.
    pub fn is_fork(self) -> bool {
        matches!(self, Between::ForkToExit | Between::ForkToExec)
    }
}

choices! {
    /// What is mapped.
    Mapping, "mapping", {
        /// brk's heap
        Heap = "heap",
        /// the first thread's stack
        Stack = "stack",
        /// private memory of no file
        Anonymous = "anonymous",
        /// a program's or library's data segment
        Data = "data",
        /// other files and shared memory
        Named = "named",
        /// the kernel's own
        Special = "special",
        /// everything together
        All = "all",
    }
}

bench! {
    /// What a program maps and writes between two moments
    "footprint";

    parts {
        /// The program
        program: Text;
        /// Between which moments
        span: Between;
        /// Whose writes
        writer: Writer;
        /// How it was seen
        method: Method;
        /// The kind of mapping, or all
        mapping: Mapping;
        /// The region's place among those of its process
        region: u64;
        /// A policy of copying ahead, in hindsight
        policy: Text;
    }

    metrics {
        /// Forks that were seen
        forks: forks;
        /// Spawns that were seen
        spawns: spawns;
        /// Spans of which nothing was seen
        unseen: spans;
        /// Spans behind the figures
        spans: spans;
        /// Their time
        duration_ns: ns;
        /// CPU time of the thread that wrote in it, where one made nine tenths of the faults
        writer_cpu_ns: ns;
        /// CPU time of the parent's other threads in it
        others_cpu_ns: ns;
        /// Pages of which nothing is known: in swap, or unreadable
        unknown_pages: pages;
        /// Of the pages that are gone, those that may have been copied before, unseen: at most so many
        freed_unseen_pages: pages;
        /// Between the last look and the end
        blind_ns: ns;
        /// One reading of the page table
        reading_ns: ns;
        /// One copy of the memory
        copy_ns: ns;
        /// Times that the program was stopped
        stops: stops;
        /// For how long, in all
        stopped_ns: ns;
        /// The longest of them
        longest_stop_ns: ns;
        /// The longest stop at an end
        longest_end_ns: ns;
        /// Write faults that were read
        write_faults: faults;
        /// Write faults that were lost
        lost_faults: faults;
        /// CPU time that seeing one takes whoever makes it
        observing_ns: ns;
        /// Pages mapped at the end
        pages_mapped: pages;
        /// Of them, pages written
        pages_written: pages;
        /// Pages written by pages mapped
        write_fraction: fraction;
        /// Pages at the beginning
        start_pages: pages;
        /// Pages that were shared and written
        cow_pages: pages;
        /// The same by the pages at the beginning
        cow_fraction: fraction;
        /// Of the pages that were shared and written, those within 16 pages of one of the 8 written before
        nearby_pages: pages;
        /// Pages that were not there before
        new_pages: pages;
        /// Pages that are there no longer
        gone_pages: pages;
        /// Pages of files
        file_pages: pages;
        /// Mappings
        vmas: mappings;
        /// Of them, those with pages of their own
        vmas_anon: mappings;
        /// Bytes that changed
        bytes_changed: bytes;
        /// Bytes that differ in the end
        bytes_differing: bytes;
        /// Blocks of 512 bytes that changed
        blocks_changed: blocks;
        /// Bytes changed by bytes mapped
        byte_write_fraction: fraction;
        /// Blocks changed by blocks mapped
        block_write_fraction: fraction;
        /// What a remote fork would send: all of it
        remote_whole_bytes: bytes;
        /// The pages that were written
        remote_pages_bytes: bytes;
        /// The bytes that changed
        remote_changed_bytes: bytes;
        /// Pages written for the first time, of a policy
        first_writes: pages;
        /// Faults that are left under it
        faults_left: faults;
        /// Pages that it copies ahead
        precopied_pages: pages;
        /// Of them, those that are written
        precopied_written_pages: pages;
        /// Their share
        hit_fraction: fraction;
    }
}
