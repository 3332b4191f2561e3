// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Advice on a machine whose costs are round numbers.

use super::*;
use crate::application::{Children, MappingShare, Region, Replay};
use crate::profile::{Cost, CycleCurve, CyclePoint, Measured, Writer, WrittenCycle};
use crate::stats::Estimate;

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;

/// 40 ns an entry, 2 µs a copy (10 µs with another running thread), 300 ns a huge page's entry,
/// 8 µs a split.
fn machine() -> MachineProfile {
    let measured = |ns: f64| Measured { ns, log_spread: 0.01 };
    let curve = |threads: u32, copy_ns: f64| {
        let point = |pages: u64| {
            let p = pages as f64;
            CyclePoint {
                pages,
                fork: measured(30_000.0 + 40.0 * p),
                rest: measured(20_000.0 + 60.0 * p),
                written: (pages > 0).then(|| WrittenCycle {
                    fork: measured(30_000.0 + 40.0 * p),
                    write: measured(copy_ns * p),
                    rest: measured(20_000.0 + 160.0 * p),
                }),
            }
        };
        CycleCurve {
            writer: Writer::Parent,
            threads,
            rounds: 5,
            misfit: Some(0.01),
            points: [0, 256, 4096, 262_144].map(point).into(),
        }
    };
    let cost = |(name, value): (&str, f64)| {
        let estimate = Estimate { value, low: value * 0.99, high: value * 1.01, count: 5 };
        (name.to_owned(), Cost { name: name.into(), unit: "ns".into(), estimate })
    };
    let costs = [
        ("thp_fork_among_work_ns_per_huge_page", 300.0),
        ("thp_split_ns", 8000.0),
        ("thp_split_threads_ns", 100_000.0),
        ("memcpy_ns_per_page", 400.0),
        ("copy_ns_per_page", 400.0),
        ("cow_populate_ns", 1600.0),
        ("trap_ns", 400.0),
        ("fork_call_ns", 30_000.0),
        ("unpinned_process_ns", 100_000.0),
    ];
    MachineProfile {
        page_size_bytes: PAGE,
        huge_page_bytes: Some(HUGE),
        costs: costs.map(cost).into(),
        curves: vec![curve(0, 2000.0), curve(1, 10_000.0)],
        entries_among_work: Vec::new(),
        copies_by_pace: Vec::new(),
        copies_in_order: Vec::new(),
        is_usual: false,
    }
}

/// A server of 1 GiB of which 10% is written: 100 regions whole, one page in each of 100 others.
fn server() -> ApplicationProfile {
    let region = |written| Region { pages: 512, written };
    let mut regions = vec![region(512); 100];
    regions.extend(vec![region(1); 100]);
    regions.extend(vec![region(0); 312]);
    let mapping = |name: &str, pages, written| MappingShare { name: name.into(), pages, written };
    ApplicationProfile {
        mappings: vec![
            mapping("heap", 180_000, 51_000),
            mapping("cache", 80_000, 300),
            mapping("stack", 2144, 0),
        ],
        regions: Some(regions),
        ..ApplicationProfile::of_pages(262_144, 51_300)
    }
}

fn near(seen: Predicted, expected: f64) {
    assert!((seen.value / expected - 1.0).abs() < 0.02, "{seen:?}, expected {expected}");
    assert!(seen.low <= seen.value && seen.value <= seen.high, "{seen:?}");
}

/// With every policy of a patched kernel asked for.
fn patched() -> Surroundings {
    let policies = ["next", "ccow", "defer"].map(str::to_owned).into();
    Surroundings { policies, ..Surroundings::default() }
}

fn of(advice: &[Advice], choice: &Choice) -> Advice {
    advice.iter().find(|one| one.choice == *choice).expect("is among the advice").clone()
}

