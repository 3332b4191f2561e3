// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A session's memory: made here, mapped by each traced program (`struct casper_session`).
//!
//! Programs may write anything anywhere in it at any time. What the recorder decides by is therefore
//! kept beside the mapping, and shared words of its own are only written.

use std::cell::Cell;
use std::fs::File;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cowlab_casper::record::{
    CASPER_BUFFER_HEADER_BYTES, CASPER_CHUNK_MAX, CASPER_ENTER, CASPER_ENTER_ADDRESS, CASPER_EXIT,
    CASPER_EXIT_ADDRESS, CASPER_MODE_DROP, CASPER_MODE_OVERWRITE, CASPER_MODE_WAIT, CASPER_OVER,
    CASPER_PAUSED, CASPER_RECORDING, CASPER_SESSION_MAGIC, CASPER_VERSION, casper_session,
    casper_setup,
};
use cowlab_machine::SharedMemory;
use rustix::fs::{
    FallocateFlags, MemfdFlags, Mode, SealFlags, fallocate, fchmod, fcntl_add_seals, ftruncate,
    memfd_create,
};
use rustix::thread::futex;
use zerocopy::FromZeros;

use crate::clock::{Clock, Moment};
use crate::device;
use crate::keeper::Keeper;
use crate::target::Target;

/// What a thread's full buffer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(clap::ValueEnum))]
pub enum WhenFull {
    /// Drop what comes, and count it
    Drop,
    /// Overwrite the oldest: a flight recorder
    Overwrite,
    /// Let the program wait until there is room
    Wait,
}

impl WhenFull {
    /// `enum casper_mode`.
    pub(crate) fn code(self) -> u32 {
        match self {
            WhenFull::Drop => CASPER_MODE_DROP,
            WhenFull::Overwrite => CASPER_MODE_OVERWRITE,
            WhenFull::Wait => CASPER_MODE_WAIT,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Options {
    pub when_full: WhenFull,
    /// Bytes of one thread's ring: a power of two, 64 KiB to 1 GiB.
    pub buffer_bytes: u64,
    /// Threads that may record at the same time.
    pub buffers: u32,
    /// Event types to record, by name or number; empty: all.
    pub only: Vec<String>,
    /// Record the functions that are instrumented.
    pub functions: bool,
    /// The clock, if not the best one.
    pub clock: Option<Clock>,
    /// Record the kernel, not programs.
    pub kernel: Option<Kernel>,
}

#[derive(Debug, Clone, Default)]
pub struct Kernel {
    /// Patterns of the functions to record; none: all that are instrumented.
    pub functions: Vec<String>,
    /// Patterns of those not to record.
    pub exclude: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            when_full: WhenFull::Drop,
            buffer_bytes: 1 << 20,
            buffers: 1024,
            only: Vec::new(),
            functions: true,
            clock: None,
            kernel: None,
        }
    }
}

/// Room for metadata, given memory as it is used.
const META_BYTES: u64 = 256 << 20;
/// Room ahead of what is written, and the largest entry.
pub(crate) const META_STEP_BYTES: u64 = 1 << 20;
const META_OFFSET: u64 = 16384;
/// The kernel's has its memory at once: enough for 100,000 processes.
const KERNEL_META_BYTES: u64 = 16 << 20;
/// Buffers that have memory before anybody asks.
const FIRST_BUFFERS: u32 = 8;
/// In a kernel every task that runs takes one, and every CPU up to three.
const FIRST_KERNEL_BUFFERS: u32 = 64;

/// The memory of a recording, and the words in it.
pub struct Session {
    file: File,
    memory: SharedMemory,
    keeper: Option<Keeper>,
    pub clock: Clock,
    pub first: Moment,
    /// Random; tells it from others.
    pub id: u64,
    pub options: Options,
    pub subbuf_bytes: u64,
    /// Inode of this process's pid namespace.
    pub pid_namespace: u64,
    layout: Layout,
    buffers_ready: Cell<u32>,
    /// Bytes of metadata that have memory.
    meta_ready: Cell<u64>,
    /// What programs were told last: `enum casper_session_state`.
    told: Cell<u32>,
}

/// Where the parts of a session's memory are.
#[derive(Debug, Clone, Copy)]
struct Layout {
    meta_offset: u64,
    meta_bytes: u64,
    buffers_offset: u64,
    stride: u64,
    bytes: u64,
}

impl Session {
    /// Make the memory of a session that nobody records into yet.
    pub fn create(options: Options) -> Result<Session> {
        let range = (1 << 16)..=(1 << 30);
        ensure!(
            options.buffer_bytes.is_power_of_two() && range.contains(&options.buffer_bytes),
            "--buffer-bytes {} is not a power of two between 64 KiB and 1 GiB",
            options.buffer_bytes
        );
        ensure!(
            (1..=65536).contains(&options.buffers),
            "--buffers {} is not in 1..65536",
            options.buffers
        );
        let clock = options.clock.unwrap_or_else(Clock::choose);
        let first = clock.now();
        // An eighth: what one switch of sub-buffers loses of a flight recorder's past, and how
        // often a program that fills them wakes the recorder. A chunk of the trace holds one.
        let subbuf_bytes = (options.buffer_bytes / 8).clamp(16384, CASPER_CHUNK_MAX.into());
        let (file, layout) = match options.kernel {
            Some(_) => kernel_memory(&options, clock, subbuf_bytes)?,
            None => own_memory(&options)?,
        };
        let memory = SharedMemory::map(&file, layout.bytes as usize)
            .context("cannot map the memory of the recording: use fewer --buffers")?;
        let session = Session {
            clock,
            first,
            id: random()?,
            subbuf_bytes,
            pid_namespace: std::fs::metadata("/proc/self/ns/pid").map_or(0, |data| data.ino()),
            layout,
            file,
            memory,
            keeper: None,
            buffers_ready: Cell::new(0),
            // A kernel's has all of it at once.
            meta_ready: Cell::new(if options.kernel.is_some() { layout.meta_bytes } else { 0 }),
            told: Cell::new(CASPER_PAUSED),
            options,
        };
        let first_buffers = match &session.options.kernel {
            Some(kernel) => {
                session.select_functions(kernel)?;
                FIRST_KERNEL_BUFFERS
            }
            None => {
                session.give_memory(0, META_OFFSET)?;
                FIRST_BUFFERS
            }
        };
        session.write_header();
        session.provide_buffers(first_buffers.min(session.options.buffers))?;
        session.provide_metadata(0)?;
        Ok(session)
    }

