// SPDX-License-Identifier: Apache-2.0 OR MIT
//! tracefs: where it is mounted, and which of the events that cowlab reads are readable.

use std::fs;

use procfs_core::process::MountInfos;
use serde::Serialize;

use crate::root::Reader;

/// Events that say which system call made a process.
const CLONE_EVENTS: [&str; 4] =
    ["sys_enter_clone", "sys_enter_clone3", "sys_enter_fork", "sys_enter_vfork"];

/// A mounted tracefs (kernel: Documentation/trace/events.rst).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tracing {
    pub mount_point: String,
    /// Whether this process may read the events in it.
    pub readable: bool,
    /// Readable `syscalls/sys_enter_*` events for clone, clone3, fork and vfork.
    pub clone_events: Vec<String>,
    /// Whether `exceptions/page_fault_user` is there and readable.
    pub page_fault_event: bool,
}

/// `None` where tracefs is not mounted.
pub(crate) fn probe(reader: &Reader<'_>) -> Option<Tracing> {
    let mounts: MountInfos = reader.parse("proc/self/mountinfo")?;
    let at = |kind: &str| {
        let mount = mounts.iter().find(|mount| mount.fs_type == kind)?;
        Some(mount.mount_point.to_string_lossy().into_owned())
    };
    let mount_point = at("tracefs").or_else(|| Some(at("debugfs")? + "/tracing"))?;
    if !reader.root.exists(&mount_point) {
        return None;
    }
    let can_read = |event: &str| {
        fs::read(reader.root.path(format!("{mount_point}/events/{event}/id"))).is_ok()
    };
    let clone_events = CLONE_EVENTS.iter().filter(|event| can_read(&format!("syscalls/{event}")));
    Some(Tracing {
        readable: fs::read_dir(reader.root.path(format!("{mount_point}/events"))).is_ok(),
        clone_events: clone_events.map(|event| (*event).to_owned()).collect(),
        page_fault_event: can_read("exceptions/page_fault_user"),
        mount_point,
    })
}
