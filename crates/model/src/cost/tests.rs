// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::deferred::{MARK_ENTRIES, RECORD_ENTRIES};
use super::*;
use crate::profile::{Cost, EntryPoint, PacePoint, WrittenCycle};
use crate::stats::Estimate;

fn measured(ns: f64) -> Measured {
    Measured { ns, log_spread: 0.01 }
}

/// A machine that obeys Smith and Maguire's (1988) equation exactly: 50 µs for a process, 40 ns for an
/// entry, 60 ns for its end, 2 µs for a copy and 100 ns for its freeing.
fn exact() -> MachineProfile {
    let point = |pages: u64| {
        let p = pages as f64;
        CyclePoint {
            pages,
            fork: measured(30_000.0 + 40.0 * p),
            rest: measured(20_000.0 + 60.0 * p),
            written: (pages > 0).then(|| WrittenCycle {
                fork: measured(30_000.0 + 50.0 * p),
                write: measured(2000.0 * p),
                rest: measured(20_000.0 + 160.0 * p),
            }),
        }
    };
    MachineProfile {
        page_size_bytes: 4096,
        huge_page_bytes: None,
        costs: Default::default(),
        curves: vec![CycleCurve {
            writer: Writer::Child,
            threads: 0,
            rounds: 5,
            misfit: Some(0.01),
            points: [0, 256, 4096, 65536].map(point).into(),
        }],
        entries_among_work: Vec::new(),
        copies_by_pace: Vec::new(),
        copies_in_order: Vec::new(),
        is_usual: false,
    }
}

fn ask(pages: u64, written: u64) -> Question {
    Question {
        pages,
        written,
        written_before: 0,
        writer: Writer::Child,
        threads: 0.0,
        page_size_bytes: 4096,
        split_pages: None,
        among_work: false,
        cpu_ns_per_copy: None,
        nearby_share: None,
        vmas: None,
    }
}

#[test]
fn the_documents_equation_is_reproduced_at_any_size() {
    for (pages, written) in [(0, 0), (10, 5), (300, 100), (10_000, 9_999), (1_000_000, 5)] {
        let answer = predict(&exact(), &ask(pages, written)).unwrap();
        // With the 10 ns more that an entry costs in a loop of forks that writes its page.
        let expected = 50_000.0 + 100.0 * pages as f64 + 2110.0 * written as f64;
        let error = (answer.elapsed_ns.value / expected - 1.0).abs();
        assert!(error < 1e-9, "{pages} pages, {written} written: {error}");
        assert!(answer.elapsed_ns.low < expected && expected < answer.elapsed_ns.high);
        assert_eq!(answer.extra_bytes, written * 4096 + pages * 8);
    }
}

#[test]
fn pages_written_before_the_fork_cost_their_protection() {
    let question = Question { written_before: 1000, ..ask(1000, 0) };
    let answer = predict(&exact(), &question).unwrap();
    assert!((answer.fork_ns.value - (30_000.0 + 50_000.0)).abs() < 1e-6);
}

#[test]
fn an_entry_among_work_costs_what_one_in_a_heap_of_that_size_does() {
    let mut profile = exact();
    let one = Estimate { value: 100.0, low: 90.0, high: 110.0, count: 5 };
    let cost = Cost { name: String::new(), unit: "ns".into(), estimate: one };
    profile.costs.insert(PTE_AMONG_WORK.to_owned(), cost);
    let fork = |profile: &MachineProfile, pages: u64| {
        let question = Question { among_work: true, ..ask(pages, 0) };
        predict(profile, &question).unwrap().fork_ns.value - 30_000.0
    };
    // A profile of before they were measured by size has one figure for all.
    assert_eq!(fork(&profile, 1024).round(), 102_400.0);
    let point = |pages, ns| EntryPoint { pages, entry: measured(ns) };
    profile.entries_among_work = vec![point(1024, 160.0), point(4096, 140.0), point(16_384, 120.0)];
    for (pages, ns) in [(100, 160.0), (1024, 160.0), (2048, 150.0), (8192, 130.0), (1 << 20, 120.0)]
    {
        let found = fork(&profile, pages) / pages as f64;
        assert!((found / ns - 1.0).abs() < 0.01, "{pages}: {found}");
    }
    // The loop's, where that is dearer.
    profile.entries_among_work = vec![point(1024, 10.0)];
    assert_eq!(fork(&profile, 1024).round(), 40_960.0);
}

