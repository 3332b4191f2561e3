// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `footprint`: the application profile.

use crate::bench::bench;
use crate::{Text, Writer};

bench! {
    /// What a program maps and writes between two moments
    "footprint";

    parts {
        /// The program
        program: Text;
        /// Between which moments: run, fork-to-exit, fork-to-exec, marks, interval
        span: Text;
        /// Whose writes
        writer: Writer;
        /// How it was seen: faults, exclusive, soft-dirty, uffd, snapshot
        method: Text;
        /// The kind of mapping, or all
        mapping: Text;
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
        /// Blocks of 64 bytes that changed
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