    fn select_functions(&self, kernel: &Kernel) -> Result<()> {
        let all = kernel.functions.iter().map(|pattern| (pattern, true));
        for (pattern, record) in all.chain(kernel.exclude.iter().map(|pattern| (pattern, false))) {
            let matched = device::select(&self.file, pattern, record)?;
            ensure!(
                matched > 0 || !record,
                "--function {pattern}: no instrumented function of this kernel has such a name"
            );
        }
        Ok(())
    }

    fn write_header(&self) {
        let u32 = |offset: usize, value: u32| {
            self.memory.u32(offset).store(value, Ordering::Relaxed);
        };
        let u64 = |offset: usize, value: u64| {
            self.memory.u64(offset).store(value, Ordering::Relaxed);
        };
        macro_rules! at {
            ($field:ident) => {
                offset_of!(casper_session, $field)
            };
        }
        u32(at!(version), CASPER_VERSION);
        u32(at!(on), CASPER_PAUSED);
        u32(at!(mode), self.options.when_full.code());
        u32(at!(clock), self.clock.code());
        u32(at!(buffer_count), self.options.buffers);
        u32(at!(buffer_bytes), self.options.buffer_bytes as u32);
        u32(at!(subbuf_bytes), self.subbuf_bytes as u32);
        u64(at!(session_bytes), self.layout.bytes);
        u64(at!(meta_offset), self.layout.meta_offset);
        u64(at!(meta_bytes), self.layout.meta_bytes);
        u64(at!(buffers_offset), self.layout.buffers_offset);
        u64(at!(buffer_stride), self.layout.stride);
        u64(at!(id), self.id);
        u64(at!(pid_namespace), self.pid_namespace);
        u64(at!(clock_hz), self.clock.hz(self.first));
        self.write_filter();
        u32(at!(magic), CASPER_SESSION_MAGIC);
    }

