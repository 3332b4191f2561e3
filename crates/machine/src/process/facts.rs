// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process before its next fork.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use procfs_core::process::{Limits, Status};
use serde::Serialize;

use crate::cgroup::{self, Cgroup};
use crate::limits::{CAP_SYS_ADMIN, CAP_SYS_RESOURCE, Credentials, ResourceLimits};
use crate::process::error::ProcessError;
use crate::process::mappings::{self, Mapping, Smaps};
use crate::root::{ReadError, Reader, Root};

/// A process as fork sees it (proc_pid_status(5), proc_pid_smaps(5)); sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ProcessFacts {
    pub pid: i32,
    pub name: String,
    /// Its real user, whose tasks RLIMIT_NPROC counts.
    pub uid: u32,
    pub credentials: Credentials,
    /// Whether it is in the initial user namespace, where capabilities lift limits; `None` if that may
    /// not be read.
    pub in_first_user_namespace: Option<bool>,
    pub threads: u64,
    pub resident_bytes: Option<u64>,
    /// VmHWM: the most that it had resident.
    pub peak_bytes: Option<u64>,
    /// RssShmem: shared memory, which workers have in common.
    pub shared_memory_bytes: Option<u64>,
    /// VmPin: held for devices (RDMA, io_uring), and copied inside fork.
    pub pinned_bytes: Option<u64>,
    /// Whether its children would belong to a pid namespace that has no init.
    pub children_lack_init: bool,
    pub virtual_bytes: Option<u64>,
    pub page_tables_bytes: Option<u64>,
    /// Page tables that a child's mappings may need.
    pub inherited_tables_bytes: u64,
    /// Resident anonymous pages that a child shares until either writes.
    pub anonymous_bytes: u64,
    /// Swapped pages; a write after fork brings each back as a copy.
    pub swapped_bytes: Option<u64>,
    /// The part of `anonymous_bytes` in PMD-mapped huge pages.
    pub huge_bytes: Option<u64>,
    /// The part of `anonymous_bytes` that asked for huge pages (MADV_HUGEPAGE).
    pub advised_bytes: u64,
    pub private_dirty_bytes: Option<u64>,
    pub private_clean_bytes: Option<u64>,
    /// Private hugetlb pages in mappings that a child gets.
    pub hugetlb_bytes: Option<u64>,
    /// Locked memory in mappings that a child gets: swap cannot take it from the parent.
    pub locked_bytes: Option<u64>,
    /// All of them, which vm.max_map_count limits.
    pub mappings: u64,
    /// Mappings that a child gets: fork copies them one by one.
    pub inherited_mappings: u64,
    pub inherited_anonymous_mappings: u64,
    /// Mappings with MADV_DONTFORK.
    pub not_inherited_bytes: u64,
    /// Their addresses, joined where they touch.
    #[serde(skip)]
    pub not_inherited: Vec<Range<u64>>,
    /// What it has to itself of mappings of memory files (memfd), and what the files hold beside that; `None` where the files may not be looked at.
    pub private_of_memory_files_bytes: u64,
    pub memory_files_bytes: Option<u64>,
    /// Mappings with MADV_WIPEONFORK, which a child gets empty.
    pub wiped_bytes: u64,
    /// What fork promises a child: private writable mappings, resident or not.
    pub accounted_bytes: u64,
    /// The largest of them: the overcommit heuristic judges one at a time.
    pub largest_accounted_bytes: u64,
    /// Private writable mappings with MAP_NORESERVE: nothing is promised for them.
    pub unpromised_bytes: u64,
    /// Whether it may have transparent huge pages.
    pub thp_enabled: Option<bool>,
    /// `None` if they could not be read.
    pub limits: Option<ResourceLimits>,
    /// Tasks of its user, counted only if RLIMIT_NPROC applies to it; a lower bound if processes are
    /// hidden.
    pub user_tasks: Option<u64>,
    pub cgroup: Cgroup,
}

/// Files of memory that are looked at.
const MOST_FILES: usize = 256;

/// The initial user namespace (PROC_USER_INIT_INO of include/linux/proc_ns.h).
const FIRST_USER_NAMESPACE: &str = "user:[4026531837]";

