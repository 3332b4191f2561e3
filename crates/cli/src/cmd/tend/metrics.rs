// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of all targets as metrics, in Prometheus's conventions: at an endpoint, or in a file
//! for a node exporter's textfile collector.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, RwLock};

use anyhow::{Context, Result};
use cowlab_tend::Figures;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::cmd::watch::metrics::as_text_format;

/// Upper bounds of the histogram of stalls, in ns.
const BOUNDS_NS: [u64; 8] =
    [100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 100_000_000];

/// The newest figures, as whoever scrapes reads them.
#[derive(Debug, Clone, Default)]
pub struct Newest(Arc<RwLock<Vec<Figures>>>);

impl Newest {
    /// New figures came.
    pub fn set(&self, all: Vec<Figures>) {
        if let Ok(mut newest) = self.0.write() {
            *newest = all;
        }
    }

    /// Write them for the first time; says whose folder it must be where that is what is wrong.
    pub fn write_first(&self, file: &Path) -> Result<()> {
        let denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        self.write(file).map_err(|error| match error.downcast_ref().is_some_and(denied) {
            true => error.context(format!(
                "tend gives up the right to other users' folders, so uid {} must be let into the \
                 metrics file's by its owner or mode",
                rustix::process::geteuid()
            )),
            false => error,
        })
    }

    /// Write them, whole or not at all: whoever collects them reads at any time.
    pub fn write(&self, file: &Path) -> Result<()> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        encode(&mut text, &registry).context("the metrics cannot be encoded")?;
        // The textfile collector reads the older format.
        let text = as_text_format(&text);
        replace(file, text.as_bytes())
            .with_context(|| format!("--output {} cannot be written", file.display()))
    }
}

/// A file with new contents, or as it was.
fn replace(file: &Path, contents: &[u8]) -> io::Result<()> {
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(".unfinished");
    // Of one that was killed in the middle, perhaps as another user.
    let _ = fs::remove_file(&unfinished);
    let done = fs::File::create_new(&unfinished)
        .and_then(|mut opened| opened.write_all(contents))
        .and_then(|()| fs::rename(&unfinished, file));
    if done.is_err() {
        // Where that fails too, there is none.
        let _ = fs::remove_file(&unfinished);
    }
    done
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

impl Collector for Newest {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.0.read().map_err(|_| fmt::Error)?;
        let encoder = &mut encoder;
        let each = |of: fn(&Figures) -> Option<f64>| -> Vec<Row> {
            all.iter().filter_map(|one| Some((labels(one, None), of(one)?))).collect()
        };
        let by = |of: fn(&Figures) -> &BTreeMap<&'static str, u64>| -> Vec<Row> {
            let rows =
                |one| of(one).iter().map(move |(why, n)| (labels(one, Some(*why)), *n as f64));
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
        stalls(encoder, &all)
    }
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
        let newest = Newest::default();
        newest.set(vec![figures]);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tend.prom");
        newest.write(&file).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        let who = "process=\"a \\\"b\\\"\",pid=\"7\"";
        for line in [
            "# TYPE cowlab_tend_collapsed_regions_total counter".to_owned(),
            format!("cowlab_tend_collapsed_regions_total{{{who}}} 3"),
            format!("cowlab_tend_failed_regions_total{{{who},reason=\"busy\"}} 2"),
            format!("cowlab_tend_stall_seconds_bucket{{le=\"0.0005\",{who}}} 2"),
            format!("cowlab_tend_stall_seconds_bucket{{le=\"0.001\",{who}}} 2"),
            format!("cowlab_tend_stall_seconds_bucket{{le=\"+Inf\",{who}}} 3"),
            format!("cowlab_tend_stall_seconds_count{{{who}}} 3"),
        ] {
            assert!(text.lines().any(|found| found.starts_with(&line)), "{line}: {text}");
        }
        // What is not known has no row, and nothing unfinished is left.
        assert!(!text.contains("small_pages{"), "{text}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(newest.write(Path::new("/nonexistent/x")).is_err());
    }

    #[test]
    fn a_write_that_fails_leaves_nothing_and_one_that_was_cut_short_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tend.prom");
        fs::create_dir(&file).unwrap();
        assert!(replace(&file, b"new").is_err(), "a file takes a folder's place");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::remove_dir(&file).unwrap();
        // A link with that name is not followed.
        let other = folder.path().join("other");
        fs::write(&other, "old").unwrap();
        std::os::unix::fs::symlink(&other, folder.path().join("tend.prom.unfinished")).unwrap();
        replace(&file, b"new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::read_to_string(&other).unwrap(), "old");
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