    /// The bit of each type that is recorded, and the names whose bits programs set.
    fn write_filter(&self) {
        let own = [CASPER_ENTER, CASPER_EXIT, CASPER_ENTER_ADDRESS, CASPER_EXIT_ADDRESS];
        let mut filter = [0u8; 8192];
        if self.options.only.is_empty() {
            filter.fill(0xff);
        }
        let mut set = |number: u32, on: bool| {
            let (byte, bit) = (&mut filter[(number >> 3) as usize], 1u8 << (number & 7));
            *byte = if on { *byte | bit } else { *byte & !bit };
        };
        own.iter().for_each(|&number| set(number, self.options.functions));
        let mut names = Vec::new();
        for name in &self.options.only {
            match type_number(name) {
                Some(number) => set(number.into(), true),
                None => names.extend_from_slice(&[name.as_bytes(), b"\0"].concat()),
            }
        }
        names.truncate(2047);
        self.memory.write(offset_of!(casper_session, only), &names);
        self.memory.write(offset_of!(casper_session, filter), &filter);
    }

    /// Where a program finds the memory, in its variable `CASPER_SESSION`. The file has no name:
    /// it is gone when its last user is, however that ended.
    pub fn path(&self) -> PathBuf {
        let own = || format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into();
        self.keeper.as_ref().map_or_else(own, Keeper::path)
    }

    /// Let another user's program open the memory.
    pub fn give_to(&mut self, target: &Target) -> Result<()> {
        rustix::fs::fchown(&self.file, Some(rustix::fs::Uid::from_raw(target.uid)), None)?;
        self.keeper = Some(Keeper::start(&self.file, target)?);
        Ok(())
    }

    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// Where buffer `index` begins.
    pub fn buffer_offset(&self, index: u32) -> usize {
        (self.layout.buffers_offset + u64::from(index) * self.layout.stride) as usize
    }

    /// Where the metadata begins, and how much of it has memory.
    pub fn metadata(&self) -> (usize, u64) {
        (self.layout.meta_offset as usize, self.meta_ready.get())
    }

    pub fn word(&self, offset: usize) -> u32 {
        self.memory.u32(offset).load(Ordering::Acquire)
    }

    /// The same, of 64 bits.
    pub fn double_word(&self, offset: usize) -> u64 {
        self.memory.u64(offset).load(Ordering::Acquire)
    }

    pub fn buffers_ready(&self) -> u32 {
        self.buffers_ready.get()
    }

    /// See that the first `count` buffers have memory.
    pub fn provide_buffers(&self, count: u32) -> Result<()> {
        let ready = self.buffers_ready();
        let count = count.min(self.options.buffers);
        if count > ready {
            if self.options.kernel.is_some() {
                device::provide(&self.file, count)?;
            } else {
                let (from, to) = (self.buffer_offset(ready), self.buffer_offset(count));
                self.give_memory(from as u64, (to - from) as u64)?;
            }
            self.buffers_ready.set(count);
        }
        Ok(())
    }

    /// See that there is room for metadata after its first `end` bytes, which are written.
    pub fn provide_metadata(&self, end: u64) -> Result<()> {
        let have = self.meta_ready.get();
        if end + META_STEP_BYTES > have && have < self.layout.meta_bytes {
            let more = (META_STEP_BYTES * 2).max(have / 2).min(self.layout.meta_bytes - have);
            self.give_memory(self.layout.meta_offset + have, more)?;
            self.meta_ready.set(have + more);
        }
        self.restate();
        Ok(())
    }

    fn give_memory(&self, offset: u64, bytes: u64) -> Result<()> {
        fallocate(&self.file, FallocateFlags::empty(), offset, bytes).with_context(|| {
            format!("no memory for {} KiB of buffers: use a smaller --buffer-bytes", bytes >> 10)
        })
    }

    /// Have programs, or the kernel, record, or not.
    pub fn turn(&self, on: bool) -> Result<()> {
        let state = if on { CASPER_RECORDING } else { CASPER_PAUSED };
        self.tell(state);
        match self.options.kernel {
            Some(_) => device::turn(&self.file, state),
            None => Ok(()),
        }
    }

    fn tell(&self, state: u32) {
        self.told.set(state);
        self.memory.u32(offset_of!(casper_session, on)).store(state, Ordering::SeqCst);
    }

    /// Have programs leave it, for good.
    pub fn close(&self) {
        self.tell(CASPER_OVER);
    }