#[test]
fn copies_among_work_cost_what_was_measured_among_work() {
    let question = Question { among_work: true, ..ask(10_000, 1000) };
    let alone = predict(&exact(), &ask(10_000, 1000)).unwrap();
    let unknown = predict(&exact(), &question).unwrap();
    assert_eq!(unknown.write_ns.value, alone.write_ns.value);
    let tells = |notes: &[String], name: &str| notes.iter().any(|note| note.contains(name));
    assert!(tells(&unknown.notes, AMONG_WORK), "{:?}", unknown.notes);

    let mut profile = exact();
    let estimate = Estimate { value: 3000.0, low: 2980.0, high: 3020.0, count: 4 };
    let cost = Cost { name: "among".to_owned(), unit: "ns".to_owned(), estimate };
    profile.costs.insert(AMONG_WORK.to_owned(), cost);
    let among = predict(&profile, &question).unwrap();
    assert!((among.write_ns.value - 3000.0 * 1000.0).abs() < 1e-6);
    assert!(!tells(&among.notes, AMONG_WORK) && among.write_ns.high > among.write_ns.value);
    assert_eq!(predict(&profile, &ask(10_000, 1000)).unwrap().write_ns, alone.write_ns);
}

#[test]
fn copies_page_after_page_cost_less() {
    let mut profile = exact();
    let point = |own_ns, ns| PacePoint { own_ns, copy: measured(ns) };
    profile.copies_by_pace = vec![point(10.0, 2000.0), point(1000.0, 3000.0)];
    let write = |profile: &MachineProfile, nearby_share| {
        let cpu_ns_per_copy = Some(9000.0);
        let question =
            Question { among_work: true, cpu_ns_per_copy, nearby_share, ..ask(10_000, 1000) };
        predict(profile, &question).unwrap()
    };
    let price = |answer: &Prediction| answer.write_ns.value / 1000.0;
    // A profile of before knows no order.
    assert_eq!(write(&profile, Some(1.0)).write_ns, write(&profile, None).write_ns);
    assert!(write(&profile, None).notes.iter().any(|note| note.contains("copies_in_order")));
    profile.copies_in_order = vec![point(10.0, 1900.0), point(1000.0, 2000.0)];
    let [none, half, all] = [0.0, 0.5, 1.0].map(|share| write(&profile, Some(share)));
    for (answer, ns) in [(&none, 3000.0), (&half, 2500.0), (&all, 2000.0)] {
        assert!((price(answer) / ns - 1.0).abs() < 0.005, "{}", price(answer));
    }
    assert!(all.reasons[0].contains("100% near"), "{:?}", all.reasons);
    // What was not seen is in the middle, in a wider interval, and said.
    let unseen = write(&profile, None);
    assert!((price(&unseen) / 2500.0 - 1.0).abs() < 0.005);
    assert!(unseen.write_ns.high > half.write_ns.high && unseen.write_ns.low < half.write_ns.low);
    assert!(unseen.notes.iter().any(|note| note.contains("--method faults")));
    assert!(half.notes.iter().all(|note| !note.contains("--method faults")));
}

#[test]
fn a_copy_costs_a_quick_program_less() {
    let mut profile = exact();
    let point = |own_ns, ns| PacePoint { own_ns, copy: measured(ns) };
    profile.copies_by_pace = vec![point(10.0, 2000.0), point(1000.0, 3000.0)];
    let write = |profile: &MachineProfile, cpu_ns_per_copy, among_work| {
        let nearby_share = Some(0.0);
        let question = Question { among_work, cpu_ns_per_copy, nearby_share, ..ask(10_000, 1000) };
        let answer = predict(profile, &question).unwrap();
        (answer.write_ns.value / 1000.0, answer.reasons, answer.notes)
    };
    // Of 2,010 ns one copy is 2,000, and of 4,000 one is 3,000; between them what is left depends on it.
    let costs = |cpu_ns, ns: f64| (write(&profile, Some(cpu_ns), true).0 / ns - 1.0).abs() < 0.005;
    assert!(costs(2010.0, 2000.0) && costs(9000.0, 3000.0));
    let (price, reasons, _) = write(&profile, Some(2600.0), true);
    let own_ns = 2600.0 - price;
    let expected = 2000.0 + 500.0 * (own_ns / 10.0).log10();
    assert!((price / expected - 1.0).abs() < 0.005, "{price}");
    assert!(reasons[0].contains("of the program's own work"), "{reasons:?}");
    // A loop is priced as one, and so is what was not seen.
    assert_eq!(write(&profile, Some(2600.0), false), write(&exact(), None, false));
    // A profile of before says what it lacks.
    let (_, reasons, notes) = write(&exact(), Some(2600.0), true);
    assert!(reasons.is_empty() && notes.iter().any(|n| n.contains("copies_by_pace")), "{notes:?}");
}

