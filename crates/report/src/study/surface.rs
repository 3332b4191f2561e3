// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Smith & Maguire's figures 3 and 4: real time over memory and write fraction.

use cowlab_analysis::study::Study;
use cowlab_analysis::study::sweep::FRACTIONS;
use cowlab_analysis::study::sweep::{self as lines, document_case};
use cowlab_schema::fork_sweep::{self, HEAP_BYTES, OUTSIDE_REAL_NS, WRITE_FRACTION};

use crate::document::{Axis, Block, Plot, Series};
use crate::fmt::{self, heap_size};
use crate::study::not_available;

pub(super) fn blocks(study: &Study) -> Vec<Block> {
    let heaps: Vec<u64> = lines::heaps_bytes().collect();
    let thousand =
        grid(&heaps, |heap, fraction| Some(study.sweep.point(heap, fraction)?.real_ns.value));
    let single = document_case(study).with(fork_sweep::FORKS, 1);
    let one = grid(&heaps, |heap, fraction| {
        let here = single.with(HEAP_BYTES, heap).with(WRITE_FRACTION, fraction);
        Some(here.estimate(OUTSIDE_REAL_NS)?.value)
    });
    let mut blocks = Vec::new();
    match thousand {
        Some(z) => {
            let title = "Figure 3: real time of 1000 forks over memory and write fraction";
            blocks.push(Block::Plot(plot("figure-3", title, &heaps, z).caption(
                "Memory grows by the square root of ten from step to step, as in the document. \
                 The time follows the product of memory and fraction.",
            )));
        }
        None => blocks.push(not_available(study, "Figure 3", &["fork-sweep"], NEEDS)),
    }
    match one {
        Some(z) => {
            let title = "Figure 4: the same with a single fork, timed from outside";
            blocks.push(Block::Plot(plot("figure-4", title, &heaps, z).caption(
                "The document's point: with one fork the start of the program and chance are a \
                 large part of what the shell's clock sees. Here the program also fills its heap \
                 before it forks, which the time from outside holds as well.",
            )));
        }
        None => blocks.push(not_available(study, "Figure 4", &["fork-sweep"], NEEDS)),
    }
    blocks
}

const NEEDS: &str = "the sweep's samples (bench fork-sweep)";

/// Values in rows by fraction; `None` without any. Single holes are not numbers.
fn grid(heaps: &[u64], at: impl Fn(u64, f64) -> Option<f64>) -> Option<Vec<Vec<f64>>> {
    let row = |fraction: &f64| -> Vec<f64> {
        heaps.iter().map(|heap| at(*heap, *fraction).unwrap_or(f64::NAN)).collect()
    };
    let rows: Vec<Vec<f64>> = FRACTIONS.iter().map(row).collect();
    rows.iter().flatten().any(|v| v.is_finite()).then_some(rows)
}

fn plot(id: &str, title: &str, heaps: &[u64], z: Vec<Vec<f64>>) -> Plot {
    let (x, y) = (Axis::log("Memory", "bytes"), Axis::linear("Write fraction", "fraction"));
    let at = heaps.iter().map(|heap| *heap as f64).collect();
    let mut series = Series::map("Real time", [at, FRACTIONS.to_vec()], z);
    series.labels = heaps.iter().map(|heap| heap_size(*heap)).collect();
    series.y_labels = FRACTIONS.iter().map(|f| fmt::tick(*f, "")).collect();
    Plot::new(id, title, x, y).z(Axis::linear("Real time", "ns")).with(series)
}
