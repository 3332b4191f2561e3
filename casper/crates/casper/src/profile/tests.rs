// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::fields::Counter;
use super::*;
use crate::compose::{self, Payload};
use crate::meta::FieldKind;
use crate::record::*;
use crate::write::{DataChunk, TraceWriter, new_header};

/// A trace with one payload a stream, of process 1 with the functions a, b, c (1, 2, 3).
fn profile_of(
    payloads: &[Payload],
    cost_ps: Option<(u64, u64)>,
    settings: &ProfileSettings,
) -> Profile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let mut header = new_header();
    header.clock = CASPER_CLOCK_MONOTONIC;
    if let Some((inner, outer)) = cost_ps {
        (header.call_inner_ps, header.call_outer_ps) = (inner, outer);
    }
    let mut writer = TraceWriter::create(&path, &header).unwrap();
    let list = [(10, "a"), (20, "b"), (30, "c")];
    writer.meta(&compose::process(1, 100, (1, 0), CASPER_ORIGIN_STARTED, 0, "/bin/a")).unwrap();
    writer.meta(&compose::process(2, 200, (100, 1), CASPER_ORIGIN_VFORKED, 0, "/bin/a")).unwrap();
    writer.meta(&compose::functions(1, 1, "a.c", &list)).unwrap();
    let size = [("size", "bytes", 4, 4, FieldKind::Unsigned)];
    for (number, name) in [(1, "begin"), (2, "end")] {
        writer.meta(&compose::event_type(1, number, name, 8, &size)).unwrap();
    }
    for (payload, stream) in payloads.iter().zip(1..) {
        let of = DataChunk {
            stream,
            process: 1,
            pid: 100,
            tid: 100 + stream,
            events: payload.events,
            base_ticks: payload.base_ticks,
            ..DataChunk::default()
        };
        writer.data(&of, &payload.bytes).unwrap();
    }
    writer.finish(&[]).unwrap();
    Profile::of(&Trace::open(&path).unwrap(), settings).unwrap()
}

fn function<'a>(profile: &'a Profile, name: &str) -> &'a Function {
    profile.functions.list.iter().find(|function| function.name == name).unwrap()
}

fn event(number: u16, size: u32) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    bytes[..2].copy_from_slice(&number.to_ne_bytes());
    bytes[4..].copy_from_slice(&size.to_ne_bytes());
    bytes
}

#[test]
fn self_inclusive_and_edges() {
    let mut payload = Payload::new(0);
    for call in 0..2 {
        let t = call * 100;
        payload.enter(t + 10, 1, 0x9000, 0x11);
        payload.enter(t + 20, 2, 0x8000, 0x22);
        payload.exit(t + 50, 2);
        payload.enter(t + 60, 2, 0x8000, 0x23);
        payload.exit(t + 70, 2);
        payload.exit(t + 90, 1);
    }
    let profile = profile_of(&[payload], None, &ProfileSettings::default());
    let (a, b) = (function(&profile, "a"), function(&profile, "b"));
    assert_eq!((a.calls, a.times.count, a.inclusive_ticks(), a.own_ticks()), (2, 2, 160.0, 80.0));
    assert_eq!((b.calls, b.own_ticks(), b.times.min, b.times.max), (4, 80.0, 10, 30));
    assert_eq!((b.mean_ticks(), b.times.variance()), (Some(20.0), Some(400.0 / 3.0)));
    let edges = &profile.functions.edges;
    assert_eq!(edges.iter().map(|edge| edge.calls).collect::<Vec<_>>(), [2, 2, 2]);
    assert_eq!(edges[2].ticks(), 20.0);
    assert_eq!(a.file.as_deref(), Some("a.c"));
    assert!(profile.damage.is_complete(), "{:?}", profile.damage);
}

#[test]
fn recursion_counts_its_time_once() {
    let mut payload = Payload::new(0);
    payload.enter(0, 1, 0x9000, 0);
    payload.enter(10, 2, 0x8000, 0);
    payload.enter(20, 1, 0x7000, 0);
    payload.exit(30, 1);
    payload.exit(50, 2);
    payload.exit(100, 1);
    let profile = profile_of(&[payload], None, &ProfileSettings::default());
    let a = function(&profile, "a");
    assert_eq!((a.calls, a.recursive), (2, 1));
    assert_eq!((a.inclusive_ticks(), a.total_ticks(), a.own_ticks()), (100.0, 110.0, 70.0));
}

