// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cow-check`: that nobody sees another's writes.

use crate::probes::{Probe, unix_ns};
use cowlab_schema::Cell;
use cowlab_schema::cow_check::{self, CowCheck};

use crate::task::Task;

/// The name of this benchmark in samples.
pub const BENCH: &str = cow_check::BENCH.name;

/// One task for each of the settings, in the first round only.
pub fn tasks(settings: impl IntoIterator<Item = CowCheck>) -> Vec<Task> {
    let task = |check: CowCheck| {
        Task::new(format!("{BENCH}: {} children", check.children), move |runner, round| {
            let mut out = round.record(BENCH, check.params(), unix_ns());
            out.add(cow_check::CHECKED_PAGES, check.run(runner)?);
            Ok(())
        })
        .at_most(1)
    };
    settings.into_iter().map(task).collect()
}
