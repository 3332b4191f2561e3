// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A frame as a line of JSON: `--json`, `--output`, `--replay`.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cowlab_observe::watch::Frame;
use cowlab_schema::watch;
use cowlab_store::{FORMAT, Missing, Params, Sample};
use rustix::fs::OFlags;

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

/// A file of frames, for its owner alone: it holds addresses. Each line is whole when it is written,
/// so that what a killed watch leaves can be replayed, and gone on with.
pub struct Recording {
    path: PathBuf,
    file: File,
    /// Of whole lines.
    bytes: u64,
    frames: u64,
    /// Frames that could not be written.
    pub missing: u64,
}

impl Recording {
    /// Makes the file, or goes on with one that a watch of this user began.
    pub fn open(path: &Path) -> Result<Recording> {
        let mut options = File::options();
        options.read(true).write(true).mode(0o600);
        // Whoever may write the folder chooses what has that name.
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
        let mut is_new = true;
        let opened = options.clone().create_new(true).open(path).or_else(|error| {
            is_new = false;
            if error.kind() == ErrorKind::AlreadyExists { options.open(path) } else { Err(error) }
        });
        let file = opened.with_context(|| {
            format!("cannot make {}: --output needs a new file", path.display())
        })?;
        // Two that write one file would tear each other's lines.
        let is_alone = file.try_lock().is_ok();
        let bytes = if is_new { Some(0) } else { whole_bytes(&file)?.filter(|_| is_alone) };
        let Some(bytes) = bytes else {
            bail!(
                "{} exists and is not a recording of yours, or another watch is writing it: --output needs \
                 a new file or a recording of your own",
                path.display()
            );
        };
        file.set_len(bytes)?;
        Ok(Recording { path: path.to_owned(), file, bytes, frames: 0, missing: 0 })
    }

    /// Adds a frame, or leaves the file as it was.
    pub fn add(&mut self, frame: &Frame) -> Result<()> {
        let text = line(frame)?;
        self.frames += 1;
        let written = self.file.write_all_at(text.as_bytes(), self.bytes);
        match &written {
            Ok(()) => self.bytes += text.len() as u64,
            Err(_) => {
                self.missing += 1;
                // Where that fails as well, the next line is written over what is torn.
                let _ = self.file.set_len(self.bytes);
            }
        }
        written.with_context(|| {
            format!("cannot write {} (is the disk full?): frames are missing", self.path.display())
        })
    }

    /// What is not in it.
    pub fn finish(self) -> Result<()> {
        match self.missing {
            0 => Ok(()),
            missing => bail!(
                "{missing} of {} frames could not be written to {}",
                self.frames,
                self.path.display()
            ),
        }
    }
}

/// How long the whole lines of a file are together, if it is a recording that may be gone on with.
fn whole_bytes(file: &File) -> Result<Option<u64>> {
    let facts = file.metadata()?;
    let is_own = facts.uid() == rustix::process::geteuid().as_raw() && facts.mode() & 0o077 == 0;
    if !facts.is_file() || !is_own {
        return Ok(None);
    }
    let mut block = vec![0; 64 << 10];
    let mut end = facts.len();
    let mut whole = 0;
    while end > 0 && whole == 0 {
        let start = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - start) as usize];
        file.read_exact_at(part, start)?;
        whole = part.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| start + at as u64 + 1);
        end = start;
    }
    let mut first = String::new();
    if BufReader::new(file.take(MOST_LINE_BYTES)).read_line(&mut first).is_err() {
        return Ok(None);
    }
    // Of a first line that is torn, nothing else is known.
    let is_ours = match whole {
        0 => first.is_empty() || first.starts_with("{\"format\":"),
        _ => Frame::parse(&first).is_ok(),
    };
    Ok(is_ours.then_some(whole))
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
                missing: vec!["time in copies: kernel.task_delayacct is 0".into()],
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
                unrecorded_frames: None,
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
        assert_eq!(value["missing"][0]["metric"], "time in copies");
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

    #[test]
    fn a_recording_is_gone_on_with_where_it_is_ones_own() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let text = line(&example()).unwrap();
        for (name, before, expected) in [
            ("new", None, Some("")),
            ("empty", Some(""), Some("")),
            ("torn first line", Some(&text[..100]), Some("")),
            ("whole", Some(text.as_str()), Some(text.as_str())),
            ("torn tail", Some(&(text.clone() + &text[..100])), Some(text.as_str())),
            ("a key", Some("secret"), None),
            ("of others", Some("{}\n"), None),
        ] {
            if let Some(before) = before {
                std::fs::write(file(name), before).unwrap();
                std::fs::set_permissions(file(name), PermissionsExt::from_mode(0o600)).unwrap();
            }
            let added = Recording::open(&file(name)).and_then(|mut it| it.add(&example()));
            let after = std::fs::read_to_string(file(name)).unwrap();
            match expected {
                Some(whole) => assert_eq!(after, whole.to_owned() + &text, "{name}"),
                None => assert_eq!(after, before.unwrap(), "{name}"),
            }
            assert_eq!(added.is_ok(), expected.is_some(), "{name}");
        }
        symlink(file("whole"), file("link")).unwrap();
        std::fs::set_permissions(file("new"), PermissionsExt::from_mode(0o644)).unwrap();
        let kept = Recording::open(&file("empty")).unwrap();
        for name in ["link", "new", "."] {
            assert!(Recording::open(&file(name)).is_err(), "{name}");
        }
        assert_eq!(kept.missing, 0);
    }
}
