// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of all targets as metrics, in Prometheus's conventions: at an endpoint, or in a file
//! for a node exporter's textfile collector.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;

use anyhow::Result;
use cowlab_serve::{Newest, write_metrics};
use cowlab_tend::Figures;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Upper bounds of the histogram of stalls, in ns.
const BOUNDS_NS: [u64; 8] =
    [100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 100_000_000];

/// Write them for the first time; says whose folder it must be where that is what is wrong.
pub fn write_first(newest: &Newest<Vec<Figures>>, file: &Path) -> Result<()> {
    let denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    write_metrics(newest, file).map_err(|error| match error.downcast_ref().is_some_and(denied) {
        true => error.context(format!(
            "tend gives up the right to other users' folders, so uid {} must be let into the \
                 metrics file's by its owner or mode",
            rustix::process::geteuid()
        )),
        false => error,
    })
}

/// What goes wrong again and again, and is said once, and once more when it is something else.
#[derive(Debug, Default)]
pub struct Complaint(Option<String>);

impl Complaint {
    /// It was tried once more: what there is to say now.
    pub fn of(&mut self, result: Result<()>) -> Option<String> {
        let wrong = result.err().map(|error| format!("{error:#}"));
        let before = std::mem::replace(&mut self.0, wrong.clone());
        wrong.filter(|wrong| Some(wrong) != before.as_ref())
    }
}

type Labels = Vec<(&'static str, String)>;

/// The process's name and pid: two of one name are two.
fn labels(of: &Figures, reason: Option<&str>) -> Labels {
    let mut labels = vec![("process", of.name.clone()), ("pid", of.pid.to_string())];
    labels.extend(reason.map(|reason| ("reason", reason.to_owned())));
    labels
}

type Row = (Labels, f64);

fn counters(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit): (&str, &str, Option<&Unit>),
    rows: impl IntoIterator<Item = Row>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
    for (labels, value) in rows {
        ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    rows: impl IntoIterator<Item = Row>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in rows {
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// Nobody's figures yet.
pub fn newest() -> Newest<Vec<Figures>> {
    let newest = Newest::new(|all: &Vec<Figures>, encoder| encode(all, encoder));
    newest.set(Vec::new());
    newest
}

/// The metrics of all targets.
fn encode(all: &[Figures], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let each = |of: fn(&Figures) -> Option<f64>| -> Vec<Row> {
        all.iter().filter_map(|one| Some((labels(one, None), of(one)?))).collect()
    };
    let by = |of: fn(&Figures) -> &BTreeMap<&'static str, u64>| -> Vec<Row> {
        let rows = |one| of(one).iter().map(move |(why, n)| (labels(one, Some(*why)), *n as f64));
        all.iter().flat_map(rows).collect()
    };
    counters(
        encoder,
        ("cowlab_tend_collapsed_regions", "Regions made one huge page", None),
        each(|f| Some(f.collapsed_regions as f64)),
    )?;
    counters(
        encoder,
        ("cowlab_tend_failed_regions", "Regions that the kernel did not make huge", None),
        by(|f| &f.failed_regions),
    )?;
    counters(
        encoder,
        ("cowlab_tend_rests", "Times that nothing was done for a while", None),
        by(|f| &f.rests),
    )?;
    counters(
        encoder,
        ("cowlab_tend_forks", "Forks of the target that were seen", None),
        each(|f| Some(f.forks as f64)),
    )?;
    counters(
        encoder,
        ("cowlab_tend_cpu", "CPU time of tending", Some(&Unit::Seconds)),
        each(|f| Some(f.cpu_ns as f64 / 1e9)),
    )?;
    gauges(
        encoder,
        ("cowlab_tend_small_pages", "Base pages whose entries a fork copies"),
        each(|f| f.small_pages.map(|pages| pages as f64)),
    )?;
    gauges(
        encoder,
        ("cowlab_tend_huge_regions", "Huge pages of the target"),
        each(|f| f.huge_regions.map(|regions| regions as f64)),
    )?;
    gauges(
        encoder,
        ("cowlab_tend_regions_left", "Regions to collapse"),
        each(|f| Some(f.regions_left as f64)),
    )?;
    stalls(encoder, all)
}

fn stalls(encoder: &mut DescriptorEncoder<'_>, all: &[Figures]) -> fmt::Result {
    let mut family = encoder.encode_descriptor(
        "cowlab_tend_stall",
        "The longest that each collapse can have held up the target",
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    for one in all {
        let stalls = &one.stall_ns;
        let bounds = BOUNDS_NS.iter().map(|bound| *bound as f64 / 1e9).chain([f64::INFINITY]);
        let mut buckets: Vec<(f64, u64)> = bounds.map(|bound| (bound, 0)).collect();
        // Each cell once: one that a bound lies in is of the bucket in which it begins.
        for cell in stalls.iter_recorded() {
            let from = stalls.lowest_equivalent(cell.value_iterated_to());
            let bucket = BOUNDS_NS.partition_point(|bound| *bound < from);
            buckets[bucket].1 += cell.count_since_last_iteration();
        }
        let sum_ns = stalls.mean() * stalls.len() as f64;
        family.encode_family(&labels(one, None))?.encode_histogram::<[(&str, &str); 0]>(
            sum_ns / 1e9,
            stalls.len(),
            &buckets,
            None,
        )?;
    }
    Ok(())
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
        let newest = newest();
        newest.set(vec![figures]);
        let text = newest.text().unwrap();
        let who = "process=\"a \\\"b\\\"\",pid=\"7\"";
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
    fn what_goes_wrong_is_said_once_and_again_when_it_changes() {
        let mut complaint = Complaint::default();
        let full = || Err(anyhow::anyhow!("the disk is full"));
        let said = [
            complaint.of(Ok(())),
            complaint.of(full()),
            complaint.of(full()),
            complaint.of(Err(anyhow::anyhow!("not allowed"))),
            complaint.of(full()),
            complaint.of(Ok(())),
            complaint.of(full()),
        ];
        let said = said.map(Option::unwrap_or_default);
        let full = "the disk is full";
        assert_eq!(said, ["", full, "", "not allowed", full, "", full]);
    }
}