#[test]
fn what_was_written_before_is_priced_among_work_where_it_is_known() {
    let mut profile = exact();
    let question = Question { among_work: true, written_before: 1000, ..ask(1000, 0) };
    let fork = |profile: &MachineProfile| predict(profile, &question).unwrap().fork_ns.value;
    let by_the_loop = fork(&profile);
    for (ns, less) in [(5.0, 5_000.0), (-3.0, 10_000.0)] {
        let estimate = Estimate { value: ns, low: ns, high: ns, count: 4 };
        let cost = Cost { name: String::new(), unit: "ns".to_owned(), estimate };
        profile.costs.insert(PTE_WRITTEN_AMONG_WORK.to_owned(), cost);
        // The loop's is 10 ns a page.
        assert!((by_the_loop - fork(&profile) - less).abs() < 1e-6, "{ns}");
    }
}

#[test]
fn a_fork_copies_mappings_and_finds_cold_caches() {
    let mut profile = exact();
    let costs =
        [(FORK_AMONG_WORK, 100_000.0), (PTE_AMONG_WORK, 140.0), (VMA_ANON, 1200.0), (VMA, 400.0)];
    for (name, ns) in costs {
        let estimate = Estimate { value: ns, low: ns, high: ns, count: 4 };
        let cost = Cost { name: name.to_owned(), unit: "ns".to_owned(), estimate };
        profile.costs.insert(name.to_owned(), cost);
    }
    let alone = predict(&profile, &ask(1000, 0)).unwrap();
    let own = Vmas::OF_A_PROBE;
    let vmas = Some(Vmas { anon: 300 + own.anon, others: 350 + own.others });
    let question = Question { vmas, among_work: true, ..ask(1000, 0) };
    let answer = predict(&profile, &question).unwrap();
    let more = answer.fork_ns.value - alone.fork_ns.value;
    assert!(
        (more - (100_000.0 + 1000.0 * (140.0 - 40.0) + 300.0 * 1200.0 + 350.0 * 400.0)).abs()
            < 1e-6,
        "{more}"
    );
    assert_eq!((answer.write_ns, answer.notes.len()), (alone.write_ns, 0));
    let few = predict(&profile, &Question { vmas: Some(own), ..ask(1000, 0) }).unwrap();
    assert_eq!(few.fork_ns, alone.fork_ns);
    // A profile of before has none of it, and says so.
    let old = predict(&exact(), &question).unwrap();
    assert_eq!(old.fork_ns, alone.fork_ns);
    assert!(old.notes.len() == 3 && old.notes[0].contains(FORK_AMONG_WORK), "{:?}", old.notes);
}

#[test]
fn sizes_that_differ_by_noise_are_drawn_to_their_mean() {
    let measured = |ns: f64| Measured { ns, log_spread: 0.1 };
    let noisy = [
        (1.0, measured(10.4)),
        (2.0, measured(12.2)),
        (3.0, measured(10.4)),
        (4.0, measured(12.2)),
    ];
    let pooled = PerPage::pooled(noisy.into_iter(), 4);
    let costs: Vec<f64> = pooled.0.iter().map(|(_, cost)| cost.ns).collect();
    assert!(costs[1] / costs[0] < 1.12, "{costs:?}");
    let calm = |ns: f64| Measured { ns, log_spread: 0.001 };
    let trend = [(1.0, calm(1.5)), (2.0, calm(1.8)), (3.0, calm(2.0))];
    let pooled = PerPage::pooled(trend.into_iter(), 4);
    assert!((pooled.0[0].1.ns / 1.5 - 1.0).abs() < 0.01);
}

#[test]
fn a_thread_that_runs_for_a_part_of_the_time_costs_that_part() {
    let mut profile = exact();
    let mut beside = profile.curves[0].clone();
    beside.threads = 1;
    for written in beside.points.iter_mut().filter_map(|point| point.written.as_mut()) {
        // A spread as where a copy costs one of two figures for seconds at a time.
        written.write = Measured { ns: written.write.ns * 4.0, log_spread: 0.5 };
    }
    profile.curves.push(beside);
    let own = |ns: f64| PacePoint { own_ns: ns, copy: measured(3000.0) };
    profile.copies_by_pace = vec![own(100.0), own(10_000.0)];
    let writes = |threads: f64| {
        let cpu_ns_per_copy = Some(5000.0 + 6000.0 * threads);
        let question = Question { among_work: true, threads, cpu_ns_per_copy, ..ask(10_000, 1000) };
        predict(&profile, &question).unwrap().write_ns
    };
    for (threads, copy_ns) in [(0.0, 3000.0), (0.5, 6000.0), (1.0, 9000.0)] {
        let found = writes(threads).value / 1000.0;
        assert!((found / copy_ns - 1.0).abs() < 0.01, "{threads}: {found}");
    }
    let Predicted { value, low, high } = writes(1.0);
    assert!(low > value * 0.4 && high < value * 1.6, "{low} to {high}");
}