#[test]
fn a_return_from_further_out_shows_what_a_longjmp_left() {
    let mut payload = Payload::new(0);
    payload.enter(0, 1, 0x9000, 0);
    payload.enter(10, 2, 0x8000, 0);
    payload.enter(20, 3, 0x7000, 0); // jumps to a, which waits and calls b again
    payload.enter(900, 2, 0x7f00, 0);
    payload.exit(910, 2);
    payload.exit(1000, 1);
    let profile = profile_of(&[payload], None, &ProfileSettings::default());
    let (a, b, c) = (function(&profile, "a"), function(&profile, "b"), function(&profile, "c"));
    // b's frame lies above that of its second call: only a's return tells.
    assert_eq!((b.calls, b.left_by_longjmp, b.times.count), (2, 1, 1));
    assert_eq!((c.left_by_longjmp, c.times.count), (1, 0));
    assert_eq!(a.times.count, 1);
}

#[test]
fn frames_that_a_new_one_overlaps_are_dead() {
    let mut payload = Payload::new(0);
    payload.enter(0, 1, 0x9000, 0);
    payload.enter(10, 2, 0x8000, 0);
    payload.enter(20, 3, 0x7000, 0);
    payload.enter(900, 2, 0x8800, 0); // above both
    payload.exit(910, 2);
    payload.exit(1000, 1);
    let profile = profile_of(&[payload], None, &ProfileSettings::default());
    let (a, b, c) = (function(&profile, "a"), function(&profile, "b"), function(&profile, "c"));
    assert_eq!((b.calls, b.left_by_longjmp, b.times.count), (2, 1, 1));
    assert_eq!((c.left_by_longjmp, c.own_ticks()), (1, 0.0));
    assert_eq!((b.own_ticks(), b.recursive), (20.0, 0));
    assert_eq!((a.own_ticks(), a.inclusive_ticks()), (980.0, 1000.0));
}

#[test]
fn an_inlined_function_shares_its_callers_frame() {
    let mut payload = Payload::new(0);
    payload.enter(0, 1, 0x9000, 0);
    payload.enter(10, 2, 0x9000, 0);
    payload.exit(20, 2);
    payload.exit(30, 1);
    let profile = profile_of(&[payload], None, &ProfileSettings::default());
    assert_eq!(function(&profile, "a").times.max, 30);
    assert_eq!(function(&profile, "b").left_by_longjmp, 0);
}

#[test]
fn a_frame_that_returns_elsewhere_is_dead() {
    let mut payload = Payload::new(0);
    payload.enter(0, 1, 0x9000, 0);
    payload.enter(10, 2, 0x8000, 0x111);
    payload.enter(20, 3, 0x8000, 0x222);
    payload.exit(30, 3);
    payload.exit(40, 1);
    let profile = profile_of(&[payload], None, &ProfileSettings::default());
    assert_eq!(function(&profile, "b").left_by_longjmp, 1);
    let caller = profile.functions.list.iter().find(|of| of.name == "c").unwrap();
    assert_eq!((caller.calls, caller.left_by_longjmp), (1, 0));
}

#[test]
fn one_process_may_be_looked_at_alone() {
    let mut payload = Payload::new(0);
    payload.enter(0, 1, 0x9000, 0);
    payload.exit(10, 1);
    let of = |pid| {
        let settings = ProfileSettings { pid: Some(pid), ..ProfileSettings::default() };
        profile_of(&[payload.clone()], None, &settings).types.iter().map(|of| of.count).sum::<u64>()
    };
    assert_eq!((of(100), of(101)), (2, 0));
}

#[test]
fn a_loop_of_longjmps_neither_grows_the_stack_nor_the_times() {
    let mut payload = Payload::new(0);
    payload.enter(0, 1, 0x9000, 0);
    for turn in 0..1000 {
        payload.enter(10 + turn * 100, 2, 0x8000, 0);
        payload.enter(15 + turn * 100, 3, 0x7000, 0);
    }
    payload.exit(200_000, 1);
    let profile = profile_of(&[payload], None, &ProfileSettings::default());
    let (a, b) = (function(&profile, "a"), function(&profile, "b"));
    assert_eq!((b.calls, b.left_by_longjmp), (1000, 1000));
    assert_eq!(function(&profile, "c").left_by_longjmp, 1000);
    assert_eq!(a.times.count, 1);
    // b's last event is c's beginning, 5 ticks after its own.
    assert!(b.inclusive_raw_ticks + b.own_raw_ticks < 200_000, "{b:?}");
}

