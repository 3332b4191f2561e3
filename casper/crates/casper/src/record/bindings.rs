// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The records, as C lays them out. Made from casper/include/cowlab/record.h by `make bindings`: do not edit.

#![allow(missing_docs, non_camel_case_types)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub const CASPER_EVENT_MAX: u32 = 4096;
pub const CASPER_TYPE_RESERVED: u32 = 65280;
pub const CASPER_SESSION_MAGIC: u32 = 1347633475;
pub const CASPER_VERSION: u32 = 1;
pub const CASPER_BUFFER_HEADER_BYTES: u32 = 4096;
pub const CASPER_GATE_MAGIC: u32 = 1163149639;
pub const CASPER_GATE_ENTRIES: u32 = 16;
pub const CASPER_GATE_SLOTS: u32 = 704;
pub const CASPER_DEVICE_IOCTL: u32 = 202;
pub const CASPER_FILE_MAGIC: &[u8; 9usize] = b"CASPER\r\n\0";
pub const CASPER_BYTE_ORDER: u32 = 16909060;
pub const CASPER_CHUNK_MAGIC: u32 = 1263421507;
pub const CASPER_CHUNK_MAX: u32 = 16777216;
pub const CASPER_ABSENT: u64 = u64::MAX;
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_subbuf {
    pub base_ticks: u64,
    pub first_event: u64,
    pub process: u32,
    pub pid: u32,
}
pub const CASPER_ENTER: casper_own_type = 65280;
pub const CASPER_EXIT: casper_own_type = 65281;
pub const CASPER_ENTER_ADDRESS: casper_own_type = 65282;
pub const CASPER_EXIT_ADDRESS: casper_own_type = 65283;
pub const CASPER_SWITCH: casper_own_type = 65296;
pub const CASPER_LOST: casper_own_type = 65297;
pub const CASPER_CPU: casper_own_type = 65298;
pub type casper_own_type = u32;
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_enter {
    pub event_type: u16,
    pub frame_high: u16,
    pub frame_low: u32,
    pub function: u32,
    pub call_site: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_exit {
    pub event_type: u16,
    pub unused: u16,
    pub function: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_enter_address {
    pub event_type: u16,
    pub frame_high: u16,
    pub frame_low: u32,
    pub function: u64,
    pub call_site: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_exit_address {
    pub event_type: u16,
    pub unused: u16,
    pub unused2: u32,
    pub function: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_switch {
    pub event_type: u16,
    pub unused: u16,
    pub process: u32,
    pub pid: u32,
    pub tid: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_lost {
    pub event_type: u16,
    pub unused: u16,
    pub unused2: u32,
    pub dropped: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_cpu {
    pub event_type: u16,
    pub unused: u16,
    pub cpu: u32,
}
pub const CASPER_MODE_DROP: casper_mode = 0;
pub const CASPER_MODE_OVERWRITE: casper_mode = 1;
pub const CASPER_MODE_WAIT: casper_mode = 2;
pub type casper_mode = u32;
pub const CASPER_CLOCK_CYCLES: casper_clock = 0;
pub const CASPER_CLOCK_MONOTONIC: casper_clock = 1;
pub type casper_clock = u32;
pub const CASPER_PAUSED: casper_session_state = 0;
pub const CASPER_RECORDING: casper_session_state = 1;
pub const CASPER_OVER: casper_session_state = 2;
pub type casper_session_state = u32;
#[repr(C)]
#[repr(align(64))]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_session {
    pub magic: u32,
    pub version: u32,
    pub on: u32,
    pub mode: u32,
    pub clock: u32,
    pub buffer_count: u32,
    pub buffer_bytes: u32,
    pub subbuf_bytes: u32,
    pub session_bytes: u64,
    pub meta_offset: u64,
    pub meta_bytes: u64,
    pub buffers_offset: u64,
    pub buffer_stride: u64,
    pub id: u64,
    pub pid_namespace: u64,
    pub clock_hz: u64,
    pub heartbeat: u64,
    pub meta_ready: u64,
    pub buffers_ready: u32,
    pub sleeping: u32,
    pub __bindgen_padding_0: [u8; 8usize],
    pub wanted: u32,
    pub abandoned: u32,
    pub meta_end: u64,
    pub no_buffer_events: u64,
    pub lost_meta: u64,
    pub next_process: u32,
    pub next_stream: u32,
    pub __bindgen_padding_1: [u8; 24usize],
    pub only: [u8; 2048usize],
    pub filter: [u8; 8192usize],
}
pub const CASPER_BUFFER_FREE: casper_buffer_state = 0;
pub const CASPER_BUFFER_CLAIMED: casper_buffer_state = 1;
pub const CASPER_BUFFER_CLOSED: casper_buffer_state = 2;
pub type casper_buffer_state = u32;
#[repr(C)]
#[repr(align(64))]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_buffer {
    pub state: u32,
    pub stream: u32,
    pub process: u32,
    pub pid: u32,
    pub tid: u32,
    pub level: u32,
    pub pid_namespace: u64,
    pub __bindgen_padding_0: [u8; 32usize],
    pub head: u64,
    pub reserve: u64,
    pub dropped: u64,
    pub __bindgen_padding_1: [u8; 40usize],
    pub tail: u64,
    pub __bindgen_padding_2: [u8; 56usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_gate_entry {
    pub pid: u32,
    pub recorder: u32,
    pub path: [u8; 56usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_gate {
    pub magic: u32,
    pub version: u32,
    pub unused: [u8; 248usize],
    pub entries: [casper_gate_entry; 16usize],
    pub slots: [u32; 704usize],
}
pub const CASPER_SETUP: casper_device_request = 0;
pub const CASPER_PROVIDE: casper_device_request = 1;
pub const CASPER_TURN: casper_device_request = 2;
pub const CASPER_SELECT: casper_device_request = 3;
pub const CASPER_CALIBRATE: casper_device_request = 4;
pub type casper_device_request = u32;
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_setup {
    pub version: u32,
    pub mode: u32,
    pub clock: u32,
    pub buffer_count: u32,
    pub buffer_bytes: u32,
    pub subbuf_bytes: u32,
    pub meta_bytes: u64,
    pub meta_offset: u64,
    pub buffers_offset: u64,
    pub buffer_stride: u64,
    pub session_bytes: u64,
    pub functions: u32,
    pub unused: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_select {
    pub pattern: [u8; 120usize],
    pub record: u32,
    pub matched: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_meta {
    pub size: u32,
    pub kind: u16,
    pub committed: u16,
    pub process: u32,
    pub length: u32,
}
pub const CASPER_META_PROCESS: casper_meta_kind = 1;
pub const CASPER_META_TYPE: casper_meta_kind = 2;
pub const CASPER_META_FUNCTIONS: casper_meta_kind = 3;
pub const CASPER_META_MODULE: casper_meta_kind = 4;
pub const CASPER_META_THREAD: casper_meta_kind = 5;
pub type casper_meta_kind = u32;
pub const CASPER_ORIGIN_STARTED: casper_origin = 1;
pub const CASPER_ORIGIN_FORKED: casper_origin = 2;
pub const CASPER_ORIGIN_VFORKED: casper_origin = 3;
pub const CASPER_ORIGIN_ATTACHED: casper_origin = 4;
pub type casper_origin = u32;
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_meta_process {
    pub pid: u32,
    pub parent_pid: u32,
    pub parent_process: u32,
    pub origin: u32,
    pub ticks: u64,
}
pub const CASPER_UNSIGNED: casper_field_kind = 1;
pub const CASPER_SIGNED: casper_field_kind = 2;
pub const CASPER_FLOAT: casper_field_kind = 3;
pub const CASPER_ADDRESS: casper_field_kind = 4;
pub const CASPER_TEXT: casper_field_kind = 5;
pub type casper_field_kind = u32;
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_meta_type {
    pub event_type: u16,
    pub field_count: u16,
    pub event_bytes: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_meta_field {
    pub offset: u32,
    pub size: u32,
    pub count: u32,
    pub kind: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_meta_functions {
    pub first: u32,
    pub count: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_meta_module {
    pub start: u64,
    pub end: u64,
    pub bias: u64,
    pub build_id_bytes: u32,
    pub build_id: [u8; 20usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_meta_thread {
    pub tid: u32,
    pub name: [u8; 16usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_file {
    pub magic: [u8; 8usize],
    pub byte_order: u32,
    pub version: u32,
    pub header_bytes: u32,
    pub crc: u32,
    pub mode: u32,
    pub clock: u32,
    pub buffer_bytes: u32,
    pub subbuf_bytes: u32,
    pub id: u64,
    pub first_ticks: u64,
    pub first_monotonic_ns: u64,
    pub first_realtime_ns: i64,
    pub last_ticks: u64,
    pub last_monotonic_ns: u64,
    pub event_ps: u64,
    pub call_inner_ps: u64,
    pub call_outer_ps: u64,
    pub address_inner_ps: u64,
    pub address_outer_ps: u64,
    pub finished: u32,
    pub exit_status: i32,
    pub stored_events: u64,
    pub dropped_events: u64,
    pub overwritten_events: u64,
    pub no_buffer_events: u64,
    pub disk_lost_events: u64,
    pub lost_meta: u64,
    pub processes: u32,
    pub streams: u32,
    pub command: [u8; 1024usize],
    pub unused: [u8; 2880usize],
}
pub const CASPER_CHUNK_DATA: casper_chunk_kind = 1;
pub const CASPER_CHUNK_META: casper_chunk_kind = 2;
pub const CASPER_CHUNK_END: casper_chunk_kind = 3;
pub type casper_chunk_kind = u32;
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_chunk {
    pub magic: u32,
    pub crc: u32,
    pub size: u32,
    pub kind: u32,
    pub sequence: u64,
    pub stream: u32,
    pub process: u32,
    pub pid: u32,
    pub tid: u32,
    pub level: u32,
    pub events: u32,
    pub first_event: u64,
    pub base_ticks: u64,
    pub dropped: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct casper_total {
    pub stream: u32,
    pub process: u32,
    pub stored: u64,
    pub dropped: u64,
    pub overwritten: u64,
    pub disk_lost: u64,
}