#[test]
fn what_was_not_measured_is_refused_or_noted() {
    let beyond = predict(&exact(), &ask(1_000_000, 0)).unwrap();
    assert!(beyond.notes[0].contains("extrapolated"));
    for question in [
        ask(10, 11),
        Question { threads: 1.0, ..ask(10, 1) },
        Question { writer: Writer::Parent, ..ask(10, 1) },
        Question { page_size_bytes: 2 << 20, ..ask(10, 1) },
    ] {
        predict(&exact(), &question).unwrap_err();
    }
}

/// [`exact`], whose entries cost 10 ns more where the page was written since the last fork.
fn defers(question: &Question, kept_pages: u64, huge_pages: u64) -> Deferred {
    deferred(&exact(), question, kept_pages, huge_pages).unwrap()
}

#[test]
fn a_deferred_fork_marks_tables_and_the_first_write_copies_one() {
    for pages in [4096, 10_000, 1 << 20] {
        let found = defers(&Question { written_before: pages, ..ask(pages, 0) }, 0, 0);
        let marks = MARK_ENTRIES * pages.div_ceil(512) as f64;
        let stop = 30_000.0 + 50.0 * (RECORD_ENTRIES + marks);
        assert!((found.fork_ns.value / stop - 1.0).abs() < 1e-9, "{pages}: {found:?}");
        assert!((found.first_write_ns.value / (2000.0 + 512.0 * 50.0) - 1.0).abs() < 1e-9);
        assert_eq!(found.tables_ns.value, 0.0);
        for time in [found.fork_ns, found.first_write_ns] {
            assert!(time.low < time.value && time.value < time.high, "{time:?}");
        }
    }
    // A heap of less than a table has no more entries than pages, and nothing has none.
    assert!(
        (defers(&ask(256, 0), 0, 0).first_write_ns.value - (2000.0 + 256.0 * 40.0)).abs() < 1e-6
    );
    let none = defers(&ask(0, 0), 0, 0);
    assert!((none.fork_ns.value - 30_000.0).abs() < 1e-6 && none.tables_ns.value == 0.0);
    assert!((none.first_write_ns.value - 2000.0).abs() < 1e-6);
}

#[test]
fn each_table_that_is_written_to_is_copied_once() {
    let before = Question { written_before: 10_240, ..ask(10_240, 1000) };
    let tables = |split_pages| {
        let found = defers(&Question { split_pages, ..before }, 0, 0);
        (found.tables_ns.value / (512.0 * 50.0)).round()
    };
    // Packed by default; no fewer than hold the pages, and no more than there are.
    assert_eq!(
        (tables(None), tables(Some(7)), tables(Some(1)), tables(Some(99))),
        (2.0, 7.0, 2.0, 20.0)
    );
}

#[test]
fn what_cannot_be_deferred_is_copied_in_fork() {
    let question = ask(10_240, 0);
    let stop = |kept| defers(&question, kept, 0).fork_ns.value;
    assert!((stop(1024) - stop(0) - (1024.0 - 2.0 * MARK_ENTRIES) * 40.0).abs() < 1e-6);
    let now = predict(&exact(), &question).unwrap().fork_ns.value;
    assert!((stop(10_240) - now).abs() < 1e-6 && stop(99_999) == stop(10_240));

    deferred(&exact(), &question, 0, 1).unwrap_err();
    deferred(&exact(), &ask(10, 11), 0, 0).unwrap_err();
    let mut empty = exact();
    empty.curves.clear();
    deferred(&empty, &question, 0, 0).unwrap_err();
    let mut huge = exact();
    let estimate = Estimate { value: 300.0, low: 299.0, high: 301.0, count: 4 };
    let cost = Cost { name: String::new(), unit: "ns".into(), estimate };
    huge.costs.insert(HUGE_ENTRY.to_owned(), cost);
    let with_huge = deferred(&huge, &question, 0, 10).unwrap().fork_ns.value;
    assert!((with_huge - stop(0) - 3000.0).abs() < 1e-6);
}
