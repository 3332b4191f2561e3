// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The records, as C lays them out. Made from crates/observe/bpf/record.h by `make bindings`: do not edit.

#![allow(missing_docs, non_camel_case_types)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub const COWLAB_SIGBUS: u32 = 7;
pub const COWLAB_SIGSEGV: u32 = 11;
pub const COWLAB_STACK_MOST: u32 = 65536;
pub const COWLAB_STACK_LEAST: u32 = 1024;
pub const COWLAB_STACK_PROBED: u32 = 16384;
pub const COWLAB_STACK_UPPER: u32 = 8192;
pub const COWLAB_EVERY_MOST: u32 = 65536;
pub const COWLAB_WRITE: u32 = 2;
pub const COWLAB_WRITE_PRESENT: u32 = 7;
pub const COWLAB_WRITE_ABSENT: u32 = 6;
pub const COWLAB_CALLS: u32 = 512;
pub const COWLAB_TASK_BYTES: u32 = 8192;
pub const COWLAB_SITES: u32 = 8;
pub const COWLAB_FORK: cowlab_event_kind = 1;
pub const COWLAB_EXIT: cowlab_event_kind = 2;
pub const COWLAB_EXEC: cowlab_event_kind = 3;
pub const COWLAB_KILLED: cowlab_event_kind = 4;
pub type cowlab_event_kind = u32;
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct cowlab_event {
    pub time_ns: u64,
    pub begin_ns: u64,
    pub clone_flags: u64,
    pub kind: u32,
    pub tgid: u32,
    pub tid: u32,
    pub child_tgid: u32,
    pub comm: [u8; 16usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct cowlab_fault {
    pub time_ns: u64,
    pub address: u64,
    pub tgid: u32,
    pub tid: u32,
    pub error_code: u32,
    pub unused: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct cowlab_copy {
    pub time_ns: u64,
    pub address: u64,
    pub ip: u64,
    pub sp: u64,
    pub fp: u64,
    pub upper: u64,
    pub tgid: u32,
    pub tid: u32,
    pub every: u32,
    pub syscall: i32,
    pub stack_bytes: u32,
    pub is_32_bit: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct cowlab_sampling {
    pub every: u32,
    pub learner: u32,
    pub copy_gfp: u32,
    pub doubling: u32,
    pub told: u32,
    pub unused: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct cowlab_ring {
    pub written: u64,
    pub unused_written: [u64; 7usize],
    pub taken: u64,
    pub unused_taken: [u64; 7usize],
}
pub const COWLAB_FAULTS: cowlab_count = 0;
pub const COWLAB_WRITES_PRESENT: cowlab_count = 1;
pub const COWLAB_WRITES_ABSENT: cowlab_count = 2;
pub const COWLAB_COPIES: cowlab_count = 3;
pub const COWLAB_TELLING_NS: cowlab_count = 4;
pub const COWLAB_COUNTS: cowlab_count = 5;
pub type cowlab_count = u32;
pub const COWLAB_LOST_EVENTS: cowlab_loss = 0;
pub const COWLAB_LOST_FAULTS: cowlab_loss = 1;
pub const COWLAB_LOST_PROCESSES: cowlab_loss = 2;
pub const COWLAB_LOST_COPIES: cowlab_loss = 3;
pub const COWLAB_LOSSES: cowlab_loss = 4;
pub type cowlab_loss = u32;
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct cowlab_learned {
    pub sites: u32,
    pub forks: u32,
    pub site: [u64; 8usize],
    pub locked: [u64; 2usize],
    pub threads: u32,
    pub task_failed: u32,
    pub task: [u8; 8192usize],
}
