// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A frame as a line of JSON, as `--json` prints and `--replay` reads it.

use anyhow::Result;
use cowlab_observe::watch::Frame;
use cowlab_schema::watch;
use cowlab_store::{FORMAT, Missing, Params, Sample};

use crate::output::JsonDocument;

/// Some ten times the line of a frame with all the processes that are read at once.
pub const MOST_LINE_BYTES: u64 = 64 << 20;

/// The line, with its end.
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
    let document = JsonDocument {
        format: FORMAT,
        run: None,
        samples: &samples(frame),
        summary: frame,
        missing: &missing,
    };
    Ok(serde_json::to_string(&document)? + "\n")
}

/// The figures of a frame as rows, those that are known.
fn samples(frame: &Frame) -> Vec<Sample> {
    let mut rows = Vec::new();
    for process in &frame.processes {
        let mut params = Params::new();
        watch::PID.put(&mut params, process.pid);
        watch::NAME.put(&mut params, &process.name);
        let (epoch, stops) = (process.epoch.as_ref(), process.totals.stops.as_ref());
        let whole = |value: Option<u64>| value.map(|value| value as f64);
        let figures = [
            (watch::MINOR_FAULTS_PER_S, process.minor_faults_per_s),
            (watch::WRITES_TO_PRESENT_PER_S, process.writes_to_present_per_s),
            (watch::LAST_STOP_NS, whole(stops.and_then(|stops| stops.last_ns))),
            (watch::RSS_BYTES, whole(process.now.rss_bytes)),
            (watch::PAGE_TABLE_BYTES, whole(process.now.page_table_bytes)),
            (watch::EPOCH_COPIED_BYTES, whole(epoch.and_then(|epoch| epoch.copied_bytes))),
            (watch::EPOCH_SHARED_BYTES, whole(epoch.and_then(|epoch| epoch.shared_bytes))),
        ];
        rows.extend(figures.into_iter().filter_map(|(metric, value)| {
            Some(Sample {
                start_unix_ns: frame.time_unix_ns,
                ..Sample::of(metric, params.clone(), value?)
            })
        }));
    }
    rows
}

#[cfg(test)]
pub mod tests {
    use cowlab_machine::Room;
    use cowlab_observe::watch::{
        ChildRow, Epoch, FRAME_FORMAT, Group, MappingRow, Own, Process, RegionRow, Sees, Stops,
    };

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
    fn a_line_is_read_as_it_was_written() {
        let frame = example();
        let line = line(&frame).unwrap();
        assert!(line.ends_with("}\n") && line.matches('\n').count() == 1);
        assert_eq!(Frame::parse(&line).unwrap(), frame);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["missing"][0]["metric"], "faults by kind");
        let sample = &value["samples"][0];
        assert_eq!(
            (sample["unit"].as_str(), sample["value"].as_f64()),
            (Some("per_s"), Some(51_234.5))
        );
    }

    #[test]
    fn what_an_older_version_did_not_see_is_none_and_not_its_0() {
        let older = line(&example()).unwrap().replace("\"events\":true", "\"events\":false");
        let older = older.replace("\"stops\":true", "\"stops\":false");
        let frame = Frame::parse(&older).unwrap();
        let totals = &frame.processes[0].totals;
        assert_eq!((totals.forks, totals.exits, totals.stops.as_ref()), (None, None, None));
        assert_eq!(frame.own.lost_events, None);
        assert_eq!(totals.minor_faults, 123_456);
    }

    #[test]
    fn other_versions_and_other_files_are_refused() {
        let line = line(&example()).unwrap();
        assert!(Frame::parse(&line.replace("\"frame_format\":1", "\"frame_format\":2")).is_err());
        assert!(Frame::parse(&line[..line.len() / 2]).is_err());
        assert!(Frame::parse("{}").is_err());
    }
}