#[test]
fn each_choice_is_priced() {
    let plain = advise(&machine(), &server(), &Surroundings::default()).unwrap();
    assert!(!plain.iter().any(|one| matches!(one.choice, Choice::Policy(_))), "nobody asked");
    let advice = advise(&machine(), &server(), &patched()).unwrap();
    assert_eq!(advice[0].choice, Choice::AsItIs);
    let forecast = |choice: &Choice| of(&advice, choice).forecast.unwrap();
    let now = forecast(&Choice::AsItIs);
    near(now.stop_ns, 30_000.0 + 40.0 * 262_144.0);
    near(now.writes_ns, 2000.0 * 51_300.0);
    near(now.extra_bytes, 51_300.0 * 4096.0 + 8.0 * 262_144.0);

    // Of 512 huge pages each fork's writes split 200, and nobody joins them: after ten 4 are left, of which
    // 2 are split by the next.
    let thp = forecast(&Choice::Thp);
    near(thp.stop_ns, 30_000.0 + 300.0 * 4.0 + 40.0 * 508.0 * 512.0);
    near(thp.writes_ns, 8000.0 * 2.0 + 2000.0 * 51_298.0);
    // At best the same 200 each time.
    assert!(thp.stop_ns.low <= 30_000.0 + 300.0 * 312.0 + 40.0 * 200.0 * 512.0);
    // All regions are full, and those that are written are split again.
    let tend = forecast(&Choice::Tend);
    near(tend.stop_ns, 30_000.0 + 300.0 * 512.0);
    near(tend.writes_ns, 8000.0 * 200.0 + 2000.0 * 51_100.0);
    // Each written region is copied whole.
    let hugetlb = forecast(&Choice::Hugetlb);
    near(hugetlb.writes_ns, 200.0 * (512.0 * 400.0 + 400.0));
    near(hugetlb.extra_bytes, 200.0 * HUGE as f64);
    // 100 whole regions take one fault each, the 100 single pages as before.
    let coverage = forecast(&Choice::Policy("ccow:80".into()));
    near(coverage.writes_ns, 200.0 * 2000.0 + 51_100.0 * 1000.0);
    assert_eq!(coverage.extra_bytes.value, now.extra_bytes.value);
    let spawn = forecast(&Choice::Spawn);
    assert!(spawn.stop_ns.high < now.stop_ns.low && spawn.extra_bytes.value == 0.0);
}

#[test]
fn what_children_do_decides_what_is_possible() {
    let of_children = |children, has_collector| {
        let known = ApplicationProfile { children, has_collector, ..server() };
        advise(&machine(), &known, &Surroundings::default()).unwrap()
    };
    // A child that reads what was left out is killed: a Redis that saves would lose its snapshots.
    for children in [Children::Save, Children::Serve, Children::Unknown] {
        let advice = of_children(children, false);
        assert!(
            !advice.iter().any(|one| matches!(one.choice, Choice::DontFork(_))),
            "{children:?}"
        );
        assert_eq!(of(&advice, &Choice::Spawn).forecast.is_err(), children.need_memory());
        assert!(of(&advice, &Choice::Freeze).forecast.is_err());
        assert_eq!(advice[1].choice, Choice::Tend);
    }
    assert_eq!(Children::of("redis-server"), Children::Save);
    // Under `always` it forbids huge pages to itself.
    let saves = of(&of_children(Children::Save, false), &Choice::Thp).step;
    assert!(saves.contains("= madvise") && saves.contains("disable-thp no"), "{saves}");
    let advice = of_children(Children::Execute, false);
    let cache = of(&advice, &Choice::DontFork("cache".into())).forecast.unwrap();
    near(cache.stop_ns, 30_000.0 + 40.0 * 182_144.0);
    near(cache.writes_ns, 2000.0 * 51_000.0);
    let advice = of_children(Children::Serve, true);
    let now = advice[0].forecast.clone().unwrap();
    let freeze = of(&advice, &Choice::Freeze).forecast.unwrap();
    assert_eq!((freeze.writes_ns.low, freeze.stop_ns), (0.0, now.stop_ns));
    assert!(freeze.writes_ns.high >= now.writes_ns.value);
    // No more than the collector copied.
    let collected = |share| {
        let server =
            ApplicationProfile { has_collector: true, collector_share: Some(share), ..server() };
        let advice = advise(&machine(), &server, &Surroundings::default()).unwrap();
        of(&advice, &Choice::Freeze)
    };
    let some = collected(0.4);
    assert!(some.notes[0].contains("40% of the copies came from the collector"), "{some:?}");
    let then = some.forecast.unwrap();
    assert!((then.writes_ns.low / (0.6 * now.writes_ns.low) - 1.0).abs() < 1e-9, "{then:?}");
    assert!((then.extra_bytes.low / (0.6 * 51_300.0 * 4096.0) - 1.0).abs() < 0.02, "{then:?}");
    let none = collected(0.0).forecast.unwrap_err();
    assert_eq!(none, "nothing here: 0% of the copies came from the collector");
}

#[test]
fn the_heap_that_was_looked_at_counts_for_tend() {
    let looked = ApplicationProfile { collapsible_regions: Some(500), regions: None, ..server() };
    let advice = advise(&machine(), &looked, &Surroundings::default()).unwrap();
    let tend = of(&advice, &Choice::Tend);
    near(tend.forecast.unwrap().stop_ns, 30_000.0 + 40.0 * 12.0 * 512.0 + 300.0 * 500.0);
    assert!(tend.notes[0].contains("as it is now"), "{:?}", tend.notes);
    let advice = advise(&machine(), &server(), &Surroundings::default()).unwrap();
    let tend = of(&advice, &Choice::Tend);
    assert!(tend.notes[0].contains("as the footprint found it"), "{:?}", tend.notes);
}

