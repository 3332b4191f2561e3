// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks a running program to enter a session (`struct casper_gate`).

use std::fs::{File, OpenOptions};
use std::mem::offset_of;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail, ensure};
use cowlab_casper::record::{
    CASPER_GATE_ENTRIES, CASPER_GATE_MAGIC, CASPER_GATE_SLOTS, CASPER_VERSION, casper_gate,
    casper_gate_entry,
};
use cowlab_machine::SharedMemory;
use cowlab_machine::mappings::{self, Mapping};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::{geteuid, getpid};

/// A request in a user's gate. Dropped, it is withdrawn.
pub struct Request {
    memory: SharedMemory,
    file: File,
    pid: u32,
    entry: usize,
}

/// Take on the user of process `pid`, for good: its programs open what this process has open only
/// if both are the same user's. Does nothing where that is so already.
pub fn become_user_of(pid: u32) -> Result<()> {
    let owner = std::fs::metadata(format!("/proc/{pid}"))
        .map_err(|_| anyhow::anyhow!("there is no process {pid}"))?;
    let (uid, gid) = (owner.uid(), owner.gid());
    if uid == geteuid().as_raw() {
        return Ok(());
    }
    ensure!(
        geteuid().is_root(),
        "process {pid} is user {uid}'s: run as that user or as root to record it"
    );
    let (user, group) = (rustix::process::Uid::from_raw(uid), rustix::process::Gid::from_raw(gid));
    rustix::thread::set_thread_groups(&[group])?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)
        .with_context(|| format!("cannot become user {uid} to record process {pid}"))?;
    // A change of user hides /proc/self from others of that user; the program must open our memory.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)?;
    Ok(())
}

fn path_of_gate() -> PathBuf {
    format!("/dev/shm/casper.{}", geteuid().as_raw()).into()
}

/// What a process has mapped.
pub fn mappings_of(pid: u32) -> Result<Vec<Mapping>> {
    let path = PathBuf::from(format!("/proc/{pid}/maps"));
    let text = std::fs::read(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => anyhow::anyhow!("there is no process {pid}"),
        _ => anyhow::anyhow!("{}: {error}", path.display()),
    })?;
    Ok(mappings::parse(&path, &String::from_utf8_lossy(&text))?)
}

fn maps_gate(pid: u32, gate: &Path) -> Result<bool> {
    let is_gate = |mapping: &Mapping| {
        mapping.is_shared && mapping.name.as_deref().map(Path::new) == Some(gate)
    };
    Ok(mappings_of(pid)?.iter().any(is_gate))
}

impl Request {
    /// Ask process `pid` to enter the session whose memory is at `session`.
    pub fn make(pid: u32, session: &Path) -> Result<Request> {
        let path = path_of_gate();
        ensure!(
            maps_gate(pid, &path)?,
            "process {pid} does not map {}, so it does not use libcasper (cowlab trace record \
             attaches to programs that link it; others are recorded when cowlab starts them)",
            path.display()
        );
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(&path)
            .with_context(|| format!("cannot open the gate {}", path.display()))?;
        let bytes = size_of::<casper_gate>();
        ensure!(
            file.metadata()?.len() >= bytes as u64,
            "{} is too short: remove it",
            path.display()
        );
        let memory = SharedMemory::map(&file, bytes)?;
        flock(&file, FlockOperation::LockExclusive)?;
        let entry = Self::take_entry(&memory, pid)?;
        let at = offset_of!(casper_gate, entries) + entry * size_of::<casper_gate_entry>();
        let mut text = [0u8; 56];
        let session = session.as_os_str().as_encoded_bytes();
        ensure!(session.len() < text.len(), "the session's path is too long");
        text[..session.len()].copy_from_slice(session);
        memory.write(at + offset_of!(casper_gate_entry, path), &text);
        let word = |offset: usize| memory.u32(offset);
        word(at + offset_of!(casper_gate_entry, recorder))
            .store(getpid().as_raw_nonzero().get() as u32, Ordering::Relaxed);
        word(offset_of!(casper_gate, version)).store(CASPER_VERSION, Ordering::Relaxed);
        word(offset_of!(casper_gate, magic)).store(CASPER_GATE_MAGIC, Ordering::Relaxed);
        word(at + offset_of!(casper_gate_entry, pid)).store(pid, Ordering::SeqCst);
        word(slot_of(pid)).fetch_add(1, Ordering::SeqCst);
        flock(&file, FlockOperation::Unlock)?;
        Ok(Request { memory, file, pid, entry })
    }

    /// A free entry; those of recorders that were killed are cleared first.
    fn take_entry(memory: &SharedMemory, pid: u32) -> Result<usize> {
        let mut free = None;
        for entry in 0..CASPER_GATE_ENTRIES as usize {
            let at = offset_of!(casper_gate, entries) + entry * size_of::<casper_gate_entry>();
            let target = memory.u32(at + offset_of!(casper_gate_entry, pid));
            let recorder = memory.u32(at + offset_of!(casper_gate_entry, recorder));
            let (asked, by) = (target.load(Ordering::Relaxed), recorder.load(Ordering::Relaxed));
            if asked != 0 && !Path::new(&format!("/proc/{by}")).exists() {
                target.store(0, Ordering::SeqCst);
                memory.u32(slot_of(asked)).store(0, Ordering::SeqCst);
            } else if asked == pid {
                bail!("process {pid} is being recorded already, by process {by}");
            }
            if target.load(Ordering::Relaxed) == 0 {
                free = free.or(Some(entry));
            }
        }
        free.context("this user's gate is full: too many recordings wait for their programs")
    }
}

fn slot_of(pid: u32) -> usize {
    offset_of!(casper_gate, slots) + (pid % CASPER_GATE_SLOTS) as usize * 4
}

impl Drop for Request {
    fn drop(&mut self) {
        let at = offset_of!(casper_gate, entries) + self.entry * size_of::<casper_gate_entry>();
        let _ = flock(&self.file, FlockOperation::LockExclusive);
        self.memory.u32(at + offset_of!(casper_gate_entry, pid)).store(0, Ordering::SeqCst);
        let slot = self.memory.u32(slot_of(self.pid));
        let _ = slot.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| {
            Some(count.saturating_sub(1))
        });
    }
}