    /// Say again what programs wait for, should one have written over it.
    pub fn restate(&self) {
        let (buffers, meta) = (self.buffers_ready.get(), self.meta_ready.get());
        let word = self.memory.u32(offset_of!(casper_session, buffers_ready));
        word.store(buffers, Ordering::Release);
        let word = self.memory.u64(offset_of!(casper_session, meta_ready));
        word.store(meta, Ordering::Release);
    }

    /// Whether the word that turns recording on and off is as this recorder left it.
    pub fn is_as_told(&self) -> bool {
        self.word(offset_of!(casper_session, on)) == self.told.get()
    }

    /// Have the kernel record `count` events and as many empty functions.
    pub fn calibrate_kernel(&self, count: u32) -> Result<()> {
        device::calibrate(&self.file, count)
    }

    /// Say that the recorder is there.
    pub fn beat(&self) {
        self.memory.u64(offset_of!(casper_session, heartbeat)).fetch_add(1, Ordering::Relaxed);
    }

    /// Sleep until a program wants something, or for `at_most`.
    pub fn sleep(&self, at_most: Duration) {
        let wanted = self.memory.u32(offset_of!(casper_session, wanted));
        let sleeping = self.memory.u32(offset_of!(casper_session, sleeping));
        let before = wanted.load(Ordering::Acquire);
        sleeping.store(1, Ordering::SeqCst);
        if self.options.kernel.is_some() {
            device::wait(&self.file, at_most);
            sleeping.store(0, Ordering::SeqCst);
            return;
        }
        let limit = futex::Timespec {
            tv_sec: at_most.as_secs() as i64,
            tv_nsec: at_most.subsec_nanos().into(),
        };
        let _ = futex::wait(wanted, futex::Flags::empty(), before, Some(&limit));
        sleeping.store(0, Ordering::SeqCst);
    }
}

impl Drop for Session {
    /// Programs leave it when they look again; what they still map gives its memory back now.
    fn drop(&mut self) {
        self.close();
        if self.options.kernel.is_some() {
            return; // the device's own end is the session's
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(&self.file, hole, META_OFFSET, self.layout.bytes - META_OFFSET);
    }
}

/// Memory of this process, which programs map.
fn own_memory(options: &Options) -> Result<(File, Layout)> {
    let stride = u64::from(CASPER_BUFFER_HEADER_BYTES) + options.buffer_bytes;
    let buffers_offset = META_OFFSET + META_BYTES;
    let bytes = buffers_offset + u64::from(options.buffers) * stride;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd: OwnedFd = memfd_create("casper", flags)
        .context("cannot make the memory of the recording (memfd_create)")?;
    // Who may open it may record into it and read what others record.
    fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
    ftruncate(&fd, bytes)?;
    // A program that cut it short would end the recorder and all other programs (SIGBUS).
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let meta = (META_OFFSET, META_BYTES);
    let layout = Layout { meta_offset: meta.0, meta_bytes: meta.1, buffers_offset, stride, bytes };
    Ok((File::from(fd), layout))
}

/// The kernel's memory, which its device shows.
fn kernel_memory(options: &Options, clock: Clock, subbuf_bytes: u64) -> Result<(File, Layout)> {
    ensure!(options.when_full != WhenFull::Wait, "a kernel cannot wait for its reader");
    let file = device::open(Path::new(device::PATH))?;
    let mut setup = casper_setup::new_zeroed();
    setup.version = CASPER_VERSION;
    setup.mode = options.when_full.code();
    setup.clock = clock.code();
    setup.buffer_count = options.buffers;
    setup.buffer_bytes = options.buffer_bytes as u32;
    setup.subbuf_bytes = subbuf_bytes as u32;
    setup.meta_bytes = KERNEL_META_BYTES;
    device::setup(&file, &mut setup)?;
    let layout = Layout {
        meta_offset: setup.meta_offset,
        meta_bytes: setup.meta_bytes,
        buffers_offset: setup.buffers_offset,
        stride: setup.buffer_stride,
        bytes: setup.session_bytes,
    };
    Ok((file, layout))
}

/// The number of an event type, if `text` is one.
fn type_number(text: &str) -> Option<u16> {
    match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A number that no other session has.
fn random() -> Result<u64> {
    let mut bytes = [0u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
