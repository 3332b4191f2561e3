// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What Rust thinks of the layout. Made from crates/observe/bpf/record.h by `make bindings`: do not edit.

use core::mem::{offset_of, size_of};

use super::bindings::*;

/// Structures: name, size, and their fields with offsets.
#[rustfmt::skip]
pub const STRUCTURES: &[(&str, usize, &[(&str, usize)])] = &[
    ("cowlab_event", size_of::<cowlab_event>(), &[
        ("time_ns", offset_of!(cowlab_event, time_ns)),
        ("begin_ns", offset_of!(cowlab_event, begin_ns)),
        ("clone_flags", offset_of!(cowlab_event, clone_flags)),
        ("kind", offset_of!(cowlab_event, kind)),
        ("tgid", offset_of!(cowlab_event, tgid)),
        ("tid", offset_of!(cowlab_event, tid)),
        ("child_tgid", offset_of!(cowlab_event, child_tgid)),
        ("comm", offset_of!(cowlab_event, comm)),
    ]),
    ("cowlab_fault", size_of::<cowlab_fault>(), &[
        ("time_ns", offset_of!(cowlab_fault, time_ns)),
        ("address", offset_of!(cowlab_fault, address)),
        ("tgid", offset_of!(cowlab_fault, tgid)),
        ("tid", offset_of!(cowlab_fault, tid)),
        ("error_code", offset_of!(cowlab_fault, error_code)),
        ("unused", offset_of!(cowlab_fault, unused)),
    ]),
    ("cowlab_ring", size_of::<cowlab_ring>(), &[
        ("told", offset_of!(cowlab_ring, told)),
        ("unused_told", offset_of!(cowlab_ring, unused_told)),
        ("taken", offset_of!(cowlab_ring, taken)),
        ("unused_taken", offset_of!(cowlab_ring, unused_taken)),
    ]),
    ("cowlab_gib", size_of::<cowlab_gib>(), &[
        ("tgid", offset_of!(cowlab_gib, tgid)),
        ("gib", offset_of!(cowlab_gib, gib)),
    ]),
    ("cowlab_learned", size_of::<cowlab_learned>(), &[
        ("sites", offset_of!(cowlab_learned, sites)),
        ("forks", offset_of!(cowlab_learned, forks)),
        ("site", offset_of!(cowlab_learned, site)),
        ("threads", offset_of!(cowlab_learned, threads)),
        ("task_failed", offset_of!(cowlab_learned, task_failed)),
        ("task", offset_of!(cowlab_learned, task)),
    ]),
];

/// Constants and their values.
#[rustfmt::skip]
pub const CONSTANTS: &[(&str, u64)] = &[
    ("COWLAB_WRITE", COWLAB_WRITE as u64),
    ("COWLAB_WRITE_PRESENT", COWLAB_WRITE_PRESENT as u64),
    ("COWLAB_WRITE_ABSENT", COWLAB_WRITE_ABSENT as u64),
    ("COWLAB_REGION_SHIFT", COWLAB_REGION_SHIFT as u64),
    ("COWLAB_REGIONS", COWLAB_REGIONS as u64),
    ("COWLAB_TASK_BYTES", COWLAB_TASK_BYTES as u64),
    ("COWLAB_SITES", COWLAB_SITES as u64),
    ("COWLAB_FORK", COWLAB_FORK as u64),
    ("COWLAB_EXIT", COWLAB_EXIT as u64),
    ("COWLAB_EXEC", COWLAB_EXEC as u64),
    ("COWLAB_FAULTS", COWLAB_FAULTS as u64),
    ("COWLAB_WRITES_PRESENT", COWLAB_WRITES_PRESENT as u64),
    ("COWLAB_WRITES_ABSENT", COWLAB_WRITES_ABSENT as u64),
    ("COWLAB_COUNTS", COWLAB_COUNTS as u64),
    ("COWLAB_LOST_EVENTS", COWLAB_LOST_EVENTS as u64),
    ("COWLAB_LOST_FAULTS", COWLAB_LOST_FAULTS as u64),
    ("COWLAB_LOST_PROCESSES", COWLAB_LOST_PROCESSES as u64),
    ("COWLAB_LOST_REGIONS", COWLAB_LOST_REGIONS as u64),
    ("COWLAB_LOSSES", COWLAB_LOSSES as u64),
];
