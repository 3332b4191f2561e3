// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks a running program to enter a session (`struct casper_gate`).
//!
//! The gate belongs to its user, who may cut it short or hold its lock at any moment: it is read and
//! written, never mapped.

use std::fs::{File, OpenOptions};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cowlab_casper::record::{
    CASPER_GATE_ENTRIES, CASPER_GATE_MAGIC, CASPER_GATE_SLOTS, CASPER_VERSION, casper_gate,
    casper_gate_entry,
};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::{geteuid, getpid};
use zerocopy::{FromZeros, IntoBytes};

/// A request in a user's gate. Dropped, it is withdrawn.
pub struct Request {
    file: File,
    pid: u32,
    entry: usize,
}

pub fn path_of_gate(uid: u32) -> PathBuf {
    format!("/dev/shm/casper.{uid}").into()
}

impl Request {
    /// Ask process `pid`, which is this process's user's, to enter the session whose memory is at
    /// `session`.
    pub fn make(pid: u32, session: &Path) -> Result<Request> {
        let path = path_of_gate(geteuid().as_raw());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
            .open(&path)
            .with_context(|| format!("cannot open the gate {}", path.display()))?;
        lock(&file).with_context(|| format!("cannot lock the gate {}", path.display()))?;
        let mut gate =
            read(&file).with_context(|| format!("{} is no gate: remove it", path.display()))?;
        let mut request = Request { file, pid, entry: 0 };
        request.entry = request.take_entry(&mut gate)?;
        let mut entry = casper_gate_entry::new_zeroed();
        let session = session.as_os_str().as_encoded_bytes();
        ensure!(session.len() < entry.path.len(), "the session's path is too long");
        entry.path[..session.len()].copy_from_slice(session);
        entry.recorder = getpid().as_raw_nonzero().get().cast_unsigned();
        // In this order: a program looks at its slot, then for its number, then at the rest.
        let at = offset_of!(casper_gate, entries) + request.entry * size_of_val(&entry);
        request.put(at, entry.as_bytes())?;
        request.put(0, [CASPER_GATE_MAGIC, CASPER_VERSION].as_bytes())?;
        request.set_pid(&mut gate, request.entry, pid)?;
        flock(&request.file, FlockOperation::Unlock)?;
        Ok(request)
    }

    /// A free entry; those of recorders that were killed are cleared first.
    fn take_entry(&self, gate: &mut casper_gate) -> Result<usize> {
        let mut free = None;
        for entry in 0..CASPER_GATE_ENTRIES as usize {
            let casper_gate_entry { pid, recorder, .. } = gate.entries[entry];
            if pid != 0 && !Path::new(&format!("/proc/{recorder}")).exists() {
                self.set_pid(gate, entry, 0)?;
            } else if pid == self.pid {
                bail!("process {pid} is being recorded already, by process {recorder}");
            }
            if gate.entries[entry].pid == 0 {
                free = free.or(Some(entry));
            }
        }
        free.context("this user's gate is full: too many recordings wait for their programs")
    }

    /// Say whom an entry asks, 0 for nobody, and have those look that share its slot.
    fn set_pid(&self, gate: &mut casper_gate, entry: usize, pid: u32) -> Result<()> {
        let before = std::mem::replace(&mut gate.entries[entry].pid, pid);
        let at = offset_of!(casper_gate, entries) + entry * size_of::<casper_gate_entry>();
        self.put(at + offset_of!(casper_gate_entry, pid), pid.as_bytes())?;
        let slot = pid.max(before) % CASPER_GATE_SLOTS;
        let asked =
            gate.entries.iter().filter(|of| of.pid != 0 && of.pid % CASPER_GATE_SLOTS == slot);
        let asked = asked.count() as u32;
        self.put(offset_of!(casper_gate, slots) + slot as usize * 4, asked.as_bytes())
    }

    fn put(&self, at: usize, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, at as u64).context("cannot write to the gate")
    }
}

/// Its user may hold it locked, but not this process.
fn lock(file: &File) -> Result<()> {
    let began = Instant::now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::AGAIN) if began.elapsed() < Duration::from_secs(1) => {
                std::thread::sleep(Duration::from_millis(10));
            }
            locked => return Ok(locked?),
        }
    }
}

fn read(file: &File) -> Result<casper_gate> {
    let mut gate = casper_gate::new_zeroed();
    file.read_exact_at(gate.as_mut_bytes(), 0)?;
    Ok(gate)
}

impl Drop for Request {
    fn drop(&mut self) {
        // Where that fails, the entry is cleared by the next recorder.
        let _ = lock(&self.file).and_then(|()| self.set_pid(&mut read(&self.file)?, self.entry, 0));
    }
}
