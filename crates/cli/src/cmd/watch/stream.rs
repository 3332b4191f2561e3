// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A frame as a line of JSON, as `--json` prints it.

use anyhow::Result;
use cowlab_observe::watch::{Epoch, Frame, NAME, PID, Process, Reading, Stops};
use cowlab_store::{Missing, Params, Sample};

use crate::sinks::{json_line, samples as samples_of};

pub fn line(frame: &Frame) -> Result<String> {
    let missing: Vec<Missing> = frame
        .sees
        .missing
        .iter()
        .map(|sentence| match sentence.split_once(": ") {
            Some((metric, reason)) => (metric, reason),
            None => ("watch", sentence.as_str()),
        })
        .map(|(metric, reason)| Missing { metric: metric.into(), reason: reason.into() })
        .collect();
    json_line(frame, &samples(frame), &missing)
}

/// The figures of a frame as rows, those that are known.
fn samples(frame: &Frame) -> Vec<Sample> {
    let mut rows = Vec::new();
    for process in &frame.processes {
        let mut params = Params::new();
        PID.put(&mut params, process.pid);
        NAME.put(&mut params, &process.name);
        let at = frame.time_unix_ns;
        rows.extend(samples_of(Process::FIGURES, process, &params, at));
        rows.extend(samples_of(Reading::FIGURES, &process.now, &params, at));
        if let Some(stops) = &process.totals.stops {
            rows.extend(samples_of(Stops::FIGURES, stops, &params, at));
        }
        if let Some(epoch) = &process.epoch {
            rows.extend(samples_of(Epoch::FIGURES, epoch, &params, at));
        }
    }
    rows
}

#[cfg(test)]
pub mod tests {
    use cowlab_machine::Room;
    use cowlab_observe::watch::{ChildRow, FRAME_FORMAT, Group, MappingRow, Own, RegionRow, Sees};

    use super::*;

    /// A server in the middle of a snapshot, for tests of all that shows frames.
    pub fn example() -> Frame {
        let mut stops = Stops::default();
        stops.add(11_200_000);
        stops.add(27_600_000);
        let regions = (0..600u64).map(|index| RegionRow {
            start: (7 << 40) + (index << 21),
            private_pages: (index % 512) as u32,
            shared_pages: 512 - (index % 512) as u32,
        });
        let mapping = |start: u64, private_pages| MappingRow {
            start,
            end: start + (1 << 30),
            kind: "anonymous".into(),
            name: None,
            private_pages,
            shared_pages: 200_000,
        };
        let epoch = Epoch {
            child: 4243,
            age_ns: Some(3_500_000_000),
            stop_ns: Some(27_600_000),
            copied_bytes: Some(192 << 20),
            walked_bytes: Some(190 << 20),
            shared_bytes: Some(1400 << 20),
            walk_age_ns: Some(400_000_000),
            parent_faults: 49_152,
            regions: regions.collect(),
            mappings: vec![mapping(7 << 40, 48_000), mapping((7 << 40) + (2 << 30), 64)],
        };
        let mut process = Process {
            pid: 4242,
            start_ticks: 77,
            name: "redis-server".into(),
            minor_faults_per_s: Some(51_234.5),
            writes_to_present_per_s: Some(50_100.0),
            epoch: Some(epoch),
            children_alive: 1,
            children: vec![ChildRow {
                pid: 4243,
                name: "redis-rdb-bgsave".into(),
                age_ns: Some(3_500_000_000),
                copied_bytes: Some(192 << 20),
                shared_bytes: Some(1400 << 20),
                rss_bytes: Some(1600 << 20),
                minor_faults: 321,
                ..ChildRow::default()
            }],
            ..Process::default()
        };
        process.totals.forks = Some(2);
        process.totals.minor_faults = 123_456;
        process.totals.writes_to_present = Some(100_000);
        process.totals.stops = Some(stops);
        process.now.threads = Some(5);
        process.now.rss_bytes = Some(1650 << 20);
        process.now.anonymous_bytes = Some(1600 << 20);
        process.now.page_table_bytes = Some(3 << 20);
        let mut group = Group { name: "redis-server".into(), processes: 2, ..Group::default() };
        group.totals = process.totals.clone();
        group.rss_bytes = Some(3250 << 20);
        group.epoch_copied_bytes = Some(192 << 20);
        group.fork_commit_bytes = Some(2 << 30);
        let frame = Frame {
            frame_format: FRAME_FORMAT,
            time_unix_ns: 1_795_300_000_000_000_000,
            interval_ns: 1_000_000_000,
            sees: Sees {
                events: true,
                stops: true,
                counts: true,
                missing: vec!["faults by kind: needs CAP_BPF".into()],
            },
            groups: vec![group],
            processes: vec![process],
            own: Own {
                cpu_ns: 12_000_000,
                cpu_share: Some(0.012),
                rss_bytes: Some(14 << 20),
                lost_events: Some(0),
                lost_processes: Some(0),
                unread_events: Some(0),
                skipped_frames: None,
            },
            room: Room { commit_bytes: None, tasks: Some(31_000) },
        };
        frame.only_seen()
    }

    #[test]
    fn a_frame_is_a_line() {
        let frame = example();
        let line = line(&frame).unwrap();
        assert!(line.ends_with("}\n") && line.matches('\n').count() == 1);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["missing"][0]["metric"], "faults by kind");
        let sample = &value["samples"][0];
        assert_eq!(
            (sample["unit"].as_str(), sample["value"].as_f64()),
            (Some("per_s"), Some(51_234.5))
        );
    }
}