#[test]
fn what_takes_least_comes_first_and_is_named() {
    let advice = advise(&machine(), &server(), &Surroundings::default()).unwrap();
    let now = advice[0].forecast.clone().unwrap();
    let class = |one: &Advice| match &one.forecast {
        Ok(then) if then.saves_of(&now) => (0, one.choice.means()),
        Ok(_) => (1, one.choice.means()),
        Err(_) => (2, one.choice.means()),
    };
    assert!(advice[1..].is_sorted_by_key(class));
    assert_eq!(advice[1].choice, Choice::Tend);
    // A setting that saves more time does not keep it from being named.
    let setting = |share: f64| {
        let then = Forecast {
            stop_ns: exactly(now.stop_ns.value * share),
            writes_ns: exactly(now.writes_ns.value * share),
            ..now
        };
        Advice { choice: Choice::Thp, forecast: Ok(then), ..advice[1].clone() }
    };
    let named = |all: &[Advice]| best(all).unwrap().0.choice.clone();
    assert_eq!(named(&[advice[0].clone(), setting(0.5), advice[1].clone()]), Choice::Tend);
    assert_eq!(named(&[advice[0].clone(), setting(0.5)]), Choice::Thp);
    assert_eq!(best(&[advice[0].clone(), setting(0.95)]), None, "it saves less than a tenth");
    let running = Surroundings { target: Some("redis-server".into()), ..Surroundings::default() };
    let steps = advise(&machine(), &server(), &running).unwrap()[1].step.clone();
    assert_eq!(
        steps,
        "cowlab tend redis-server --dry-run, then keep cowlab tend redis-server running"
    );
    let busy = ApplicationProfile { threads: 1.0, ..server() };
    let advice = advise(&machine(), &busy, &Surroundings::default()).unwrap();
    let alone = of(&advice, &Choice::FewerThreads);
    near(alone.forecast.unwrap().writes_ns, 2000.0 * 51_300.0);
    assert_eq!(alone.choice.means(), Means::Program);
}

#[test]
fn what_cannot_be_said_or_tried_says_why() {
    let plain = ApplicationProfile::of_pages(10_000, 1000);
    let around = Surroundings {
        no_tend: Some("process 7 has switched huge pages off for itself".into()),
        mthp_sizes_bytes: vec![65536],
        ..patched()
    };
    let advice = advise(&machine(), &plain, &around).unwrap();
    let why = |choice: &Choice| of(&advice, choice).forecast.unwrap_err();
    assert!(why(&Choice::Tend).starts_with("process 7"));
    assert!(why(&Choice::Policy("next".into())).contains("order of the writes"));
    assert!(!advice.iter().any(|one| matches!(one.choice, Choice::FewerThreads)));
    let folios = of(&advice, &Choice::Mthp(65536));
    assert!(
        folios.forecast.unwrap().stop_ns.high >= advice[0].forecast.clone().unwrap().stop_ns.value
    );
    // A page of each folio is written after each fork: none is whole at the next.
    let (scattered, still) = (plain.clone(), ApplicationProfile { written: 0, ..plain.clone() });
    let stop = |of: &ApplicationProfile| {
        let advice = advise(&machine(), of, &around).unwrap();
        let stop = |of: &Advice| of.forecast.clone().unwrap().stop_ns.value;
        stop(&self::of(&advice, &Choice::Mthp(65536))) / stop(&advice[0])
    };
    assert!(stop(&scattered) > 0.99 && stop(&still) < 0.75);
    for one in &advice {
        assert!(one.forecast.is_ok() || one.forecast.clone().unwrap_err().len() > 10);
    }
    let mapless = advise(&machine(), &plain, &Surroundings::default()).unwrap();
    assert!(of(&mapless, &Choice::Tend).forecast.unwrap_err().contains("coverage map"));
    let no_thp = MachineProfile { huge_page_bytes: None, ..machine() };
    let advice = advise(&no_thp, &plain, &around).unwrap();
    assert!(of(&advice, &Choice::Hugetlb).forecast.unwrap_err().contains("calibrate"));
    let worker = ApplicationProfile { children: Children::Save, ..plain.clone() };
    let advice = advise(&machine(), &worker, &around).unwrap();
    assert!(of(&advice, &Choice::Spawn).forecast.unwrap_err().contains("parent's memory"));
    let too_many = ApplicationProfile::of_pages(10, 11);
    advise(&machine(), &too_many, &around).unwrap_err();
}

