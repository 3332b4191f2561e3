// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rate that an open loop's is a share of.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::probes::Runner;
use anyhow::Result;

use super::load::{self, Load};
use super::phase::{self, Looks, Snapshots};
use super::server::{Server, Setup};

/// The most updates that a server of base pages answers without snapshots, by its number of records:
/// measured once a run, so that every server, in whatever pages and under whatever policy, is asked
/// for the same rate. One that is asked for a share of its own most is let off by being slow.
#[derive(Debug, Default)]
pub struct Saturation {
    by_records: RefCell<BTreeMap<u64, f64>>,
}

impl Saturation {
    /// Of `load` in its closed loop, on a server of its own set up like that.
    pub fn per_s(&self, runner: &Runner, setup: &Setup, load: &Load) -> Result<f64> {
        if let Some(known) = self.by_records.borrow().get(&load.records) {
            return Ok(*known);
        }
        let mut server = Server::start(setup)?;
        let load = Load { rate_per_s: None, ..load.clone() };
        let measured =
            phase::attend(runner, |stop| load::populate(&server, load.records, stop), || Ok(()))
                .and_then(|()| phase::run(runner, &server, &load, Snapshots::None, 0, Looks::None))
                .map_err(|error| server.explain(error))?;
        let per_s = measured.throughput_per_s();
        self.by_records.borrow_mut().insert(load.records, per_s);
        Ok(per_s)
    }
}
