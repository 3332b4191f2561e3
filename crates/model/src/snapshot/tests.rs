// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulation against what must follow from its rules.

use super::*;

fn store() -> Store {
    Store {
        pages: 2048,
        blocks_per_page: 4,
        zipf_alpha: 1.0,
        scattered: true,
        writes: 100_000,
        interval_ns: Some(2_000_000.0),
        steady: true,
        seed: 7,
    }
}

/// A fault of 2 µs; each further page of a batch half a µs. Writes of 100 ns.
fn costs() -> Costs {
    let batch = |pages: f64| Batch { pages, elapsed_ns: 1500.0 + 500.0 * pages };
    Costs::new(100.0, 50_000.0, [512.0, 1.0, 2.0, 64.0].map(batch).to_vec()).unwrap()
}

#[test]
fn batches_cost_what_was_measured_and_between() {
    let costs = costs();
    assert_eq!(costs.fault_ns(), 2000.0);
    for pages in [1, 2, 3, 33, 64, 100, 512] {
        assert!((costs.batch_ns(pages) - (1500.0 + 500.0 * pages as f64)).abs() < 1e-6, "{pages}");
    }
    // As each page of the largest.
    assert!((costs.batch_ns(1024) - 2.0 * costs.batch_ns(512)).abs() < 1e-6);
    let dearer = costs.with_fault_ns(4000.0);
    assert_eq!((dearer.fault_ns(), dearer.batch_ns(64)), (4000.0, 2000.0 + costs.batch_ns(64)));
    // A batch is not cheaper than a fault, however little that costs here.
    assert_eq!(costs.with_fault_ns(10.0).batch_ns(2), 510.0);
    assert!(Costs::new(1.0, 1.0, Vec::new()).is_none());
    assert!(Costs::new(1.0, 1.0, vec![Batch { pages: 2.0, elapsed_ns: 1.0 }]).is_none());
}

#[test]
fn time_is_the_sum_of_what_happened() {
    let (store, costs) = (store(), costs());
    let never = run(&Store { interval_ns: None, ..store }, Ahead::Nothing, &costs);
    assert_eq!((never.forks, never.faults), (0, 0));
    assert!((never.elapsed_ns - 100.0 * 100_000.0).abs() < 1.0);
    let plain = run(&store, Ahead::Nothing, &costs);
    assert!(plain.forks > 2 && plain.ahead_pages == 0);
    let sum = 100.0 * 100_000.0 + 50_000.0 * plain.forks as f64 + 2000.0 * plain.faults as f64;
    assert!((plain.elapsed_ns - sum).abs() < 1.0);
    let found = fault_ns(&store, &costs, plain.elapsed_ns).unwrap();
    assert!((found - 2000.0).abs() < 10.0, "{found}");
    assert_eq!(fault_ns(&store, &costs, 1.0), None);
    let never = Store { interval_ns: None, ..store };
    assert_eq!(fault_ns(&never, &costs, 1e12), None);
}

#[test]
fn each_policy_copies_what_it_says() {
    let (store, costs) = (store(), costs());
    let with = |ahead| run(&store, ahead, &costs);
    let plain = with(Ahead::Nothing);
    let next = with(Ahead::Next(1));
    // One page at most for each fault.
    assert!(next.ahead_pages <= next.faults && next.ahead_pages > 0);
    assert!(next.faults < plain.faults);
    let all = with(Ahead::Region { pages: 512, threshold_percent: 0 });
    // Each region once after each fork, but for those that nobody writes.
    assert!(all.faults <= 4 * all.forks && all.faults > 0);
    assert!(all.ahead_pages + all.faults <= 2048 * all.forks);
    let none = with(Ahead::Region { pages: 512, threshold_percent: 101 });
    assert_eq!((none.faults, none.ahead_pages), (plain.faults, 0));
    let again = with(Ahead::Again { waste_percent: 100 });
    assert!(again.ahead_pages > 0 && again.faults < plain.faults);
    // What was written once is mostly written again: less in vain than whole regions.
    assert!(again.wasted_pages * all.forks < all.wasted_pages * again.forks);
    // Where nothing may be wasted it ends by copying less.
    assert!(with(Ahead::Again { waste_percent: 0 }).ahead_pages < again.ahead_pages);
}

#[test]
fn the_law_is_zipfs() {
    let store = Store { scattered: false, blocks_per_page: 1, zipf_alpha: 1.0, ..store() };
    let mut zipf = Zipf::new(&store);
    let mut count = vec![0_u32; store.pages];
    for _ in 0..400_000 {
        count[zipf.next_page()] += 1;
    }
    let harmonic: f64 = (1..=store.pages).map(|rank| 1.0 / rank as f64).sum();
    for rank in [1_usize, 2, 10, 50] {
        let expected = 400_000.0 / harmonic / rank as f64;
        let seen = f64::from(count[rank - 1]);
        // Five standard deviations.
        assert!((seen - expected).abs() < 5.0 * expected.sqrt(), "{rank}: {seen} {expected}");
    }
}
