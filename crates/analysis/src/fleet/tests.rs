// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fleets whose differences are known.

use cowlab_schema::calibrate;
use cowlab_store::{Environment, RunInfo, Sample};

use super::*;

/// A run of six rounds: a copy costs `ns`, and a fork 10,000 ns on every machine, as far as they scatter.
fn run(host: usize, kernel: &str, ns: f64, random: &mut StdRng) -> Run {
    use rand::RngExt;
    let machine = Environment {
        host: format!("h{host}"),
        kernel: kernel.to_owned(),
        ..Environment::default()
    };
    let mut samples = Vec::new();
    for rep in 0..6 {
        for (metric, value) in [(calibrate::COW_FAULT_NS, ns), (calibrate::FORK_CALL_NS, 1e4)] {
            let value = value * (1.0 + 0.02 * random.random::<f64>());
            samples.push(Sample { rep, ..Sample::of(metric, Default::default(), value) });
        }
    }
    Run { info: RunInfo::begin("calibrate", 1, machine), samples }
}

/// Hosts with the older kernel or the newer, whose copies cost `more` times as much; with a `scatter` each
/// has both, and is dearer than the one before.
fn fleet(by: &str, hosts: usize, more: f64, scatter: f64) -> Fleet {
    let mut random = StdRng::seed_from_u64(5);
    let mut fleet = Fleet::by(&[by.to_owned()], &[], None);
    for host in 0..hosts {
        let own = 1000.0 * (1.0 + scatter * host as f64);
        for (kernel, times) in [("6.1", 1.0), ("6.12", more)] {
            if scatter > 0.0 || (host % 2 == 0) == (kernel == "6.1") {
                fleet.add(&run(host, kernel, own * times, &mut random), &Labels::new());
            }
        }
    }
    fleet
}

fn told(summary: &FleetComparison) -> Vec<(&str, &str)> {
    summary.figures.iter().map(|of| (of.group.as_str(), of.key.metric.as_str())).collect()
}

#[test]
fn a_kernel_that_differs_is_found_and_equal_ones_are_not() {
    let summary = fleet("kernel", 12, 1.2, 0.0).compare(1.0, false);
    assert_eq!((summary.runs, summary.hosts, summary.compared), (12, 12, 4));
    assert_eq!(summary.different_by_chance, Some(0));
    assert_eq!(summary.different, 2);
    let mut groups = told(&summary);
    groups.sort_unstable();
    assert_eq!(groups, [("6.1", "cow_fault_ns"), ("6.12", "cow_fault_ns")]);
    let of = summary.figures.iter().find(|of| of.group == "6.12").unwrap();
    assert!((1.17..1.23).contains(&of.ratio.value) && of.hosts == 6, "{of:?}");
    assert!(of.against == Against::OtherHosts && of.ratio.low > 1.1, "{of:?}");
    assert_eq!(summary.panels.len(), 1);
    assert_eq!(summary.panels[0].groups.len(), 2);
    let equal = fleet("kernel", 12, 1.0, 0.0).compare(1.0, true);
    assert_eq!((equal.different, equal.figures.len()), (0, 4));
}

#[test]
fn hosts_with_both_kernels_are_compared_with_themselves() {
    // They differ among themselves by more than the kernels do.
    let summary = fleet("kernel", 8, 1.05, 0.5).compare(1.0, false);
    assert_eq!(summary.different, 2, "{:?}", told(&summary));
    assert_eq!(summary.figures[0].against, Against::ThemselvesElsewhere);
    assert_eq!(summary.environments_differ, Vec::<String>::new());
    let few = fleet("kernel", 3, 2.0, 0.5).compare(1.0, false);
    assert_eq!((few.different, few.too_few_hosts), (0, 4));
}

#[test]
fn a_host_is_an_outlier_where_it_lies_outside_of_what_hosts_differ_by() {
    let mut fleet = fleet("host", 20, 1.0, 0.0);
    let mut random = StdRng::seed_from_u64(6);
    for _ in 0..3 {
        fleet.add(&run(100, "6.1", 1300.0, &mut random), &Labels::new());
    }
    // One run of three does not make an outlier.
    for ns in [1300.0, 1000.0, 1300.0] {
        fleet.add(&run(101, "6.1", ns, &mut random), &Labels::new());
    }
    let summary = fleet.compare(1.0, false);
    assert_eq!(told(&summary), [("h100", "cow_fault_ns")]);
    assert_eq!((summary.groups[0].name.as_str(), summary.groups[0].runs), ("h100", 3));
    assert_eq!(summary.different_by_chance, None);
    assert_eq!(summary.figures[0].against, Against::Spread);
    let few = self::fleet("host", 6, 1.0, 0.0).compare(1.0, false);
    assert_eq!((few.different, few.too_few_hosts), (0, 12));
}

#[test]
fn folders_say_what_runs_do_not() {
    let mut random = StdRng::seed_from_u64(7);
    let mut fleet = Fleet::by(&["type".into(), "kernel".into()], &[], Some("calibrate"));
    for (host, kind) in [(1, Some("big")), (2, Some("small")), (3, None)] {
        let labels = kind.map(|kind| ("type".to_owned(), kind.to_owned()));
        fleet.add(&run(host, "6.1", 1e3, &mut random), &labels.into_iter().collect());
    }
    assert_eq!((fleet.groups(), fleet.without_key()), (2, 1));
    assert_eq!(Vec::from_iter(fleet.folder_keys()), ["type"]);
    let summary = fleet.compare(1.0, true);
    assert_eq!((summary.runs, summary.without_key), (2, 1));
    assert_eq!(summary.groups[0].name, "big, 6.1");
}

#[test]
fn what_types_differ_by_hides_nothing_within_them() {
    // Types differ by a factor of two, kernels by 10%; one type has one kernel alone.
    let of = |within: &[String], by: &str| {
        let mut random = StdRng::seed_from_u64(8);
        let mut fleet = Fleet::by(&[by.to_owned()], within, None);
        for host in 0..48 {
            let (kind, ns) = [("small", 2000.0), ("big", 1000.0), ("odd", 9000.0)][host % 3];
            let is_new = host % 2 == 0 && kind != "odd";
            let (kernel, times) = if is_new { ("6.12", 1.1) } else { ("6.1", 1.0) };
            let times = if host == 40 { 2.0 } else { times };
            let labels = [("type".to_owned(), kind.to_owned())].into();
            fleet.add(&run(host, kernel, ns * times, &mut random), &labels);
        }
        fleet.compare(1.0, false)
    };
    let copies = |summary: &FleetComparison| {
        summary.figures.iter().filter(|of| of.key.metric == "cow_fault_ns").count()
    };
    let within = of(&["type".to_owned()], "kernel");
    assert_eq!((copies(&of(&[], "kernel")), copies(&within)), (0, 2), "{:?}", told(&within));
    let new = within.figures.iter().find(|of| of.group == "6.12").unwrap();
    assert!((1.07..1.13).contains(&new.ratio.value), "{new:?}");
    let bars = &within.panels[0];
    assert!(bars.groups.iter().all(|(_, of)| (0.9..1.1).contains(&of.value)), "{bars:?}");
    assert_eq!(copies(&of(&[], "host")), 0);
    assert_eq!(told(&of(&["type".to_owned()], "host")), [("h40", "cow_fault_ns")]);
}
