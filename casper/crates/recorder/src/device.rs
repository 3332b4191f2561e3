// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/dev/casper`, where a kernel's session is had. Safety: each of its ioctls reads and writes one
//! structure, whose size is part of the request's code.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use cowlab_casper::record::{
    CASPER_CALIBRATE, CASPER_DEVICE_IOCTL, CASPER_PROVIDE, CASPER_SELECT, CASPER_SETUP,
    CASPER_TURN, casper_select, casper_setup,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use zerocopy::FromZeros;

const fn code<T>(number: u32) -> Opcode {
    opcode::read_write::<T>(CASPER_DEVICE_IOCTL as u8, number as u8)
}

const SETUP: Opcode = code::<casper_setup>(CASPER_SETUP);
const SELECT: Opcode = code::<casper_select>(CASPER_SELECT);
const PROVIDE: Opcode = code::<u32>(CASPER_PROVIDE);
const TURN: Opcode = code::<u32>(CASPER_TURN);
const CALIBRATE: Opcode = code::<u32>(CASPER_CALIBRATE);

pub const PATH: &str = "/dev/casper";

/// Open it: one process at a time may, and the kernel forgets the session when that one ends.
pub fn open(path: &Path) -> Result<File> {
    OpenOptions::new().read(true).write(true).open(path).map_err(|error| {
        let name = path.display();
        match error.kind() {
            ErrorKind::NotFound => anyhow!(
                "there is no {name}: this kernel has no CASPER (CONFIG_CASPER; `cowlab kernel \
                     build --variant traced` makes one that has)"
            ),
            ErrorKind::PermissionDenied => anyhow!(
                "{name}: permission denied; to trace the kernel takes CAP_PERFMON and the right to \
                     read and write that file (ls -l {name})"
            ),
            ErrorKind::ResourceBusy => {
                anyhow!("{name} is in use: another process records this kernel")
            }
            _ => anyhow!("cannot open {name}: {error}"),
        }
    })
}

pub fn setup(file: &File, setup: &mut casper_setup) -> Result<()> {
    // SAFETY: SETUP is the code of a structure of this type.
    let result = unsafe { ioctl(file, Updater::<SETUP, casper_setup>::new(setup)) };
    result.map_err(|error| match error {
        Errno::NOTTY => anyhow!("this is not CASPER's device"),
        Errno::NOMEM => anyhow!("no memory for the recording: use fewer --buffers"),
        other => anyhow!("the kernel refuses this recording: {other}"),
    })
}

/// See that the first `buffers` have memory.
pub fn provide(file: &File, mut buffers: u32) -> Result<()> {
    // SAFETY: PROVIDE is the code of a u32.
    let result = unsafe { ioctl(file, Updater::<PROVIDE, u32>::new(&mut buffers)) };
    result.context("no memory for the kernel's buffers: use a smaller --buffer-bytes")
}

/// Have the kernel record, or not.
pub fn turn(file: &File, mut state: u32) -> Result<()> {
    // SAFETY: TURN is the code of a u32.
    let result = unsafe { ioctl(file, Updater::<TURN, u32>::new(&mut state)) };
    result.context("cannot turn the kernel's recording on or off")
}

/// Record that many events, and as many empty functions.
pub fn calibrate(file: &File, mut count: u32) -> Result<()> {
    // SAFETY: CALIBRATE is the code of a u32.
    let result = unsafe { ioctl(file, Updater::<CALIBRATE, u32>::new(&mut count)) };
    result.context("the kernel cannot measure what its events cost")
}

/// Record the functions whose names match, or do not record them. How many match.
pub fn select(file: &File, pattern: &str, record: bool) -> Result<u32> {
    let mut select = casper_select::new_zeroed();
    let bytes = pattern.as_bytes();
    ensure!(bytes.len() < select.pattern.len(), "--function {pattern}: the pattern is too long");
    select.pattern[..bytes.len()].copy_from_slice(bytes);
    select.record = record.into();
    // SAFETY: SELECT is the code of a structure of this type.
    let result = unsafe { ioctl(file, Updater::<SELECT, casper_select>::new(&mut select)) };
    result.with_context(|| format!("the kernel refuses the pattern {pattern}"))?;
    Ok(select.matched)
}

/// Sleep until the kernel has filled a sub-buffer, or for `at_most`.
pub fn wait(file: &File, at_most: Duration) {
    let limit =
        Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
    let _ = poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&limit));
}
