// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the events themselves cost on this machine, so that a report can subtract it.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use cowlab_casper::record::{
    CASPER_ABSENT, CASPER_ENTER, CASPER_ENTER_ADDRESS, CASPER_EXIT, CASPER_EXIT_ADDRESS,
    casper_file,
};
use cowlab_casper::walk::records;
use cowlab_casper::write::DataChunk;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::clock::Clock;
use crate::drain::{Drain, Sink};
use crate::session::{Kernel, Options, Session};

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/trace_cost"));

/// The type of the event that the program records.
const EVENT: u32 = 1;

/// Events, and calls, that the kernel records to show their cost: both fit into its buffer.
const KERNEL_EVENTS: u32 = 20_000;

/// Costs in ps, from thousands of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeCost {
    /// One `casrecord` of 24 bytes.
    pub event_ps: u64,
    /// What an instrumented call's own duration contains of its two events.
    pub call_inner_ps: u64,
    /// What an instrumented call takes altogether, when its function does nothing.
    pub call_outer_ps: u64,
    /// The same with `-finstrument-functions`.
    pub address_inner_ps: u64,
    /// The same with `-finstrument-functions`.
    pub address_outer_ps: u64,
}

/// The times of the events of each kind.
#[derive(Default)]
struct Times {
    records: Vec<(u32, u64)>,
}

impl Sink for Times {
    fn data(&mut self, of: &DataChunk, payload: &[u8]) {
        let times = records(payload, of.base_ticks);
        self.records.extend(times.map(|raw| (u32::from(raw.event_type()), raw.ticks)));
    }
}

impl Times {
    /// Ticks from an event of type `from` to the `steps`-th after it, if that is a `to`: the mean
    /// without the largest hundredth. A median would be a whole step of the clock, maybe 10 ns.
    fn ticks(&self, from: u32, steps: usize, to: u32) -> Option<f64> {
        let pairs = self.records.iter().zip(self.records.iter().skip(steps));
        let mut ticks: Vec<u64> = pairs
            .filter(|(first, second)| first.0 == from && second.0 == to)
            .map(|(first, second)| second.1.saturating_sub(first.1))
            .collect();
        ticks.sort_unstable();
        let usual = &ticks[..ticks.len() - ticks.len() / 100];
        (!usual.is_empty()).then(|| usual.iter().sum::<u64>() as f64 / usual.len() as f64)
    }
}

/// What stands between two events of a session that holds nothing else, in ps.
fn costs(session: &Session) -> impl Fn(u32, usize, u32) -> Result<u64> {
    let mut times = Times::default();
    Drain::default().round(session, &mut times, true);
    let hz = session.clock.hz(session.first);
    move |from: u32, steps: usize, to: u32| {
        let ticks = times.ticks(from, steps, to).context("no events came")?;
        Ok((ticks * 1e12 / hz as f64) as u64)
    }
}

impl ProbeCost {
    /// Run a program that does nothing but record. Takes some 30 ms.
    pub fn calibrate(clock: Clock) -> Result<ProbeCost> {
        // Large enough for all of it, so that nothing else runs meanwhile.
        let options =
            Options { buffer_bytes: 8 << 20, buffers: 1, clock: Some(clock), ..Options::default() };
        let session = Session::create(options)?;
        let fd = memfd_create("trace_cost", MemfdFlags::CLOEXEC)?;
        let mut program = File::from(fd);
        program.write_all(PROGRAM)?;
        session.turn(true)?;
        let status =
            Command::new(format!("/proc/{}/fd/{}", std::process::id(), program.as_raw_fd()))
                .env_clear()
                .env("CASPER_SESSION", session.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .context("cannot run the program that shows what events cost")?;
        ensure!(status.success(), "the program that shows what events cost ended with {status}");
        let ps = costs(&session);
        Ok(ProbeCost {
            event_ps: ps(EVENT, 1, EVENT)?,
            call_inner_ps: ps(CASPER_ENTER, 1, CASPER_EXIT)?,
            call_outer_ps: ps(CASPER_ENTER, 2, CASPER_ENTER)?,
            address_inner_ps: ps(CASPER_ENTER_ADDRESS, 1, CASPER_EXIT_ADDRESS)?,
            address_outer_ps: ps(CASPER_ENTER_ADDRESS, 2, CASPER_ENTER_ADDRESS)?,
        })
    }

    /// The same in the kernel, which has no functions that tell their addresses.
    pub fn calibrate_kernel(clock: Clock) -> Result<ProbeCost> {
        let options = Options {
            buffer_bytes: 8 << 20,
            clock: Some(clock),
            kernel: Some(Kernel::default()),
            ..Options::default()
        };
        let session = Session::create(options)?;
        session.turn(true)?;
        session.calibrate_kernel(KERNEL_EVENTS)?;
        session.turn(false)?;
        let ps = costs(&session);
        Ok(ProbeCost {
            event_ps: ps(EVENT, 1, EVENT)?,
            call_inner_ps: ps(CASPER_ENTER, 1, CASPER_EXIT)?,
            call_outer_ps: ps(CASPER_ENTER, 2, CASPER_ENTER)?,
            address_inner_ps: CASPER_ABSENT,
            address_outer_ps: CASPER_ABSENT,
        })
    }

    pub fn put(&self, header: &mut casper_file) {
        header.event_ps = self.event_ps;
        header.call_inner_ps = self.call_inner_ps;
        header.call_outer_ps = self.call_outer_ps;
        header.address_inner_ps = self.address_inner_ps;
        header.address_outer_ps = self.address_outer_ps;
    }
}
