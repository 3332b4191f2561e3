// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A document with every kind of block, its figures computed, not measured.

use cowlab_document::{Axis, Block, Cell, Column, Document, Finding, Plot, Section, Series, Table};
use cowlab_model::Estimate;

const MIB: f64 = 1024.0 * 1024.0;

pub(crate) fn document() -> Document {
    let mut document = Document::new(
        "What fork and copy-on-write cost on this machine",
        "A gallery of every kind of block. Its figures are made up.",
    );
    document.facts = [
        ("Host", "gallery, 2 CPUs, 24 GiB"),
        ("Kernel", "Linux 6.18.0, THP madvise, mitigations on"),
        ("Accelerator", "native"),
        ("Command", "cowlab study --quick --seed 7"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    document.sections = vec![
        Section::new("findings", "Findings", findings()),
        Section::new("machine", "The machine", machine()),
        Section::new("sweep", "Fork against heap size", sweep()),
        Section::new("distributions", "Latencies", distributions()),
        Section::new("model", "The model", model()),
    ];
    document
}

fn findings() -> Vec<Block> {
    let finding = |headline: &str, detail: &str, samples: &str| {
        Block::Finding(Finding {
            headline: headline.into(),
            detail: detail.into(),
            samples: Some(samples.into()),
        })
    };
    vec![
        finding(
            "Fork stops a process for 11.8 ms a GiB.",
            "95% interval 11.6 to 12.0 ms, 40 repetitions; the page tables are 97% of it.",
            "profile",
        ),
        finding(
            "A write after fork costs 2.13 µs a page, of which the trap is a quarter.",
            "Copying neighbours in one batch would save most of the rest: see [the model](#model).",
            "fork-size",
        ),
        finding(
            "A second running thread makes it five to ten times as much.",
            "11 to 21 µs a page with `threads=2`, because each fault flushes the other CPU's TLB.",
            "tables/profile.csv",
        ),
        Block::Note("Intervals are bootstrap 95% intervals of the median.".into()),
    ]
}

fn machine() -> Vec<Block> {
    let columns = vec![
        Column::text("Step"),
        Column::unit("Time", "ns_per_page"),
        Column::unit("Published", "ns_per_page"),
        Column::number("Samples"),
        Column::text("How it was measured"),
    ];
    let mut table =
        Table::new("profile", "The machine profile: what each step of a fork costs", columns);
    let published = || Cell::Missing("the paper gives no figure".into());
    let rows = [
        (
            "Page-table entry",
            Cell::estimate(45.2, 44.8, 45.9, "ns"),
            Cell::number(52.0, "ns"),
            "`fork` of 16 MiB to 4 GiB",
        ),
        (
            "Re-use fault",
            Cell::estimate(521.0, 515.0, 533.0, "ns"),
            published(),
            "write-protected, not shared",
        ),
        (
            "Copy fault",
            Cell::estimate(2130.0, 2050.0, 2210.0, "ns"),
            Cell::number(2600.0, "ns"),
            "first write after fork",
        ),
        (
            "Remote flush",
            Cell::Missing("needs 2 CPUs, and CPU 1 is offline".into()),
            published(),
            "second running thread",
        ),
    ];
    for (step, time, other, how) in rows {
        table.push(vec![Cell::text(step), time, other, Cell::count(40), Cell::text(how)]);
    }
    let steps = || ["Trap", "Allocate", "Copy", "Flush"].map(String::from).to_vec();
    let bars = Plot::new(
        "steps",
        "Copying is the largest step",
        Axis::default(),
        Axis::linear("Time", "ns_per_page"),
    )
    .caption("Bars show medians, whiskers their 95% intervals.")
    .with(Series {
        low: vec![505.0, 580.0, 800.0, 150.0],
        high: vec![540.0, 650.0, 870.0, 200.0],
        ..Series::bars("Measured", steps(), vec![520.0, 610.0, 830.0, 170.0])
    })
    .with(Series::bars("Published", steps(), vec![700.0, 500.0, 1100.0, 300.0]));
    vec![
        Block::Text(
            "Each step is measured apart, interleaved with the others in `one` process tree."
                .into(),
        ),
        Block::Table(table),
        Block::Plot(bars),
    ]
}

fn sweep() -> Vec<Block> {
    let sizes: Vec<f64> = (0..9).map(|power| 16.0 * MIB * 2f64.powi(power)).collect();
    let mut plot = Plot::new(
        "fork-size",
        "Fork time grows with the page tables; huge pages shorten them",
        Axis::log("Heap", "bytes"),
        Axis::log("Time of fork", "ns"),
    )
    .caption("Points are medians with 95% intervals, dashed lines what the model predicts.");
    for (name, per_page) in [("4 KiB pages", 45.0), ("64 KiB mTHP", 30.0), ("THP", 2.5)] {
        let model: Vec<f64> =
            sizes.iter().map(|size| 60_000.0 + per_page * size / 4096.0).collect();
        let measured = |(i, time): (usize, &f64)| {
            let value = time * (1.0 + wave(i) * 0.08);
            Estimate { value, low: value * 0.95, high: value * 1.06, count: 5 }
        };
        let measured = model.iter().enumerate().map(measured);
        plot.series.push(Series::line(name, sizes.iter().copied().zip(model.clone()), true));
        plot.series.push(Series::estimates(name, sizes.iter().copied().zip(measured)));
    }
    let x: Vec<f64> =
        (0..30).map(|i| 2e5 * 1.4f64.powi(i % 15) * (1.0 + 0.02 * f64::from(i))).collect();
    let points = x.iter().enumerate().map(|(i, t)| (*t, t * (1.0 + wave(i * 3) * 0.2)));
    let points: Vec<(f64, f64)> = points.collect();
    let agreement = Plot::new(
        "agreement",
        "Predictions hold within 20%",
        Axis::log("Measured", "ns"),
        Axis::log("Predicted", "ns"),
    )
    .caption("On the dotted line prediction and measurement agree.")
    .with(Series::diagonal("Agreement"))
    .with(Series::points("Fork of a heap", points[..15].to_vec()))
    .with(Series::points("Writes after it", points[15..].to_vec()));
    vec![Block::Plot(plot), Block::Plot(agreement)]
}

fn distributions() -> Vec<Block> {
    let samples = |scale: f64, tail: f64| -> Vec<f64> {
        let at = |i: u32| (f64::from(i) + 0.5) / 300.0;
        (0..300)
            .map(|i| scale * (1.0 + 0.2 * wave(i as usize)) * (1.0 - at(i)).powf(-tail))
            .collect()
    };
    let (single, pair) = (samples(2100.0, 0.12), samples(11_000.0, 0.25));
    let cdf = Plot::new(
        "fault-cdf",
        "A second thread moves the whole distribution, not only its tail",
        Axis::log("Time of one fault", "ns"),
        Axis::linear("Faults at most that long", "fraction"),
    )
    .with(cumulative("One thread", single))
    .with(cumulative("Two threads", pair));
    vec![Block::Plot(cdf)]
}

fn cumulative(name: &str, mut samples: Vec<f64>) -> Series {
    samples.sort_by(f64::total_cmp);
    let all = samples.len() as f64;
    Series::cdf(name, samples.into_iter().zip((1u32..).map(|below| f64::from(below) / all)))
}

fn model() -> Vec<Block> {
    let sizes: Vec<f64> = (0..7).map(|power| 16.0 * MIB * 4f64.powi(power)).collect();
    let fractions: Vec<f64> = (0..=10).map(|tenth| f64::from(tenth) / 10.0).collect();
    let cost = |size: f64, fraction: f64| 60_000.0 + size / 4096.0 * (45.0 + 2100.0 * fraction);
    let z: Vec<Vec<f64>> =
        fractions.iter().map(|f| sizes.iter().map(|s| cost(*s, *f)).collect()).collect();
    let surface = Plot::new(
        "cost-surface",
        "What a fork and the writes after it cost together",
        Axis::log("Heap", "bytes"),
        Axis::linear("Written", "fraction"),
    )
    .z(Axis::log("Time", "ns"))
    .with(Series::map("Model", [sizes.clone(), fractions.clone()], z));
    let policies = ["none", "precopy", "batch of 16", "THP"];
    let workloads = ["single", "sequential", "random", "Zipf 0.99"];
    let saving =
        |p: usize, w: usize| if p == 0 { 0.0 } else { 0.18 * p as f64 - 0.07 * w as f64 + 0.05 };
    let places = || (0..4).map(f64::from).collect();
    let map = Plot::new(
        "saving",
        "No policy wins everywhere",
        Axis::linear("Policy", ""),
        Axis::linear("Workload", ""),
    )
    .z(Axis::linear("Time saved", "fraction"))
    .with(Series {
        labels: policies.map(String::from).into(),
        y_labels: workloads.map(String::from).into(),
        ..Series::map(
            "Saving",
            [places(), places()],
            (0..4).map(|w| (0..4).map(|p| saving(p, w)).collect()).collect(),
        )
    });
    vec![
        Block::Plot(surface),
        Block::Plot(map),
        Block::Note("Not available: the patched kernel; needs `cowlab study next-page`.".into()),
    ]
}

/// Something between -1 and 1 that looks like noise and is the same everywhere.
fn wave(index: usize) -> f64 {
    ((index * 7919 + 13) % 101) as f64 / 50.0 - 1.0
}
