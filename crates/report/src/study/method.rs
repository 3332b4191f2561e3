// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a study was measured, and how to repeat it.

use cowlab_analysis::precision::{FEWEST_ROUNDS, reached};
use cowlab_analysis::study::Study;
use cowlab_schema::{
    calibrate, calibrate_cycle, cow_check, cow_faults, fork_sweep, fork_table, predict_check,
};

use crate::Rows;
use crate::cells;
use crate::document::{Block, Cell, Section, Table};
use crate::facts::command_line;

pub(super) fn section(study: &Study) -> Section {
    let info = &study.run.info;
    let mut blocks = vec![
        Block::Text(
            "Everything was measured in rounds: each round measures each thing once, in an order \
             drawn anew, so that what is compared is interleaved and a drift of the machine falls \
             on all of it alike. With `--full` rounds after the sixth leave out what is known \
             precisely (half the width of its interval by signed ranks is 3% or less), and of the \
             rest the half that has taken the most time. A figure is the median over the rounds; \
             its 95% interval comes from resampling them (bootstrap); of two to five rounds it is \
             their range, and holds the true median in 50, 75, 88 and 94% of cases. Where two \
             intervals overlap, no difference is claimed."
                .into(),
        ),
        Block::Text(
            "The measured programs are small, static and written in C; the program that forks and \
             its children are pinned to one CPU and other threads to another, except where a table \
             says so. Memory is touched and freed before, and kept warm meanwhile, so that a \
             hypervisor does not take it back. Times are read inside the program; those from \
             outside, from its start to its exit, are named so. The cost of reading the clock is \
             removed from every single write."
                .into(),
        ),
        Block::Table(rounds(study)),
        Block::Table(metrics()),
    ];
    if !info.command.is_empty() {
        let command = command_line(info);
        blocks.push(Block::Text(format!(
            "This repeats it (its random choices had the seed {}): `{command}`",
            info.seed
        )));
    }
    blocks.push(Block::Text(
        "Every raw figure is in `samples.ndjson.gz` beside this page, every table in `tables/`; the \
         reasons for these choices are in `docs/decisions/` of cowlab's source."
            .into(),
    ));
    Section::new("method", "How this was measured", blocks)
}

fn rounds(study: &Study) -> Table {
    let benches = [
        calibrate::BENCH,
        calibrate_cycle::BENCH,
        predict_check::BENCH,
        fork_sweep::BENCH,
        fork_table::BENCH,
        cow_faults::BENCH,
        cow_check::BENCH,
    ];
    let count = |count: usize| {
        cells::or((count > 0).then(|| Cell::count(count as u64)), "was not measured in this run")
    };
    Rows::of("rounds", "What was measured how often", &benches)
        .text("Measurement", |bench| format!("`{}`", bench.name))
        .figure("Samples", |bench| count(study.samples(bench).len()))
        .figure("Rounds", |bench| count(study.samples(bench).rounds()))
        .text("Times known precisely", |bench| {
            let (known, all) = reached(&study.samples(bench));
            match all > 0 && study.samples(bench).rounds() >= FEWEST_ROUNDS {
                true => format!("{known} of {all}"),
                false => String::new(),
            }
        })
        .table()
}

fn metrics() -> Table {
    let all = [
        fork_sweep::FORK_NS,
        fork_sweep::WRITE_NS,
        fork_sweep::CYCLE_NS,
        fork_sweep::REAL_NS,
        fork_sweep::OUTSIDE_REAL_NS,
        fork_sweep::USER_NS,
        fork_sweep::SYS_NS,
        fork_sweep::MINOR_FAULTS,
        cow_faults::FAULT_NS,
        cow_faults::ELAPSED_NS,
        fork_table::CPU_NS,
    ];
    Rows::of("metrics", "What the metrics mean", &all)
        .text("Metric", |metric| format!("`{}`", metric.name))
        .text("Meaning", |metric| metric.what())
        .table()
}
