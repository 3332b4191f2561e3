// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A look as metrics: gauges by slot, of which there is a fixed number, so that workers that come and
//! go make no new series.

use cowlab_observe::sharing::{Figures, Worker};
use cowlab_schema::live::Kind;
use rustix::time::{ClockId, clock_gettime};

use super::Looks;
use crate::serve::{Family, Labels, Value, build, families};

/// Workers without a slot, together.
const REST: &str = "rest";

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

fn of_figures(figures: &Figures) -> Vec<Family> {
    let process = || ("process", figures.name.clone());
    let slot = |slot: &str| vec![process(), ("slot", slot.to_owned())];
    let (slotted, others): (Vec<&Worker>, Vec<&Worker>) =
        figures.forked().partition(|worker| worker.slot.is_some());
    let slotted: Vec<_> = slotted
        .into_iter()
        .map(|worker| (slot(&worker.slot.unwrap_or_default().to_string()), worker))
        .collect();
    let mut all = families(Worker::FIGURES, &slotted);
    let scraped = Worker::FIGURES.iter().copied().flatten().filter(|it| it.scraped.is_some());
    for (family, figure) in all.iter_mut().zip(scraped) {
        let rest: Vec<f64> = others.iter().filter_map(|one| figure.scraped_value(one)).collect();
        if !rest.is_empty() {
            family.rows.push((slot(REST), Value::Number(rest.iter().sum())));
        }
    }
    all.extend(families(Figures::FIGURES, &[(vec![process()], figures)]));
    let gauge = |name, help, unit, rows: Vec<(Labels, f64)>| {
        let rows = rows.into_iter().map(|(labels, value)| (labels, Value::Number(value))).collect();
        Family { name, help, unit, kind: Kind::Gauge, rows }
    };
    let saved = [
        ("fork", figures.saved.fork_bytes),
        ("files", figures.saved.file_bytes),
        ("shm", figures.saved.shm_bytes),
    ];
    let row = |(by, bytes): (&str, Option<u64>)| {
        Some((vec![process(), ("by", by.to_owned())], bytes? as f64))
    };
    all.push(gauge(
        "cowlab_sharing_saved",
        "What sharing saves, by what shares it",
        Some("bytes"),
        saved.into_iter().filter_map(row).collect(),
    ));
    let count = figures.forked().count();
    // None that can be seen is not none.
    let is_known = count > 0 || figures.unseen.is_empty();
    let workers = is_known.then(|| (vec![process()], count as f64)).into_iter().collect();
    all.push(gauge("cowlab_sharing_workers", "Workers that live and may be read", None, workers));
    let unseen = vec![(vec![process()], figures.unseen.len() as f64)];
    let help = "Children that may not be read: root, or CAP_SYS_PTRACE, would see them";
    all.push(gauge("cowlab_sharing_unseen", help, None, unseen));
    all
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
        let text = crate::serve::text_of(&of_figures(&figures));
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
        let text = crate::serve::text_of(&of_figures(&figures));
        assert!(!text.contains("cowlab_sharing_workers{"), "none that can be seen is not none");
    }
}