#[test]
fn the_probes_cost_is_taken_off_by_whoever_bears_it() {
    // 2 ns of each call are in its own duration, 3 ns more in its caller's.
    let mut payload = Payload::new(0);
    payload.enter(0, 1, 0x9000, 0);
    payload.enter(100, 2, 0x8000, 0);
    payload.enter(110, 3, 0x7000, 0);
    payload.exit(130, 3);
    payload.exit(150, 2);
    payload.exit(300, 1);
    let profile = profile_of(&[payload], Some((2000, 5000)), &ProfileSettings::default());
    let (a, b, c) = (function(&profile, "a"), function(&profile, "b"), function(&profile, "c"));
    assert_eq!((c.total_ticks(), c.own_ticks()), (18.0, 18.0));
    assert_eq!((b.total_ticks(), b.own_ticks()), (50.0 - 2.0 - 5.0, 30.0 - 2.0 - 3.0));
    assert_eq!((a.total_ticks(), a.own_ticks()), (300.0 - 2.0 - 10.0, 250.0 - 2.0 - 3.0));
    assert_eq!((a.raw_mean_ticks(), b.raw_mean_ticks()), (Some(300.0), Some(50.0)));
    assert_eq!(a.own_ticks() + b.own_ticks() + c.own_ticks(), a.inclusive_ticks());
}

#[test]
fn a_vfork_child_has_a_stack_of_its_own() {
    let mut payload = Payload::new(0);
    payload.enter(0, 1, 0x9000, 0);
    payload.switch(10, 2, 200, 200);
    payload.enter(20, 2, 0x8000, 0); // executes another program in b
    payload.switch(40, 1, 100, 101);
    payload.exit(50, 1);
    let profile = profile_of(&[payload], None, &ProfileSettings::default());
    let (a, b) = (function(&profile, "a"), function(&profile, "b"));
    assert_eq!((a.times.max, a.own_ticks()), (50, 50.0));
    assert_eq!((b.calls, b.still_open), (1, 1));
    let owners: Vec<_> = profile.types.iter().map(|of| (of.owner.pid, of.count)).collect();
    assert_eq!(owners, [(100, 1), (100, 1), (200, 1)]);
}

#[test]
fn no_duration_is_computed_across_a_loss() {
    let mut payload = Payload::new(0);
    payload.enter(0, 1, 0x9000, 0);
    payload.lost(10, 7);
    payload.exit(50, 1);
    let profile = profile_of(&[payload], None, &ProfileSettings::default());
    let a = function(&profile, "a");
    assert_eq!((a.cut_by_loss, a.exits_without_enter, a.times.count), (1, 1, 0));
}

#[test]
fn a_pair_is_of_one_thread() {
    let mut first = Payload::new(0);
    first.event(10, &event(1, 0));
    first.event(40, &event(2, 0));
    first.event(50, &event(1, 0));
    let mut second = Payload::new(0);
    second.event(60, &event(2, 0));
    let pair = Pair { name: "part".into(), from: "begin".into(), to: "end".into() };
    let settings = ProfileSettings { pairs: vec![pair], ..ProfileSettings::default() };
    let payloads = [first, second];
    let within = &profile_of(&payloads, None, &settings).pairs[0];
    assert_eq!((within.times.count, within.times.max, within.without_end), (1, 30, 1));
}

#[test]
fn values_of_a_field_and_unknown_names() {
    let mut payload = Payload::new(0);
    for size in [1, 1, 1, 2, 9] {
        payload.event(10, &event(1, size));
    }
    payload.event(10, &event(2, 77));
    payload.event(10, &event(1, 0)[..4]);
    let field = Some(("begin".to_owned(), "size".to_owned()));
    let profile =
        profile_of(&[payload], None, &ProfileSettings { field, ..ProfileSettings::default() });
    let field = profile.field.unwrap();
    let values: Vec<_> = field.values.iter().map(|v| (v.text.as_str(), v.count)).collect();
    assert_eq!(values, [("1", 3), ("2", 1), ("9", 1)]);
    assert_eq!((field.unit.as_str(), field.without, field.numbers.max), ("bytes", 1, 9));

    let unknown = Counter::new(&profile.metadata, "begin", "colour").unwrap_err();
    assert!(unknown.to_string().contains("it has: size"), "{unknown}");
    let unknown = Counter::new(&profile.metadata, "middle", "size").unwrap_err();
    assert!(unknown.to_string().contains("it has: begin, end"), "{unknown}");
}
