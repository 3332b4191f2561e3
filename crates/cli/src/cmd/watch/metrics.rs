// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A frame as metrics, in Prometheus's conventions: base units, `_total` on counters, and one label,
//! the process's name, of which there are no more than the book keeps apart.

use std::fmt;

use cowlab_observe::watch::{Frame, Group};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

type Labels<'a> = [(&'static str, &'a str); 1];

fn labels(group: &Group) -> Labels<'_> {
    [("process", group.name.as_str())]
}

/// A counter of each name; absent where it is not known.
fn counters(
    encoder: &mut DescriptorEncoder<'_>,
    frame: &Frame,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    of: impl Fn(&Group) -> Option<u64>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
    each(frame, of, &mut family, |value, one| ConstCounter::new(value).encode(one))
}

/// A gauge of each name; absent where it is not known.
fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    frame: &Frame,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    of: impl Fn(&Group) -> Option<u64>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
    each(frame, of, &mut family, |value, one| ConstGauge::new(value.cast_signed()).encode(one))
}

fn each(
    frame: &Frame,
    of: impl Fn(&Group) -> Option<u64>,
    family: &mut MetricEncoder<'_>,
    encode: impl Fn(u64, MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    for group in &frame.groups {
        if let Some(value) = of(group) {
            encode(value, family.encode_family(&labels(group))?)?;
        }
    }
    Ok(())
}

/// The metrics of a frame.
pub fn encode(frame: &Frame, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let bytes = Some(&Unit::Bytes);
    counters(encoder, frame, "cowlab_forks", "Forks that copied page tables", None, |group| {
        group.totals.forks
    })?;
    counters(
        encoder,
        frame,
        "cowlab_spawns",
        "Processes made with shared memory: vfork, posix_spawn",
        None,
        |group| group.totals.spawns,
    )?;
    counters(encoder, frame, "cowlab_execs", "Programs executed", None, |group| {
        group.totals.execs
    })?;
    counters(encoder, frame, "cowlab_exits", "Processes that ended", None, |group| {
        group.totals.exits
    })?;
    counters(encoder, frame, "cowlab_minor_faults", "Minor page faults", None, |group| {
        Some(group.totals.minor_faults)
    })?;
    counters(
        encoder,
        frame,
        "cowlab_write_faults_on_present_pages",
        "Faults of writes to present pages: copies and re-uses (watch --count)",
        None,
        |group| group.totals.writes_to_present.filter(|_| frame.sees.counts),
    )?;
    counters(
        encoder,
        frame,
        "cowlab_copied",
        "What children had for themselves when they ended or executed something",
        bytes,
        |group| Some(group.totals.copied_bytes),
    )?;
    stops(encoder, frame)?;
    gauges(
        encoder,
        frame,
        "cowlab_processes",
        "Processes alive, children included",
        None,
        |group| Some(group.processes),
    )?;
    gauges(
        encoder,
        frame,
        "cowlab_resident",
        "VmRSS, summed: shared pages count for each",
        bytes,
        |group| group.rss_bytes,
    )?;
    gauges(
        encoder,
        frame,
        "cowlab_page_tables",
        "Page tables, which a fork copies at once",
        bytes,
        |group| group.page_table_bytes,
    )?;
    gauges(
        encoder,
        frame,
        "cowlab_epoch_copied",
        "Copied for children that are alive",
        bytes,
        |group| group.epoch_copied_bytes,
    )?;
    gauges(
        encoder,
        frame,
        "cowlab_epoch_shared",
        "Shared still with children that are alive: could yet be copied",
        bytes,
        |group| group.epoch_shared_bytes,
    )?;
    own(encoder, frame)
}

fn stops(encoder: &mut DescriptorEncoder<'_>, frame: &Frame) -> fmt::Result {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut family = encoder.encode_descriptor(
        "cowlab_fork_stop",
        "How long a fork stopped the thread that forked",
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    for group in &frame.groups {
        let Some(stops) = &group.totals.stops else { continue };
        // What is longer than all bounds is in the bucket of +Inf.
        let buckets: Vec<(f64, u64)> = stops
            .by_bound()
            .map(|(bound, count)| (bound.map_or(f64::INFINITY, seconds), count))
            .collect();
        family.encode_family(&labels(group))?.encode_histogram::<[(&str, &str); 0]>(
            seconds(stops.sum_ns),
            stops.count,
            &buckets,
            None,
        )?;
    }
    Ok(())
}

fn own(encoder: &mut DescriptorEncoder<'_>, frame: &Frame) -> fmt::Result {
    let own = &frame.own;
    let cpu = ConstCounter::new(own.cpu_ns as f64 / 1e9);
    cpu.encode(encoder.encode_descriptor(
        "cowlab_watch_cpu",
        "CPU time that watching took",
        Some(&Unit::Seconds),
        MetricType::Counter,
    )?)?;
    if let Some(rss_bytes) = own.rss_bytes {
        ConstGauge::new(rss_bytes.cast_signed()).encode(encoder.encode_descriptor(
            "cowlab_watch_resident",
            "Memory that watching takes",
            Some(&Unit::Bytes),
            MetricType::Gauge,
        )?)?;
    }
    if let Some(lost_events) = own.lost_events {
        ConstCounter::new(lost_events).encode(encoder.encode_descriptor(
            "cowlab_watch_lost_events",
            "Forks, ends and execs that were not read soon enough",
            None,
            MetricType::Counter,
        )?)?;
    }
    if let Some(lost_processes) = own.lost_processes {
        ConstCounter::new(lost_processes).encode(encoder.encode_descriptor(
            "cowlab_watch_lost_processes",
            "Processes that there was no room to watch",
            None,
            MetricType::Counter,
        )?)?;
    }
    ConstGauge::new(frame.time_unix_ns as f64 / 1e9).encode(encoder.encode_descriptor(
        "cowlab_watch_refresh_timestamp",
        "When the figures were read, since 1970",
        Some(&Unit::Seconds),
        MetricType::Gauge,
    )?)
}

#[cfg(test)]
mod tests {
    use cowlab_serve::Newest;

    use super::super::stream::tests::example;
    use super::*;

    fn encoded(frame: Option<&Frame>) -> String {
        let newest = Newest::new(encode);
        if let Some(frame) = frame {
            newest.set(frame.clone());
        }
        newest.text().unwrap()
    }

    #[test]
    fn figures_have_base_units_and_one_label() {
        let text = encoded(Some(&example()));
        for expected in [
            "cowlab_forks_total{process=\"redis-server\"} 2\n",
            "cowlab_fork_stop_seconds_bucket{le=\"0.02\",process=\"redis-server\"} 1\n",
            "cowlab_fork_stop_seconds_bucket{le=\"+Inf\",process=\"redis-server\"} 2\n",
            "cowlab_fork_stop_seconds_count{process=\"redis-server\"} 2\n",
            "cowlab_fork_stop_seconds_sum{process=\"redis-server\"} 0.0388\n",
            "cowlab_epoch_copied_bytes{process=\"redis-server\"} 201326592",
            "cowlab_exits_total{process=\"redis-server\"} 0\n",
            "cowlab_watch_cpu_seconds_total 0.012\n",
            "cowlab_watch_lost_events_total 0\n",
            "cowlab_watch_lost_processes_total 0\n",
            "# EOF\n",
        ] {
            assert!(text.contains(expected), "{expected}:\n{text}");
        }
        assert!(!text.contains("epoch_shared_bytes{"), "what is not known is absent:\n{text}");
    }

    #[test]
    fn what_cannot_be_seen_is_absent_and_never_0() {
        let mut frame = example();
        frame.sees = Default::default();
        let text = encoded(Some(&frame.only_seen()));
        for absent in [
            "cowlab_forks_total{",
            "cowlab_exits_total{",
            "fork_stop_seconds_count{",
            "present_pages_total{",
            "cowlab_watch_lost_",
        ] {
            assert!(!text.contains(absent), "{absent}:\n{text}");
        }
        assert!(text.contains("cowlab_minor_faults_total{"));
        assert_eq!(encoded(None), "# EOF\n");
    }
}