#[test]
fn a_server_that_can_save_without_a_fork_is_told_how() {
    let saves = ApplicationProfile { children: Children::Save, ..server() };
    let asked = |is_valkey, version, saves_without_fork| {
        let server = Some(Server { is_valkey, version, saves_without_fork });
        let around = Surroundings { server, ..Surroundings::default() };
        let advice = advise(&machine(), &saves, &around).unwrap();
        advice.into_iter().find(|one| matches!(one.choice, Choice::Forkless(_))).unwrap()
    };
    let new = asked(true, (9, 2), Some(false));
    assert_eq!((new.choice.means(), new.forecast.unwrap().time_ns()), (Means::Setting, 0.0));
    assert!(asked(true, (10, 0), Some(true)).forecast.unwrap_err().starts_with("it saves so"));
    let old = asked(true, (9, 1), None);
    assert_eq!(old.choice.means(), Means::Program);
    assert!(old.step.ends_with("this is Valkey 9.1"), "{}", old.step);
    assert!(asked(false, (9, 9), None).step.ends_with("this is Redis 9.9"));
    let others = advise(&machine(), &server(), &Surroundings::default()).unwrap();
    assert!(!others.iter().any(|one| matches!(one.choice, Choice::Forkless(_))));
}

#[test]
fn what_is_saved_of_a_fork_is_saved_of_its_period() {
    let of = |ns: f64| Forecast {
        stop_ns: exactly(ns),
        writes_ns: exactly(ns),
        rest_ns: exactly(ns),
        extra_bytes: exactly(0.0),
    };
    // 10 ms, of which 3 are the fork's; then 7 are left.
    assert!((of(0.0).forks_per_s(&of(1e6), 100.0) - 1000.0 / 7.0).abs() < 1e-6);
    assert!((of(2e6).forks_per_s(&of(1e6), 100.0) - 1000.0 / 13.0).abs() < 1e-6);
    // More than there is time for cannot be saved.
    assert!((of(1e6).forks_per_s(&of(1e8), 100.0) - 1000.0 / 3.0).abs() < 1e-6);
}

#[test]
fn replays_and_huge_pages_that_are_there_already() {
    let replay = Replay { policy: "next".into(), faults: 30_000, ahead: 21_300, wasted: 0 };
    let known = ApplicationProfile { replays: vec![replay], ..server() };
    let advice = advise(&machine(), &known, &patched()).unwrap();
    let next = of(&advice, &Choice::Policy("next".into())).forecast.unwrap();
    near(next.writes_ns, 30_000.0 * 2000.0 + 21_300.0 * 1000.0);

    let huge = ApplicationProfile { huge_pages: 512, ..server() };
    let advice = advise(&machine(), &huge, &Surroundings::default()).unwrap();
    near(advice[0].forecast.clone().unwrap().stop_ns, 30_000.0 + 300.0 * 512.0);
}

#[test]
fn a_kernel_that_defers_page_tables_shortens_the_stop_and_makes_writes_dearer() {
    let defer = |profile: &MachineProfile, of: &ApplicationProfile| {
        let advice = advise(profile, of, &patched()).unwrap();
        self::of(&advice, &Choice::Policy("defer".into()))
    };
    let known = defer(&machine(), &server());
    assert_eq!(known.choice.means(), Means::Kernel);
    assert!(known.notes[0].contains("a patched kernel would"), "{:?}", known.notes);
    let then = known.forecast.unwrap();
    // Page tables of its stack and of the file are copied now, 352 are marked.
    near(then.stop_ns, 30_000.0 + 40.0 * (82_144.0 + 28.0 + 0.98 * 352.0));
    // 200 of them are written to.
    near(then.writes_ns, 2000.0 * 51_300.0 + 200.0 * 512.0 * 40.0);
    assert!(then.writes_ns.low < 2000.0 * 51_300.0);
    let huge = ApplicationProfile { huge_pages: 256, mappings: Vec::new(), ..server() };
    near(
        defer(&machine(), &huge).forecast.unwrap().stop_ns,
        30_000.0 + 40.0 * 28.0 + 256.0 * (300.0 + 0.98 * 40.0),
    );
    let no_thp = MachineProfile { huge_page_bytes: None, ..machine() };
    assert!(defer(&no_thp, &huge).forecast.unwrap_err().contains("calibrate"));
}

#[test]
fn tend_is_not_recommended_to_a_program_that_forks_faster_than_it_joins() {
    let forks = |between_forks_s: f64| ApplicationProfile {
        between_forks_s: Some(between_forks_s),
        ..server()
    };
    let best_of = |profile: &ApplicationProfile| {
        let advice = advise(&machine(), profile, &Surroundings::default()).unwrap();
        let tend = of(&advice, &Choice::Tend).forecast;
        let best = best(&advice).map(|(one, _)| one.choice.clone());
        (tend.err(), best)
    };
    let (why, choice) = best_of(&forks(0.2));
    assert_eq!(why.unwrap(), "cannot keep up: 2.05 s of work between forks 200 ms apart");
    assert_ne!(choice, Some(Choice::Tend));
    assert_eq!(best_of(&forks(20.0)), (None, Some(Choice::Tend)));
}
