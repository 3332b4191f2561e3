// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plots of the calibrated fork cycles: the figures that predictions rest on.

use cowlab_model::profile::{CycleCurve, CyclePoint, MachineProfile, Measured, Writer};

use crate::document::{Axis, Block, Plot, Series};

/// Anchor of the plot of fork calls.
pub(super) const FORK_PLOT: &str = "fork-by-size";
pub(super) const WRITE_PLOT: &str = "write-by-size";

/// The curve of a writer and a number of other running threads.
pub(super) fn curve(profile: &MachineProfile, writer: Writer, threads: u32) -> Option<&CycleCurve> {
    profile.curves.iter().find(|c| c.writer == writer && c.threads == threads)
}

/// The fork call and the cost of a write by the size of the heap.
pub(super) fn plots(profile: &MachineProfile) -> Vec<Block> {
    let page = profile.page_size_bytes;
    let mut fork = Plot::new(
        FORK_PLOT,
        "How long fork stops the caller, by the size of its memory",
        Axis::log("Memory that is in use", "bytes"),
        Axis::log("The fork call", "ns"),
    )
    .caption(
        "Medians over the calibration's rounds. Below some size the cost of making a process \
         hides that of the memory; above it the time grows with every page.",
    );
    // Who writes makes no difference where nothing is written.
    let parent = curve(profile, Writer::Parent, 0);
    let writer = parent.map_or(Writer::Child, |_| Writer::Parent);
    for (threads, name) in
        [(0, "nothing written since the last fork"), (1, "another thread running")]
    {
        if let Some(curve) = curve(profile, writer, threads) {
            fork.series.extend(series(name, curve, page, |p| Some(p.fork), |_| 1.0));
        }
    }
    if let Some(curve) = parent {
        let name = "all of it written since the last fork";
        fork.series.extend(series(name, curve, page, |p| Some(p.written?.fork), |_| 1.0));
    }

    let mut write = Plot::new(
        WRITE_PLOT,
        "What the first write to a page costs after a fork, by the size of the memory",
        Axis::log("Memory, every page of which is written", "bytes"),
        Axis::linear("One write", "ns"),
    )
    .caption(
        "The kernel copies the page at the first write to it. Where the cost rises with the size, \
         originals and copies no longer fit in the CPU's caches.",
    );
    for (writer, who) in [(Writer::Child, "child"), (Writer::Parent, "parent")] {
        for (threads, with) in [(0, ""), (1, ", another thread running")] {
            if let Some(curve) = curve(profile, writer, threads) {
                let name = format!("the {who} writes{with}");
                let each = |p: &CyclePoint| p.pages as f64;
                write.series.extend(series(&name, curve, page, |p| Some(p.written?.write), each));
            }
        }
    }
    [fork, write].into_iter().filter_map(Plot::drawn).map(Block::Plot).collect()
}

fn series(
    name: &str,
    curve: &CycleCurve,
    page: u64,
    of: impl Fn(&CyclePoint) -> Option<Measured>,
    among: impl Fn(&CyclePoint) -> f64,
) -> [Series; 2] {
    let points = curve.points.iter().filter(|p| p.pages > 0);
    let points = points.filter_map(|p| Some(((p.pages * page) as f64, of(p)?.ns / among(p))));
    let points: Vec<(f64, f64)> = points.collect();
    [Series::points(name, points.clone()), Series::line(name, points, false)]
}
