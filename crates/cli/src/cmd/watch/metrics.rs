// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A frame as metrics, in Prometheus's conventions: base units, `_total` on counters, and one label,
//! the process's name, of which there are no more than the book keeps apart.

use cowlab_observe::watch::{Frame, Group};
use cowlab_serve::{Family, Kind, Value, build};

/// Name, unit, help, and whose figure; absent where it is not known.
type Row<T> = (Kind, &'static str, Option<&'static str>, &'static str, fn(&T) -> Option<f64>);

const BYTES: Option<&str> = Some("bytes");
const SECONDS: Option<&str> = Some("seconds");

/// Of each name.
const OF_GROUPS: [Row<Group>; 13] = [
    (Kind::Counter, "cowlab_forks", None, "Forks that copied page tables", |group| {
        whole(group.totals.forks)
    }),
    (
        Kind::Counter,
        "cowlab_spawns",
        None,
        "Processes made with shared memory: vfork, posix_spawn",
        |group| whole(group.totals.spawns),
    ),
    (Kind::Counter, "cowlab_execs", None, "Programs executed", |group| whole(group.totals.execs)),
    (Kind::Counter, "cowlab_exits", None, "Processes that ended", |group| {
        whole(group.totals.exits)
    }),
    (Kind::Counter, "cowlab_minor_faults", None, "Minor page faults", |group| {
        whole(Some(group.totals.minor_faults))
    }),
    (
        Kind::Counter,
        "cowlab_write_faults_on_present_pages",
        None,
        "Faults of writes to present pages: copies and re-uses (watch --count)",
        |group| whole(group.totals.writes_to_present),
    ),
    (
        Kind::Counter,
        "cowlab_copied",
        BYTES,
        "What children had for themselves when they ended or executed something",
        |group| whole(Some(group.totals.copied_bytes)),
    ),
    (Kind::Gauge, "cowlab_processes", None, "Processes alive, children included", |group| {
        whole(Some(group.processes))
    }),
    (
        Kind::Gauge,
        "cowlab_resident",
        BYTES,
        "VmRSS, summed: shared pages count for each",
        |group| whole(group.rss_bytes),
    ),
    (
        Kind::Gauge,
        "cowlab_page_tables",
        BYTES,
        "Page tables, which a fork copies at once",
        |group| whole(group.page_table_bytes),
    ),
    (Kind::Gauge, "cowlab_epoch_copied", BYTES, "Copied for children that are alive", |group| {
        whole(group.epoch_copied_bytes)
    }),
    (
        Kind::Gauge,
        "cowlab_epoch_shared",
        BYTES,
        "Shared still with children that are alive: could yet be copied",
        |group| whole(group.epoch_shared_bytes),
    ),
    (
        Kind::Gauge,
        "cowlab_fork_commit",
        BYTES,
        "The most that a fork of one of them asks the kernel to promise: VmData and VmStk",
        |group| whole(group.fork_commit_bytes),
    ),
];

/// Of watching itself, and of the machine.
const OF_WATCHING: [Row<Frame>; 10] = [
    (Kind::Counter, "cowlab_watch_cpu", SECONDS, "CPU time that watching took", |frame| {
        Some(frame.own.cpu_ns as f64 / 1e9)
    }),
    (Kind::Gauge, "cowlab_watch_resident", BYTES, "Memory that watching takes", |frame| {
        whole(frame.own.rss_bytes)
    }),
    (
        Kind::Counter,
        "cowlab_watch_lost_events",
        None,
        "Forks, ends and execs that were not read soon enough",
        |frame| whole(frame.own.lost_events),
    ),
    (
        Kind::Counter,
        "cowlab_watch_unread_events",
        None,
        "Forks, ends and execs that were counted, and whose processes there was no time to read",
        |frame| whole(frame.own.unread_events),
    ),
    (
        Kind::Counter,
        "cowlab_watch_lost_processes",
        None,
        "Processes that there was no room to watch",
        |frame| whole(frame.own.lost_processes),
    ),
    (
        Kind::Counter,
        "cowlab_watch_skipped_frames",
        None,
        "Frames that were not printed, as nobody read the ones before",
        |frame| whole(frame.own.skipped_frames),
    ),
    (
        Kind::Counter,
        "cowlab_watch_unrecorded_frames",
        None,
        "Frames that could not be written to the recording",
        |frame| whole(frame.own.unrecorded_frames),
    ),
    (
        Kind::Gauge,
        "cowlab_watch_refresh_timestamp",
        SECONDS,
        "When the figures were read, since 1970",
        |frame| Some(frame.time_unix_ns as f64 / 1e9),
    ),
    (
        Kind::Gauge,
        "cowlab_commit_room",
        BYTES,
        "Memory that the kernel may still promise (only where vm.overcommit_memory is 2)",
        |frame| whole(frame.room.commit_bytes),
    ),
    (
        Kind::Gauge,
        "cowlab_task_room",
        None,
        "Tasks that the machine may still have: kernel.threads-max, kernel.pid_max",
        |frame| whole(frame.room.tasks),
    ),
];

fn whole(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

/// The metrics of a frame.
pub fn of(frame: &Frame) -> Vec<Family> {
    let label = |group: &Group| vec![("process", group.name.clone())];
    let mut families: Vec<Family> = OF_GROUPS
        .iter()
        .map(|&(kind, name, unit, help, of)| {
            let row = |group| Some((label(group), Value::Number(of(group)?)));
            Family { name, help, unit, kind, rows: frame.groups.iter().filter_map(row).collect() }
        })
        .collect();
    let seconds = |ns: u64| ns as f64 / 1e9;
    let stops = |group: &Group| {
        let stops = group.totals.stops.as_ref()?;
        // What is longer than all bounds is in the bucket of +Inf.
        let buckets =
            stops.by_bound().map(|(bound, count)| (bound.map_or(f64::INFINITY, seconds), count));
        let (sum, buckets) = (seconds(stops.sum_ns), buckets.collect());
        Some((label(group), Value::Histogram { sum, buckets }))
    };
    families.push(Family {
        name: "cowlab_fork_stop",
        help: "How long a fork stopped the thread that forked",
        unit: SECONDS,
        kind: Kind::Histogram,
        rows: frame.groups.iter().filter_map(stops).collect(),
    });
    // What is not known is named all the same, without a value: rules are checked against the names.
    families.extend(OF_WATCHING.iter().map(|&(kind, name, unit, help, of)| {
        let rows = of(frame).map(|value| (Vec::new(), Value::Number(value))).into_iter().collect();
        Family { name, help, unit, kind, rows }
    }));
    families.push(build());
    families
}

#[cfg(test)]
mod tests {
    use super::super::stream::tests::example;
    use super::*;

    fn encoded(frame: &Frame) -> String {
        cowlab_serve::text_of(&of(frame))
    }

    #[test]
    fn figures_have_base_units_and_one_label() {
        let text = encoded(&example());
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
            "cowlab_fork_commit_bytes{process=\"redis-server\"} 2147483648\n",
            "cowlab_task_room 31000\n",
            "cowlab_build_info{version=",
        ] {
            assert!(text.contains(expected), "{expected}:\n{text}");
        }
        assert!(!text.contains("\ncowlab_commit_room"), "there is no such limit:\n{text}");
        assert!(!text.contains("epoch_shared_bytes{"), "what is not known is absent:\n{text}");
    }

    #[test]
    fn what_cannot_be_seen_is_absent_and_never_0() {
        let mut frame = example();
        frame.sees = Default::default();
        let text = encoded(&frame.only_seen());
        for absent in [
            "cowlab_forks_total{",
            "cowlab_exits_total{",
            "fork_stop_seconds_count{",
            "present_pages_total{",
            "\ncowlab_watch_lost_",
        ] {
            assert!(!text.contains(absent), "{absent}:\n{text}");
        }
        assert!(text.contains("cowlab_minor_faults_total{"));
    }
}