impl ProcessFacts {
    pub fn probe(root: &Root, pid: i32) -> Result<ProcessFacts, ProcessError> {
        let folder = format!("proc/{pid}");
        if !root.exists(&folder) {
            return Err(ProcessError::NoSuchProcess { pid });
        }
        let gone = || ProcessError::Vanished { pid };
        let status: Status = root
            .parse(&format!("{folder}/status"))
            .map_err(|e| failed(pid, 0, e))?
            .ok_or_else(gone)?;
        if status.vmsize.is_none() {
            return Err(ProcessError::NoMemory { pid, name: status.name });
        }
        let mut facts = ProcessFacts {
            pid,
            uid: status.ruid,
            credentials: Credentials::from(&status),
            threads: status.threads,
            resident_bytes: status.vmrss.map(|kib| kib * 1024),
            peak_bytes: status.vmhwm.map(|kib| kib * 1024),
            shared_memory_bytes: status.rssshmem.map(|kib| kib * 1024),
            pinned_bytes: status.vmpin.map(|kib| kib * 1024),
            virtual_bytes: status.vmsize.map(|kib| kib * 1024),
            page_tables_bytes: status.vmpte.map(|kib| kib * 1024),
            thp_enabled: status.thp_enabled,
            name: status.name,
            ..ProcessFacts::default()
        };
        let mappings = read_mappings(root, pid, facts.uid)?;
        facts.add_mappings(&mappings);
        facts.add_memory_files(root, &mappings);
        let link = |name: &str| std::fs::read_link(root.path(format!("{folder}/ns/{name}")));
        let reader = Reader::new(root);
        facts.children_lack_init =
            link("pid").ok().zip(link("pid_for_children").ok()).is_some_and(|(own, childrens)| {
                own != childrens && !has_processes(&reader, &childrens)
            });
        facts.in_first_user_namespace =
            link("user").ok().map(|link| link.as_os_str() == FIRST_USER_NAMESPACE);
        let limits: Option<Limits> = reader.parse(&format!("{folder}/limits"));
        facts.limits = limits.as_ref().map(ResourceLimits::from);
        facts.cgroup = cgroup::probe(&reader, &pid.to_string());
        if facts.processes_limit().is_some() {
            facts.user_tasks = Some(user_tasks(&reader, facts.uid));
        }
        Ok(facts)
    }

    /// RLIMIT_NPROC if it applies: root, CAP_SYS_RESOURCE and CAP_SYS_ADMIN are exempt.
    pub fn processes_limit(&self) -> Option<u64> {
        let exempt = self.uid == 0
            || self.credentials.has(CAP_SYS_RESOURCE)
            || self.credentials.has(CAP_SYS_ADMIN);
        // A container's root has them in its own namespace only (copy_process of kernel/fork.c).
        let exempt = exempt && self.in_first_user_namespace != Some(false);
        self.limits.as_ref()?.processes.filter(|_| !exempt)
    }

    /// Of private mappings of memory files: each page that was written is there twice, once in the file.
    fn add_memory_files(&mut self, root: &Root, all: &[Mapping]) {
        let is_of_memory =
            |of: &&Mapping| of.name.as_deref().is_some_and(|name| name.starts_with("/memfd:"));
        let private = all.iter().filter(is_of_memory);
        let private = private.filter(|of| !of.is_shared && of.is_writable && of.inode != 0);
        let mut files = BTreeMap::new();
        for of in private.take(MOST_FILES) {
            let anonymous = of.details.as_ref().and_then(|details| details.anonymous_bytes);
            self.private_of_memory_files_bytes += anonymous.unwrap_or(0);
            let Range { start, end } = of.range;
            let file = root.path(format!("proc/{}/map_files/{start:x}-{end:x}", self.pid));
            files.insert(of.inode, std::fs::metadata(file).ok().map(|of| of.blocks() * 512));
        }
        self.memory_files_bytes = files.into_values().sum();
    }

