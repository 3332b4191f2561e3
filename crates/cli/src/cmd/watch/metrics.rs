// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A frame as metrics, in Prometheus's conventions: base units, `_total` on counters, and one label,
//! the process's name, of which there are no more than the book keeps apart.

use cowlab_machine::Room;
use cowlab_observe::watch::{Frame, Group, Own, Totals};
use cowlab_schema::live::Kind;

use crate::serve::{Family, Labels, Value, build, families};

/// The metrics of a frame. What is not known is named all the same, without a value: rules are checked
/// against the names.
pub fn of(frame: &Frame) -> Vec<Family> {
    let label = |group: &Group| vec![("process", group.name.clone())];
    let totals: Vec<_> = frame.groups.iter().map(|group| (label(group), &group.totals)).collect();
    let groups: Vec<_> = frame.groups.iter().map(|group| (label(group), group)).collect();
    let seconds = |ns: u64| ns as f64 / 1e9;
    let stops = |group: &Group| {
        let stops = group.totals.stops.as_ref()?;
        // What is longer than all bounds is in the bucket of +Inf.
        let buckets =
            stops.by_bound().map(|(bound, count)| (bound.map_or(f64::INFINITY, seconds), count));
        let (sum, buckets) = (seconds(stops.sum_ns), buckets.collect());
        Some((label(group), Value::Histogram { sum, buckets }))
    };
    let stops = Family {
        name: "cowlab_fork_stop",
        help: "How long a fork stopped the thread that forked",
        unit: Some("seconds"),
        kind: Kind::Histogram,
        rows: frame.groups.iter().filter_map(stops).collect(),
    };
    [
        families(Totals::FIGURES, &totals),
        families(Group::FIGURES, &groups),
        vec![stops],
        families(Own::FIGURES, &[(Labels::new(), &frame.own)]),
        families(Frame::FIGURES, &[(Labels::new(), frame)]),
        families(Room::FIGURES, &[(Labels::new(), &frame.room)]),
        vec![build()],
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::super::stream::tests::example;
    use super::*;

    fn encoded(frame: &Frame) -> String {
        crate::serve::text_of(&of(frame))
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
