// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CCoW's second benchmark: a Redis that takes snapshots, under every configuration, beside
//! what the document says of its own.

mod published;
mod tables;
#[cfg(test)]
mod tests;

use cowlab_analysis::configuration::{Configuration, Configurations};
use cowlab_analysis::samples::Samples;
use cowlab_schema::Quantile;
use cowlab_schema::redis::{self as names, CLOSED, POPULATED, Snapshots};
use cowlab_store::Run;

use crate::document::{Axis, Block, Plot, Section, Series};
use crate::plain;

pub const SECTION: &str = "redis";

const TITLE: &str = "A Redis that takes snapshots (CCoW's second benchmark)";

struct Measured<'a> {
    samples: Samples<'a>,
    configurations: Configurations<'a>,
}

impl<'a> Measured<'a> {
    fn phase(&self, one: &Configuration, load: &str, snapshots: Snapshots) -> Samples<'a> {
        one.of(&self.samples.with(names::LOAD, load).with(names::SNAPSHOTS_KIND, snapshots))
    }

    /// The same phase of what it is compared with.
    fn plain(&self, one: &Configuration, load: &str, snapshots: Snapshots) -> Samples<'a> {
        let base = self.configurations.base(one);
        base.map_or_else(Samples::default, |base| self.phase(&base, load, snapshots))
    }

    /// The loads that were made, the closed loop first.
    fn loads(&self) -> Vec<&'a str> {
        let mut loads = self.samples.words(names::LOAD);
        loads.retain(|load| *load != POPULATED);
        loads.sort_by_key(|load| (*load != CLOSED, *load));
        loads
    }
}

/// The section; `None` of a run without this benchmark.
pub fn section(run: &Run) -> Option<Section> {
    let samples = Samples::of(&run.samples, names::BENCH);
    let configurations = Configurations::of(&samples);
    let measured = Measured { samples, configurations };
    measured.configurations.iter().next()?;
    let mut blocks = vec![Block::Text(
        "A redis-server is updated by YCSB's clients while it takes snapshots. Won back is, of the \
         throughput that snapshots take from plain copy-on-write, the part that a configuration \
         saves. In an open loop a latency counts from the time at which an update was intended, so \
         that a stall falls on all that should have been sent meanwhile."
            .into(),
    )];
    blocks.extend(tables::all(&measured).map(Block::Table));
    blocks.extend(around_the_fork(&measured).map(Block::Plot));
    blocks.push(Block::Table(published::table(&measured)));
    Some(Section::new(SECTION, TITLE, blocks))
}

/// Latencies by when an update began, of the lowest open loop.
fn around_the_fork(measured: &Measured) -> Option<Plot> {
    let load = measured.loads().into_iter().find(|load| *load != CLOSED)?;
    let mut plot = Plot::new(
        "redis-around-fork",
        format!("Around the fork, at {load} of the most throughput"),
        Axis::linear("Since BGSAVE was sent", "ns"),
        Axis::log("An update, p99", "ns"),
    )
    .caption("Updates that were intended in the same 50 ms; medians of the rounds.");
    for one in measured.configurations.iter() {
        let case = measured.phase(&one, load, Snapshots::Save).with(names::QUANTILE, Quantile::P99);
        let points = case.numbers(names::SINCE_FORK_MS).into_iter().filter_map(|ms| {
            let took = case.with(names::SINCE_FORK_MS, ms).median(names::AROUND_FORK_NS)?;
            Some((ms as f64 * 1e6, took))
        });
        let name = plain(&measured.configurations.name(&one));
        plot.draw(Series::line(name, points, one.is_plain()));
    }
    plot.drawn()
}
