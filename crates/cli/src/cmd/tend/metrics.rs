// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of all targets as metrics, in Prometheus's conventions.

use std::collections::BTreeMap;

use cowlab_observe::tend::Figures;
use cowlab_schema::live::Kind;

use crate::serve::{Family, Labels, Value, build, families};

/// Upper bounds of the histogram of stalls, in ns.
const BOUNDS_NS: [u64; 8] =
    [100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 100_000_000];

/// Names that are kept apart; the rest are `other`. A label set must not grow with the machine.
const NAMES: usize = 100;
const OTHER: &str = "other";

/// Figures summed by name, of targets that have ended as well: counters only grow.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    by_name: BTreeMap<String, Figures>,
    /// Processes that there is no room to tend.
    pub crowded: usize,
}

impl Sums {
    pub fn add(&mut self, of: &Figures) {
        let is_apart = self.by_name.len() < NAMES || self.by_name.contains_key(&of.name);
        let name = if is_apart { of.name.as_str() } else { OTHER };
        let new = || Figures::new(0, name.to_owned());
        self.by_name.entry(name.to_owned()).or_insert_with(new).add(of);
    }
}

type Reasons = (&'static str, &'static str, fn(&Figures) -> &BTreeMap<&'static str, u64>);

const BY_REASON: [Reasons; 2] = [
    ("cowlab_tend_failed_regions", "Regions that the kernel did not make huge", |of| {
        &of.failed_regions
    }),
    ("cowlab_tend_rests", "Times that nothing was done for a while", |of| &of.rests),
];

pub fn of(sums: &Sums) -> Vec<Family> {
    let all = || sums.by_name.values();
    let labels = |of: &Figures| -> Labels { vec![("process", of.name.clone())] };
    let each: Vec<_> = all().map(|one| (labels(one), one)).collect();
    let mut families = families(Figures::FIGURES, &each);
    families.extend(BY_REASON.iter().map(|&(name, help, of)| {
        let row = |one, reason: &str, times: u64| {
            let mut labels = labels(one);
            labels.push(("reason", reason.to_owned()));
            (labels, Value::Number(times as f64))
        };
        let rows = all().flat_map(|one| of(one).iter().map(move |(why, n)| row(one, why, *n)));
        Family { name, help, unit: None, kind: Kind::Counter, rows: rows.collect() }
    }));
    families.push(Family {
        name: "cowlab_tend_stall",
        help: "The longest that each collapse can have held up the target",
        unit: Some("seconds"),
        kind: Kind::Histogram,
        rows: all().map(|one| (labels(one), stalls(one))).collect(),
    });
    families.push(Family {
        name: "cowlab_tend_refused_targets",
        help: "Processes that match and that there is no room to tend",
        unit: None,
        kind: Kind::Gauge,
        rows: vec![(Vec::new(), Value::Number(sums.crowded as f64))],
    });
    families.push(build());
    families
}

fn stalls(of: &Figures) -> Value {
    let stalls = &of.stall_ns;
    let bounds = BOUNDS_NS.iter().map(|bound| *bound as f64 / 1e9).chain([f64::INFINITY]);
    let mut buckets: Vec<(f64, u64)> = bounds.map(|bound| (bound, 0)).collect();
    // Each cell once: one that a bound lies in is of the bucket in which it begins.
    for cell in stalls.iter_recorded() {
        let from = stalls.lowest_equivalent(cell.value_iterated_to());
        let bucket = BOUNDS_NS.partition_point(|bound| *bound < from);
        buckets[bucket].1 += cell.count_since_last_iteration();
    }
    Value::Histogram { sum: stalls.mean() * stalls.len() as f64 / 1e9, buckets }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_follow_the_conventions() {
        let mut figures = Figures::new(7, "a \"b\"".into());
        figures.collapsed_regions = 3;
        figures.failed_regions.insert("busy", 2);
        figures.stall_ns.record(300_000).unwrap();
        // In a cell that two buckets share.
        figures.stall_ns.record(500_000).unwrap();
        figures.stall_ns.record(200_000_000).unwrap();
        let mut sums = Sums::default();
        sums.add(&figures);
        let text = crate::serve::text_of(&of(&sums));
        let who = "process=\"a \\\"b\\\"\"";
        for line in [
            "# TYPE cowlab_tend_collapsed_regions counter".to_owned(),
            format!("cowlab_tend_collapsed_regions_total{{{who}}} 3"),
            format!("cowlab_tend_failed_regions_total{{{who},reason=\"busy\"}} 2"),
            format!("cowlab_tend_stall_seconds_bucket{{le=\"0.0005\",{who}}} 2"),
            format!("cowlab_tend_stall_seconds_bucket{{le=\"0.001\",{who}}} 2"),
            format!("cowlab_tend_stall_seconds_bucket{{le=\"+Inf\",{who}}} 3"),
            format!("cowlab_tend_stall_seconds_count{{{who}}} 3"),
        ] {
            assert!(text.lines().any(|found| found.starts_with(&line)), "{line}: {text}");
        }
        // What is not known has no row.
        assert!(!text.contains("small_pages{"), "{text}");
    }

    #[test]
    fn labels_are_names_and_no_more_than_so_many() {
        let mut sums = Sums::default();
        for pid in 0..400 {
            let mut figures = Figures::new(pid, format!("name{}", pid % 200));
            figures.collapsed_regions = 1;
            sums.add(&figures);
        }
        let text = crate::serve::text_of(&of(&sums));
        let rows = text.lines().filter(|line| line.starts_with("cowlab_tend_collapsed_regions_t"));
        assert_eq!(rows.count(), NAMES + 1);
        assert!(text.contains("cowlab_tend_collapsed_regions_total{process=\"name7\"} 2\n"));
        assert!(text.contains("cowlab_tend_collapsed_regions_total{process=\"other\"} 200\n"));
        assert!(!text.contains("pid="), "{text}");
    }
}
