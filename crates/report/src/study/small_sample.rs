// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Smith & Maguire's figures 5 and 6: how far real time exceeds system time, by the number of
//! forks.

use cowlab_analysis::samples::Samples;
use cowlab_analysis::study::Study;
use cowlab_analysis::study::sweep::document_case;
use cowlab_model::stats::median;
use cowlab_schema::fork_sweep::{
    self, DoFork, OUTSIDE_REAL_NS, OUTSIDE_SYS_NS, REAL_NS, SYS_NS, USER_NS,
};
use cowlab_schema::{Cell as _, Metric};

use crate::document::{Axis, Block, Plot, Series};
use crate::fmt::{self, heap_size, percent};
use crate::papers::SMITH;
use crate::study::not_available;

/// Figure 6 leaves out fewer forks than this.
const MANY_FORKS: u64 = 100;

/// (real − sys) ÷ sys of one point of the sweep.
struct Excess {
    forks: u64,
    ratio: f64,
    label: String,
}

pub(super) fn blocks(study: &Study) -> Vec<Block> {
    let samples = document_case(study);
    let (outside, no_sys_outside) = excess(&samples, OUTSIDE_REAL_NS, OUTSIDE_SYS_NS);
    let (inside, no_sys_inside) = excess(&samples, REAL_NS, SYS_NS);
    if outside.is_empty() && inside.is_empty() {
        let needs = "the sweep's samples (bench fork-sweep)";
        return vec![not_available(study, "Figures 5 and 6", &["fork-sweep"], needs)];
    }
    let figure = |id: &str, title: &str, least: u64| {
        let series = |name: &str, points: &[Excess]| {
            let shown = points.iter().filter(|p| p.forks >= least);
            let (points, labels): (Vec<_>, Vec<_>) =
                shown.map(|p| ((p.forks as f64, p.ratio), p.label.clone())).unzip();
            Series::points(name, points).labelled(labels)
        };
        let (x, y) = (Axis::log("Number of forks", ""), Axis::linear("(real − sys) / sys", ""));
        Plot::new(id, title, x, y)
            .with(series("whole program, from outside (as published)", &outside))
            .with(series("the loop of forks alone", &inside))
    };
    let published = |id: &str| {
        let excess = SMITH.value(id, "real_over_sys_excess_max_ratio");
        excess.map_or_else(|| "not known".to_owned(), |ratio| fmt::tick(ratio, ""))
    };
    let below_zero = outside.iter().chain(&inside).any(|p| p.forks >= MANY_FORKS && p.ratio < 0.0);
    let mut blocks = vec![
        Block::Plot(
            figure("figure-5", "Figure 5: real against system time, by the number of forks", 1)
                .caption(format!(
                    "0 means that all of the time was system time. Published: almost {} for few \
                     forks, under {} at 1000.",
                    published("3b2.real-to-sys.small"),
                    published("3b2.real-to-sys.large"),
                )),
        ),
        Block::Plot(
            figure("figure-6", "Figure 6: the same from 100 forks up", MANY_FORKS).caption(
                if below_zero {
                    "A negative value says that more system time was charged than passed: the \
                     kernel splits CPU time into user and system by what its tick saw."
                } else {
                    "What is left of the difference where the small sample is no excuse."
                },
            ),
        ),
    ];
    blocks.extend(large_numbers(&outside, &inside, &samples).map(Block::Text));
    if no_sys_outside + no_sys_inside > 0 {
        blocks.push(Block::Note(format!(
            "System time is charged by the kernel's tick and scaled: of short runs it may be 0, \
             and the ratio then does not exist. Left out: {} runs timed from outside, {} loops.",
            fmt::count(no_sys_outside as u64),
            fmt::count(no_sys_inside as u64)
        )));
    }
    blocks
}

/// What the figures say at the largest number of forks.
fn large_numbers(outside: &[Excess], inside: &[Excess], samples: &Samples) -> Option<String> {
    let largest = outside.iter().chain(inside).map(|p| p.forks).max()?;
    let at = |points: &[Excess]| {
        let ratios: Vec<f64> =
            points.iter().filter(|p| p.forks == largest).map(|p| p.ratio).collect();
        median(&ratios).map(percent)
    };
    let words = |share: Option<String>| share.unwrap_or_else(|| "an unknown share".into());
    let mut out = format!(
        "At {} forks real time exceeds system time by {} for the whole program and by {} for the \
         loop alone (medians over heaps and fractions).",
        fmt::count(largest),
        words(at(outside)),
        words(at(inside))
    );
    let loops = samples.with(fork_sweep::FORKS, largest);
    let share = |metric| {
        let shares = loops.pairs(metric, REAL_NS);
        median(&shares.iter().filter(|(_, r)| *r > 0.0).map(|(m, r)| m / r).collect::<Vec<_>>())
    };
    if let (Some(user), Some(sys)) = (share(USER_NS), share(SYS_NS)) {
        out.push_str(&format!(
            " Of the loop's real time {} was charged as user and {} as system time.",
            percent(user),
            percent(sys)
        ));
        if user > 0.2 {
            out.push_str(
                " A child of this program does next to nothing in user space: a process that ends \
                 before any tick saw it in the kernel is charged as user time, so system time \
                 alone measures short-lived children badly on Linux.",
            );
        }
    }
    Some(out)
}

/// The median ratio of each point, and how many runs were charged no system time.
fn excess(samples: &Samples, real: Metric, sys: Metric) -> (Vec<Excess>, usize) {
    let mut left_out = 0;
    let mut points = Vec::new();
    for (params, samples) in samples.by_params(&[]) {
        let pairs = samples.pairs(real, sys);
        left_out += pairs.iter().filter(|(_, sys)| *sys <= 0.0).count();
        let charged = pairs.iter().filter(|(_, sys)| *sys > 0.0);
        let ratios: Vec<f64> = charged.map(|(real, sys)| (real - sys) / sys).collect();
        let (Some(ratio), Ok(cell)) = (median(&ratios), DoFork::from_params(&params)) else {
            continue;
        };
        let (heap, fraction) = (heap_size(cell.heap_bytes), cell.write_fraction);
        let label = format!("heap {heap}, fraction {fraction}");
        points.push(Excess { forks: cell.forks, ratio, label });
    }
    (points, left_out)
}
