// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A frame as metrics, in Prometheus's conventions: base units, `_total` on counters, and one label,
//! the process's name, of which there are no more than the book keeps apart.

use cowlab_observe::watch::{Frame, Group};
use cowlab_serve::{Family, Kind, Metric, Value, build, metrics};

/// Of each name.
const OF_GROUPS: &[Metric<Group>] = metrics! {
    Counter "cowlab_forks", "Forks that copied page tables", |of| whole(of.totals.forks);
    Counter "cowlab_spawns", "Processes made with shared memory: vfork, posix_spawn",
        |of| whole(of.totals.spawns);
    Counter "cowlab_execs", "Programs executed", |of| whole(of.totals.execs);
    Counter "cowlab_exits", "Processes that ended", |of| whole(of.totals.exits);
    Counter "cowlab_minor_faults", "Minor page faults", |of| whole(Some(of.totals.minor_faults));
    Counter "cowlab_write_faults_on_present_pages",
        "Faults of writes to present pages: copies and re-uses (watch --count)",
        |of| whole(of.totals.writes_to_present);
    Counter "cowlab_copied" in bytes,
        "What children had for themselves when they ended or executed something",
        |of| whole(Some(of.totals.copied_bytes));
    Gauge "cowlab_processes", "Processes alive, children included", |of| whole(Some(of.processes));
    Gauge "cowlab_resident" in bytes, "VmRSS, summed: shared pages count for each",
        |of| whole(of.rss_bytes);
    Gauge "cowlab_page_tables" in bytes, "Page tables, which a fork copies at once",
        |of| whole(of.page_table_bytes);
    Gauge "cowlab_epoch_copied" in bytes, "Copied for children that are alive",
        |of| whole(of.epoch_copied_bytes);
    Gauge "cowlab_epoch_shared" in bytes,
        "Shared still with children that are alive: could yet be copied",
        |of| whole(of.epoch_shared_bytes);
    Gauge "cowlab_fork_commit" in bytes,
        "The most that a fork of one of them asks the kernel to promise: VmData and VmStk",
        |of| whole(of.fork_commit_bytes);
};

/// Of watching itself, and of the machine.
const OF_WATCHING: &[Metric<Frame>] = metrics! {
    Counter "cowlab_watch_cpu" in seconds, "CPU time that watching took",
        |of| Some(of.own.cpu_ns as f64 / 1e9);
    Gauge "cowlab_watch_resident" in bytes, "Memory that watching takes",
        |of| whole(of.own.rss_bytes);
    Counter "cowlab_watch_lost_events", "Forks, ends and execs that were not read soon enough",
        |of| whole(of.own.lost_events);
    Counter "cowlab_watch_unread_events",
        "Forks, ends and execs that were counted, and whose processes there was no time to read",
        |of| whole(of.own.unread_events);
    Counter "cowlab_watch_lost_processes", "Processes that there was no room to watch",
        |of| whole(of.own.lost_processes);
    Counter "cowlab_watch_skipped_frames",
        "Frames that were not printed, as nobody read the ones before",
        |of| whole(of.own.skipped_frames);
    Gauge "cowlab_watch_refresh_timestamp" in seconds, "When the figures were read, since 1970",
        |of| Some(of.time_unix_ns as f64 / 1e9);
    Gauge "cowlab_commit_room" in bytes,
        "Memory that the kernel may still promise (only where vm.overcommit_memory is 2)",
        |of| whole(of.room.commit_bytes);
    Gauge "cowlab_task_room",
        "Tasks that the machine may still have: kernel.threads-max, kernel.pid_max",
        |of| whole(of.room.tasks);
};

fn whole(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

/// The metrics of a frame.
pub fn of(frame: &Frame) -> Vec<Family> {
    let label = |group: &Group| vec![("process", group.name.clone())];
    let each = OF_GROUPS.iter().map(|metric| metric.family(&frame.groups, label));
    let mut families: Vec<Family> = each.collect();
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
        unit: Some("seconds"),
        kind: Kind::Histogram,
        rows: frame.groups.iter().filter_map(stops).collect(),
    });
    // What is not known is named all the same, without a value: rules are checked against the names.
    families.extend(OF_WATCHING.iter().map(|metric| metric.family([frame], |_| Vec::new())));
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
