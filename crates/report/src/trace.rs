// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench trace`: what an event and a call cost, beside the floor and beside one thread.

use cowlab_analysis::compared::{Rounds, times};
use cowlab_analysis::samples::Samples;
use cowlab_model::Estimate;
use cowlab_model::stats::estimate;
use cowlab_schema::trace::{EVENT_NS, THREADS, TOOL, Tool, VARIANT};
use cowlab_schema::{Key, Metric, Value, trace as names};
use cowlab_store::{Params, Sample};

use crate::Rows;
use crate::cells::{self, MISSING};
use crate::document::Table;

/// What the table shows, in this order; the rest is raw material.
const METRICS: [(Metric, &str); 6] = [
    (EVENT_NS, "an event"),
    (names::EVENT_OFF_NS, "an event, nobody records"),
    (names::CALL_LEAF_NS, "a leaf call"),
    (names::CALL_NESTED_NS, "a nested call"),
    (names::CALL_LEAF_OFF_NS, "a leaf call, nobody records"),
    (names::CALL_NESTED_OFF_NS, "a nested call, nobody records"),
];

/// A metric by round, and what it is compared with.
struct Row {
    what: &'static str,
    params: Params,
    rounds: Rounds,
    /// An event of the floor with as many threads.
    floor: Option<Rounds>,
    /// The same with one thread.
    one_thread: Option<Rounds>,
}

/// The figures in `samples`, with their ratios: medians of what was measured in the same round.
pub fn table(samples: &[Sample]) -> Table {
    let samples = Samples::of(samples, names::BENCH);
    let floors = samples.of_metric(EVENT_NS).with(TOOL, Tool::Floor);
    let mut rows = Vec::new();
    for (metric, what) in METRICS {
        let groups = samples.of_metric(metric).by_params(&[]);
        for (params, samples) in &groups {
            let floor = THREADS.of(params).map(|threads| floors.with(THREADS, threads));
            let mut alone = params.clone();
            THREADS.put(&mut alone, 1);
            let one_thread = groups.get(&alone).filter(|_| alone != *params);
            rows.push(Row {
                what,
                params: params.clone(),
                rounds: samples.by_round(metric),
                floor: floor.map(|floor| floor.by_round(EVENT_NS)),
                one_thread: one_thread.map(|samples| samples.by_round(metric)),
            });
        }
    }
    fn param<T: Value>(key: Key<T>) -> impl Fn(&Row) -> String {
        move |row| row.params.get(key.name()).cloned().unwrap_or_else(|| "–".to_owned())
    }
    let caption = "ns an event and an instrumented call; calls without what the plain call takes";
    Rows::of("trace", caption, &rows)
        .text("what", |row| row.what)
        .text("tool", param(TOOL))
        .text("variant", param(VARIANT))
        .text("threads", param(THREADS))
        .estimate("median (95% interval)", EVENT_NS.unit, MISSING, |row| {
            estimate(&row.rounds.values().copied().collect::<Vec<_>>())
        })
        .figure("÷ floor", |row| {
            cells::estimate(against(row, &row.floor), "", "the floor was not measured")
        })
        .figure("÷ one thread", |row| {
            let missing = "is one thread, or that was not measured";
            cells::estimate(against(row, &row.one_thread), "", missing)
        })
        .count("rounds", |row| row.rounds.len() as u64)
        .table()
}

fn against(row: &Row, to: &Option<Rounds>) -> Option<Estimate> {
    times(to.as_ref()?, &row.rounds)
}

#[cfg(test)]
mod tests {
    use cowlab_schema::Cell as _;

    use super::*;
    use crate::document::Cell;
    use crate::testing::number;

    fn sample(tool: Tool, threads: u32, rep: u32, value: f64) -> Sample {
        let cell = names::Traced { tool, threads, ..names::Traced::default() };
        Sample { rep, ..Sample::of(EVENT_NS, cell.params(), value) }
    }

    #[test]
    fn ratios_are_those_of_the_same_round() {
        let mut samples = Vec::new();
        // The machine was half as fast in the second round; the ratio does not change.
        for (rep, slow) in [(0, 1.0), (1, 2.0), (2, 1.0)] {
            samples.push(sample(Tool::Floor, 1, rep, 8.0 * slow));
            samples.push(sample(Tool::Casper, 1, rep, 12.0 * slow));
            samples.push(sample(Tool::Casper, 2, rep, 15.0 * slow));
        }
        let table = table(&samples);
        let find = |tool: &str, threads: &str| {
            let row = |row: &&Vec<Cell>| row[1].display() == tool && row[3].display() == threads;
            table.rows.iter().find(row).unwrap().clone()
        };
        assert_eq!(number(&find("casper", "1")[5]), 1.5);
        assert_eq!(number(&find("casper", "2")[6]), 1.25);
        // There is no floor with two threads here, and one thread is not compared with itself.
        assert!(matches!(find("casper", "2")[5], Cell::Missing(_)));
        assert!(matches!(find("casper", "1")[6], Cell::Missing(_)));
    }
}
