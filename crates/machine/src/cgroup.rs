// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits of the control groups that a process is in, versions 1 and 2 (cgroups(7)).

use std::path::Path;

use procfs_core::ProcessCGroups;
use procfs_core::process::{MountInfo, MountInfos};
use serde::Serialize;

use crate::root::{Reader, Root};

/// A version 1 limit from here on means none: the largest multiple of a page (at most 64 KiB) in an
/// i64.
const V1_UNLIMITED_BYTES: u64 = i64::MAX as u64 - 0xffff;

/// One limit on memory, at one level of the hierarchy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MemoryBound {
    pub file: String,
    pub limit_bytes: u64,
    pub usage_bytes: Option<u64>,
    /// Page cache not used recently: charged, but reclaimed before the OOM killer acts.
    pub inactive_file_bytes: Option<u64>,
}

impl MemoryBound {
    /// What can still be charged: the limit less the usage that cannot be given up.
    pub fn free_bytes(&self) -> u64 {
        let usage = self.usage_bytes.unwrap_or(0);
        let held = usage.saturating_sub(self.inactive_file_bytes.unwrap_or(0));
        self.limit_bytes.saturating_sub(held)
    }
}

/// One limit on the number of tasks, at one level of the hierarchy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TaskBound {
    /// The `pids.max` that sets it.
    pub file: String,
    pub limit: u64,
    pub current: Option<u64>,
    /// Forks that it has refused since the group was made.
    pub refused: Option<u64>,
}

/// One limit on CPU time, at one level of the hierarchy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CpuBound {
    /// The `cpu.max` or `cpu.cfs_quota_us` that sets it.
    pub file: String,
    /// CPU time in each period.
    pub quota_ns: u64,
    pub period_ns: u64,
    /// For so long tasks of the group that could run were kept from it.
    pub throttled_ns: Option<u64>,
}

/// Every limit from the process's own group up to the root of its mounts, own group first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cgroup {
    /// `memory.max` and `memory.limit_in_bytes`: beyond it the OOM killer acts.
    pub memory_max: Vec<MemoryBound>,
    /// `memory.high`: beyond it the group is slowed down and reclaimed from.
    pub memory_high: Vec<MemoryBound>,
    /// `pids.max`: beyond it fork fails with EAGAIN.
    pub tasks: Vec<TaskBound>,
    pub cpu: Vec<CpuBound>,
    /// Whether a group's limits cannot be seen: it is outside of this container's.
    pub is_hidden: bool,
}

impl Cgroup {
    /// The limits of process `pid` now; empty where they cannot be read.
    pub fn read(root: &Root, pid: i32) -> Cgroup {
        probe(&Reader::new(root), &pid.to_string())
    }

    /// The `memory.max` that leaves least.
    pub fn tightest_max(&self) -> Option<&MemoryBound> {
        self.memory_max.iter().min_by_key(|bound| bound.free_bytes())
    }

    /// The `memory.high` that leaves least.
    pub fn tightest_high(&self) -> Option<&MemoryBound> {
        self.memory_high.iter().min_by_key(|bound| bound.free_bytes())
    }

    /// The `pids.max` that leaves least.
    pub fn tightest_tasks(&self) -> Option<&TaskBound> {
        self.tasks.iter().min_by_key(|b| b.limit.saturating_sub(b.current.unwrap_or(0)))
    }
}

/// The groups of `/proc/<process>`, where `process` is a pid or `self`.
pub(crate) fn probe(reader: &Reader<'_>, process: &str) -> Cgroup {
    let mut found = Cgroup::default();
    let groups: Option<ProcessCGroups> = reader.parse(&format!("proc/{process}/cgroup"));
    let mounts: Option<MountInfos> = reader.parse("proc/self/mountinfo");
    let (Some(groups), Some(mounts)) = (groups, mounts) else { return found };
    let mut is_hidden = false;
    for group in &groups {
        let mut mounted = |kind: &str, controller: Option<&str>| {
            let fits = |mount: &&MountInfo| {
                mount.fs_type == kind
                    && controller.is_none_or(|name| mount.super_options.contains_key(name))
            };
            let mount = mounts
                .iter()
                .filter(fits)
                .find(|mount| Path::new(&group.pathname).starts_with(&mount.root))
                .or_else(|| mounts.iter().find(fits));
            let Some(mount) = mount else { return Vec::new() };
            levels(mount, &group.pathname).unwrap_or_else(|| {
                is_hidden = true;
                Vec::new()
            })
        };
        let has = |name: &str| group.controllers.iter().any(|controller| controller == name);
        if group.hierarchy == 0 && group.controllers.is_empty() {
            for folder in mounted("cgroup2", None) {
                found.memory_max.extend(memory(reader, &folder, "memory.max", "memory.current"));
                found.memory_high.extend(memory(reader, &folder, "memory.high", "memory.current"));
                found.tasks.extend(tasks(reader, &folder));
                found.cpu.extend(cpu(reader, &folder));
            }
        }
        if has("cpu") {
            for folder in mounted("cgroup", Some("cpu")) {
                found.cpu.extend(cpu(reader, &folder));
            }
        }
        if has("memory") {
            for (level, folder) in mounted("cgroup", Some("memory")).iter().enumerate() {
                // A parent that does not account for its children (before 5.11) limits only itself.
                let hierarchical = format!("{folder}/memory.use_hierarchy");
                if level > 0 && reader.number(&hierarchical) == Some(0) {
                    break;
                }
                let (limit, usage) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
                found.memory_max.extend(memory(reader, folder, limit, usage));
            }
        }
        if has("pids") {
            for folder in mounted("cgroup", Some("pids")) {
                found.tasks.extend(tasks(reader, &folder));
            }
        }
    }
    found.is_hidden = is_hidden;
    found
}

