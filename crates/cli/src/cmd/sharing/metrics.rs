// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A look as metrics: gauges by slot, of which there is a fixed number, so that workers that come and
//! go make no new series.

use cowlab_observe::sharing::{Figures, Worker};
use cowlab_serve::{Family, Kind, Labels, Metric, Value, build, metrics};
use rustix::time::{ClockId, clock_gettime};

use super::Looks;

const BYTES: Option<&str> = Some("bytes");
/// Workers without a slot, together.
const REST: &str = "rest";

const OF_WORKERS: &[Metric<Worker>] = metrics! {
    Gauge "cowlab_sharing_own" in bytes, "Private memory that the worker alone maps",
        |of| Some(of.own_bytes as f64);
    Gauge "cowlab_sharing_shared" in bytes, "Private memory that others map as well, since a fork",
        |of| of.shared_bytes.map(|bytes| bytes as f64);
    Gauge "cowlab_sharing_erosion" in bytes_per_second, "How fast the shared memory becomes less",
        |of| of.erosion_bytes_per_s;
};

const OF_FAMILY: &[Metric<Figures>] = metrics! {
    Gauge "cowlab_sharing_resident" in bytes,
        "Rss of the parent and all workers, as ps adds it up",
        |of| of.rss_bytes.map(|bytes| bytes as f64);
    Gauge "cowlab_sharing_used" in bytes,
        "Pss of the parent and all workers: what they use together",
        |of| of.pss_bytes.map(|bytes| bytes as f64);
    Gauge "cowlab_sharing_restart_saves" in bytes,
        "Own memory of the workers above the youngest's",
        |of| of.restart_saves_bytes.map(|bytes| bytes as f64);
};

/// The metrics of the newest look.
pub fn of(looks: &Looks) -> Vec<Family> {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let mut families = of_figures(&looks.figures);
    let own = [
        (Kind::Gauge, "cowlab_sharing_look_timestamp", "When the figures were so, since 1970", {
            looks.looked.as_millisecond() as f64 / 1e3
        }),
        (Kind::Counter, "cowlab_sharing_cpu", "CPU time that looking took", {
            cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9
        }),
    ];
    families.extend(own.map(|(kind, name, help, value)| {
        let rows = vec![(Labels::new(), Value::Number(value))];
        Family { name, help, unit: Some("seconds"), kind, rows }
    }));
    families.push(build());
    families
}

fn of_figures(of: &Figures) -> Vec<Family> {
    let process = || ("process", of.name.clone());
    let gauge = |name, help, unit, rows: Vec<(Labels, f64)>| {
        let rows = rows.into_iter().map(|(labels, value)| (labels, Value::Number(value))).collect();
        Family { name, help, unit, kind: Kind::Gauge, rows }
    };
    let mut families: Vec<Family> = OF_WORKERS
        .iter()
        .map(|&Metric { name, unit, help, of: figure, .. }| {
            let label = |slot: &str| vec![process(), ("slot", slot.to_owned())];
            let known = |one: &&Worker| Some((one.slot, figure(one)?));
            let all: Vec<_> = of.forked().filter_map(|one| known(&one)).collect();
            let rest: Vec<f64> =
                all.iter().filter(|(slot, _)| slot.is_none()).map(|(_, v)| *v).collect();
            let slots =
                all.iter().filter_map(|(slot, value)| Some((label(&(*slot)?.to_string()), *value)));
            let mut rows: Vec<_> = slots.collect();
            if !rest.is_empty() {
                rows.push((label(REST), rest.iter().sum()));
            }
            gauge(name, help, unit, rows)
        })
        .collect();
    families.extend(OF_FAMILY.iter().map(|metric| metric.family([of], |_| vec![process()])));
    let saved = [
        ("fork", of.saved.fork_bytes),
        ("files", of.saved.file_bytes),
        ("shm", of.saved.shm_bytes),
    ];
    let row = |(by, bytes): (&str, Option<u64>)| {
        Some((vec![process(), ("by", by.to_owned())], bytes? as f64))
    };
    families.push(gauge(
        "cowlab_sharing_saved",
        "What sharing saves, by what shares it",
        BYTES,
        saved.into_iter().filter_map(row).collect(),
    ));
    let count = of.forked().count();
    // None that can be seen is not none.
    let is_known = count > 0 || of.unseen.is_empty();
    let workers = is_known.then(|| (vec![process()], count as f64)).into_iter().collect();
    families.push(gauge(
        "cowlab_sharing_workers",
        "Workers that live and may be read",
        None,
        workers,
    ));
    let unseen = vec![(vec![process()], of.unseen.len() as f64)];
    let help = "Children that may not be read: root, or CAP_SYS_PTRACE, would see them";
    families.push(gauge("cowlab_sharing_unseen", help, None, unseen));
    families
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::example;
    use super::*;

    #[test]
    fn workers_have_slots_and_what_has_none_is_summed() {
        let mut figures = example();
        figures.workers[2].slot = None;
        figures.workers[3].slot = None;
        figures.workers[1].erosion_bytes_per_s = None;
        let text = cowlab_serve::text_of(&of_figures(&figures));
        for expected in [
            "cowlab_sharing_own_bytes{process=\"gunicorn\",slot=\"0\"} 83886080\n",
            "cowlab_sharing_own_bytes{process=\"gunicorn\",slot=\"rest\"} 83886080\n",
            "cowlab_sharing_erosion_bytes_per_second{process=\"gunicorn\",slot=\"rest\"} 10\n",
            "cowlab_sharing_saved_bytes{process=\"gunicorn\",by=\"fork\"} 546308096\n",
            "cowlab_sharing_workers{process=\"gunicorn\"} 3\n",
            "cowlab_sharing_unseen{process=\"gunicorn\"} 0\n",
        ] {
            assert!(text.contains(expected), "{expected}{text}");
        }
        assert!(!text.contains("erosion_bytes_per_second{process=\"gunicorn\",slot=\"0\"}"));
        figures.workers.truncate(1);
        figures.unseen = vec![9];
        let text = cowlab_serve::text_of(&of_figures(&figures));
        assert!(!text.contains("cowlab_sharing_workers{"), "none that can be seen is not none");
    }
}
