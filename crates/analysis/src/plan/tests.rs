// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans for a server of which it is known which page each request writes.

use super::*;

const PAGE: f64 = 4096.0;

/// The pages that a worker's request writes: 50 that only the first five do, ten each, for the state that
/// they build; 20 that each does; and three of its own, which differ by worker.
fn written(worker: u64, request: u64) -> impl Iterator<Item = u64> {
    let once = (0..10).map(move |page| 10 * request + page).filter(move |_| request < 5);
    let own = (0..3).map(move |page| 1000 * (worker + 1) + 3 * request + page);
    once.chain(100..120).chain(own)
}

/// What a worker copies in `served` requests after its parent served `warmed`.
fn truth(warmed: u64, served: u64) -> f64 {
    // The parent's own requests differ from a worker's in what only one of them writes.
    let pages: BTreeSet<u64> = (warmed..warmed + served).flat_map(|at| written(1, at)).collect();
    pages.len() as f64 * PAGE
}

fn seen(warmed: u64, served: u64) -> Seen {
    Seen {
        requests: Requests { warmed, served },
        verb: "blame",
        program: "server".to_owned(),
        workers: 2,
        copied_bytes: truth(warmed, served),
        new_bytes: None,
        forked_bytes: None,
        common_bytes: None,
    }
}

fn is_true(warmup: &Warmup) {
    let Requests { warmed, served } = warmup.requests;
    let saved = truth(0, served) - truth(warmed, served);
    let (least, most) = (warmup.saved_least_bytes, warmup.saved_most_bytes);
    assert!(least <= saved && saved <= most, "{saved} is not in {warmup:?}");
}

#[test]
fn cold_runs_bound_what_a_warm_up_saves() {
    let plan = Plan::of([100, 1, 10].map(|served| seen(0, served)).to_vec()).unwrap();
    assert_eq!((plan.served, plan.warmups.len()), (100, 3));
    plan.warmups.iter().for_each(is_true);
    // Nobody knows whether what the first requests write is written again.
    let of = |at: usize| (plan.warmups[at].saved_least_bytes, plan.warmups[at].saved_most_bytes);
    assert_eq!(of(0), (0.0, truth(0, 1)));
    assert_eq!(of(1), (0.0, truth(0, 10)));
    assert_eq!(plan.warmups[1].own_bytes, truth(0, 100));
}

#[test]
fn what_workers_do_not_have_in_common_is_not_saved() {
    // 70 of the 370 pages.
    let longest = Seen { common_bytes: Some(70.0 * PAGE), ..seen(0, 100) };
    let plan = Plan::of(vec![seen(0, 1), seen(0, 10), longest]).unwrap();
    plan.warmups.iter().for_each(is_true);
    let most: Vec<f64> = plan.warmups.iter().map(|of| of.saved_most_bytes / PAGE).collect();
    assert_eq!(most, [33.0, 70.0, 70.0]);
    assert_eq!(plan.chosen().unwrap().requests.warmed, 10);
}

#[test]
fn a_warmed_run_measures_and_narrows_the_others() {
    let plan =
        Plan::of(vec![seen(0, 1), seen(0, 10), seen(0, 100), seen(3, 100), seen(10, 100)]).unwrap();
    plan.warmups.iter().for_each(is_true);
    let of = |warmed| plan.warmups.iter().find(|of| of.requests.warmed == warmed).unwrap();
    assert!(of(3).is_measured && of(10).is_measured && !of(100).is_measured);
    assert_eq!((of(3).saved_least_bytes, of(3).saved_most_bytes), (30.0 * PAGE, 30.0 * PAGE));
    assert_eq!(of(10).saved_most_bytes, 50.0 * PAGE);
    // Fewer requests save no more than three do, and more save no less than ten do.
    assert_eq!(of(1).saved_most_bytes, 30.0 * PAGE);
    assert_eq!(of(100).saved_least_bytes, 50.0 * PAGE);
    assert_eq!(plan.chosen().unwrap().requests.warmed, 10);
}

#[test]
fn new_memory_counts_where_it_is_known_and_a_warm_up_may_cost() {
    let with = |seen: Seen, pages: f64| Seen { new_bytes: Some(pages * PAGE), ..seen };
    let plan = Plan::of(vec![with(seen(0, 1), 5.0), with(seen(0, 10), 8.0)]).unwrap();
    assert_eq!(plan.warmups[0].saved_most_bytes, truth(0, 1) + 5.0 * PAGE);
    let plan = Plan::of(vec![with(seen(0, 10), 8.0), with(seen(10, 10), 100.0)]).unwrap();
    assert_eq!(plan.warmups.len(), 1);
    assert_eq!(plan.warmups[0].saved_least_bytes, -42.0 * PAGE);
    assert!(plan.warmups[0].is_nothing());
}

#[test]
fn what_allows_no_plan_is_refused_with_what_is_needed() {
    let refused = |runs: Vec<Seen>, expected: &str| {
        let error = Plan::of(runs).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(vec![], "no run");
    refused(vec![seen(0, 1)], "name two or more");
    refused(vec![seen(0, 1), seen(0, 1)], "two runs have 1 requests");
    refused(vec![seen(0, 1), seen(1, 100)], "no run of 100 requests without a warm-up");
    refused(vec![seen(1, 100), seen(10, 100)], "no run without a warm-up was given");
    let other = Seen { program: "else".to_owned(), ..seen(0, 1) };
    refused(vec![other, seen(0, 10)], "different programs: else and server");
    let other = Seen { verb: "footprint", ..seen(0, 1) };
    refused(vec![other, seen(0, 10)], "count different things");
    let other = Seen { copied_bytes: 1e9, ..seen(0, 1) };
    refused(vec![other, seen(0, 10)], "differ by more than their requests");
}

#[test]
fn workers_of_one_parent_are_compared_by_address() {
    let copy = |pid, mapping: &str, address: u64, offset_bytes| Copy {
        process: "server".to_owned(),
        writer: "child".to_owned(),
        mapping: mapping.to_owned(),
        every: 1,
        pid,
        address,
        offset_bytes: Some(offset_bytes),
        ..Copy::default()
    };
    let mut copies = Vec::new();
    for pid in [1, 2] {
        copies.push(copy(pid, "/lib/c.so", 0x7000_1010, 0x1010));
        copies.push(copy(pid, "heap", 0x5000_0000, 0));
        // One page, at two places.
        copies.push(copy(pid, "heap", 0x5000_1000 + u64::from(pid), 0x1000));
        copies.push(copy(pid, "heap", 0x5000_2000 + 0x1000 * u64::from(pid), 0x2000));
    }
    // Of another parent, with a heap that begins at the same address.
    copies.push(copy(3, "/lib/c.so", 0x7f00_1010, 0x1010));
    copies.push(copy(3, "heap", 0x5000_0000, 0));
    let stacks = CopyStacks { frames: Vec::new(), copies };
    assert_eq!(common_pages(&stacks, "server", 4096), Some(3.0));
    assert_eq!(common_pages(&stacks, "else", 4096), None);
    assert_eq!(common_pages(&CopyStacks::default(), "server", 4096), None);
}