/// The folders of a group and of each group above it, up to the mount point; `None` if the group is not
/// below it.
///
/// In a container the mount's root is the container's own group; a group outside of this cgroup
/// namespace is shown as `/..`, and the mount's top does not limit that one.
fn levels(mount: &MountInfo, group: &str) -> Option<Vec<String>> {
    let inside = Path::new(group).strip_prefix(&mount.root).ok()?;
    if inside.components().any(|part| part.as_os_str() == "..") {
        return None;
    }
    let leaf = mount.mount_point.join(inside);
    let folders = leaf.ancestors().take_while(|folder| folder.starts_with(&mount.mount_point));
    Some(folders.map(|folder| folder.to_string_lossy().trim_end_matches('/').to_owned()).collect())
}

/// `max`, a version 1 "no limit" and an absent file are `None`.
fn limit(reader: &Reader<'_>, file: &str) -> Option<u64> {
    match reader.text(file)?.as_str() {
        "max" => None,
        _ => reader.number(file).filter(|limit| *limit < V1_UNLIMITED_BYTES),
    }
}

fn memory(reader: &Reader<'_>, folder: &str, name: &str, usage: &str) -> Option<MemoryBound> {
    let file = format!("{folder}/{name}");
    let limit_bytes = limit(reader, &file)?;
    // Version 1 counts the group alone without the prefix, and version 2 has no prefix.
    let prefix = if name.ends_with("_in_bytes") { "total_" } else { "" };
    let key = format!("{prefix}inactive_file ");
    let inactive_file_bytes = row(reader, folder, "memory.stat", &key);
    let usage_bytes = reader.number(&format!("{folder}/{usage}"));
    Some(MemoryBound { file, limit_bytes, usage_bytes, inactive_file_bytes })
}

fn tasks(reader: &Reader<'_>, folder: &str) -> Option<TaskBound> {
    let file = format!("{folder}/pids.max");
    let limit = limit(reader, &file)?;
    let current = reader.number(&format!("{folder}/pids.current"));
    Some(TaskBound { file, limit, current, refused: row(reader, folder, "pids.events", "max ") })
}

fn cpu(reader: &Reader<'_>, folder: &str) -> Option<CpuBound> {
    let stat = |key| row(reader, folder, "cpu.stat", key);
    let of = |name: &str| format!("{folder}/{name}");
    if let Some(text) = reader.text(&of("cpu.max")) {
        let mut numbers = text.split_whitespace().map(|number| number.parse::<u64>().ok());
        return Some(CpuBound {
            file: of("cpu.max"),
            quota_ns: numbers.next()?? * 1000,
            period_ns: numbers.next()?? * 1000,
            throttled_ns: stat("throttled_usec ").map(|us| us * 1000),
        });
    }
    // Without a limit it is -1, which is no number here.
    let quota = reader.text(&of("cpu.cfs_quota_us"))?.parse::<u64>().ok()?;
    Some(CpuBound {
        file: of("cpu.cfs_quota_us"),
        quota_ns: quota * 1000,
        period_ns: reader.number(&of("cpu.cfs_period_us"))? * 1000,
        throttled_ns: stat("throttled_time "),
    })
}

/// The number in a file that has one row for each key.
fn row(reader: &Reader<'_>, folder: &str, file: &str, key: &str) -> Option<u64> {
    let text = reader.text(&format!("{folder}/{file}"))?;
    text.lines().find_map(|line| line.strip_prefix(key)?.parse().ok())
}