    fn add_mappings(&mut self, all: &[Mapping]) {
        let details: Vec<Smaps> =
            all.iter().map(|mapping| mapping.details.clone().unwrap_or_default()).collect();
        // The smallest is the base page: hugetlb mappings have larger ones.
        let sizes = details.iter().filter_map(|details| details.page_size_bytes);
        let smallest = sizes.filter(|size| *size >= 8).min();
        let page_bytes = smallest.unwrap_or_else(|| rustix::param::page_size() as u64);
        let add = |sum: &mut Option<u64>, bytes: Option<u64>| {
            if let Some(bytes) = bytes {
                *sum = Some(sum.unwrap_or(0) + bytes);
            }
        };
        for (mapping, smaps) in all.iter().zip(&details) {
            let size = mapping.bytes();
            self.mappings += 1;
            add(&mut self.private_dirty_bytes, smaps.private_dirty_bytes);
            add(&mut self.private_clean_bytes, smaps.private_clean_bytes);
            if smaps.has(b"dc") {
                self.not_inherited_bytes += size;
                match self.not_inherited.last_mut() {
                    Some(last) if last.end == mapping.range.start => last.end = mapping.range.end,
                    _ => self.not_inherited.push(mapping.range.clone()),
                }
                continue;
            }
            self.inherited_mappings += 1;
            let is_written = !mapping.is_shared && mapping.is_writable;
            // `ac`, or without VmFlags what the kernel accounts by default.
            let accounted = smaps.has(b"ac") || (smaps.flags.is_empty() && is_written);
            if accounted {
                self.accounted_bytes += size;
                self.largest_accounted_bytes = self.largest_accounted_bytes.max(size);
            }
            if !accounted && is_written && smaps.has(b"nr") {
                self.unpromised_bytes += size;
            }
            if smaps.has(b"wf") {
                self.wiped_bytes += size;
                continue;
            }
            if mapping.is_shared {
                continue;
            }
            let anonymous = smaps.anonymous_bytes.unwrap_or(0);
            let swapped = smaps.swapped_bytes.unwrap_or(0);
            self.anonymous_bytes += anonymous;
            self.advised_bytes += if smaps.has(b"hg") { anonymous } else { 0 };
            add(&mut self.swapped_bytes, smaps.swapped_bytes);
            add(&mut self.huge_bytes, smaps.huge_bytes);
            add(&mut self.hugetlb_bytes, smaps.hugetlb_bytes);
            add(&mut self.locked_bytes, smaps.locked_bytes);
            if anonymous + swapped > 0 {
                self.inherited_anonymous_mappings += 1;
                // One page of a table maps page/8 pages; there are no more tables than present pages.
                let spanned = size.div_ceil(page_bytes * (page_bytes / 8)) + 1;
                let present = (anonymous + swapped).div_ceil(page_bytes);
                self.inherited_tables_bytes += spanned.min(present) * page_bytes;
            }
        }
    }
}

fn failed(pid: i32, uid: u32, error: ReadError) -> ProcessError {
    match error {
        ReadError::Io { path, source } if source.kind() == io::ErrorKind::PermissionDenied => {
            ProcessError::NoPermission { pid, path, uid }
        }
        ReadError::Io { source, .. }
            if source.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) =>
        {
            ProcessError::Vanished { pid }
        }
        other => ProcessError::Read(other),
    }
}

fn read_mappings(root: &Root, pid: i32, uid: u32) -> Result<Vec<Mapping>, ProcessError> {
    let file = format!("proc/{pid}/smaps");
    match root.read(&file).map_err(|error| failed(pid, uid, error))? {
        Some(text) if text.is_empty() => Err(ProcessError::Vanished { pid }),
        Some(text) => Ok(mappings::parse(&root.path(file), &text)?),
        None if root.exists(format!("proc/{pid}/status")) => {
            Err(ProcessError::Unsupported { path: root.path(file) })
        }
        None => Err(ProcessError::Vanished { pid }),
    }
}

/// Whether a pid namespace has a process: with its init all others have ended. One that may not be looked at could be
/// it, if it is in an inner namespace.
fn has_processes(reader: &Reader<'_>, namespace: &Path) -> bool {
    let pids = reader.names("proc").into_iter().filter(|name| name.parse::<i32>().is_ok());
    let is_in =
        |pid: String| match std::fs::read_link(reader.root.path(format!("proc/{pid}/ns/pid"))) {
            Ok(of) => of == namespace,
            Err(_) => reader.text(&format!("proc/{pid}/status")).is_some_and(|status| {
                let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
                pids.is_some_and(|pids| pids.split_ascii_whitespace().count() > 1)
            }),
        };
    pids.into_iter().any(is_in)
}

fn user_tasks(reader: &Reader<'_>, uid: u32) -> u64 {
    let pids = reader.names("proc").into_iter().filter(|name| name.parse::<i32>().is_ok());
    let status = |pid: String| -> Option<Status> {
        reader.root.parse(&format!("proc/{pid}/status")).ok().flatten()
    };
    pids.filter_map(status).filter(|status| status.ruid == uid).map(|status| status.threads).sum()
}
