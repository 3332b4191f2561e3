// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::bpf::{Counts, Event, ForkEvent, Happening};
use crate::watch::frame::RegionRow;

const PAGE: u64 = 4096;
const SERVER: u32 = 100;
const CHILD: u32 = 101;

fn stat(name: &str, start_ticks: u64) -> Stat {
    Stat { name: name.to_owned(), state: 'S', parent: 1, start_ticks, ..Stat::default() }
}

fn faults(minor_faults: u64) -> Reading {
    Reading { minor_faults, anonymous_bytes: Some(1000 * PAGE), ..Reading::default() }
}

fn counted(minor_faults: u64, present: u64, absent: u64) -> Reading {
    let counts = Counts {
        faults: minor_faults,
        writes_to_present: present,
        writes_to_absent: absent,
        ..Counts::default()
    };
    Reading { counts: Some(counts), ..faults(minor_faults) }
}

fn event(tgid: u32, time_ns: u64, what: Happening) -> Event {
    Event { time_ns, tgid, tid: tgid, comm: "other-name".into(), what }
}

fn fork_of(book: &mut Book, parent: u32, child: u32, time_ns: u64, shares_memory: bool) {
    let fork = ForkEvent { child_tgid: Some(child), shares_memory, stop_ns: Some(5_000_000) };
    let reading = (Some(stat("server", 9)), faults(3));
    book.forked(&event(parent, time_ns, Happening::Fork(fork)), &fork, reading);
}

fn server() -> Book {
    let mut book = Book::new(PAGE, false);
    book.add(SERVER, &stat("server", 7), faults(500), None);
    book
}

fn frame(book: &Book, time_ns: u64) -> Frame {
    let sees = Sees { events: true, stops: true, counts: true, ..Sees::default() };
    book.frame(time_ns, 0, 1_000_000_000, sees, Own::default(), Room::default())
}

fn walk(private_pages: u64, shared_pages: u64) -> Sample {
    let region = RegionRow { start: 1 << 21, private_pages: private_pages as u32, shared_pages: 1 };
    Sample { private_pages, shared_pages, regions: vec![region], ..Sample::default() }
}

#[test]
fn faults_before_it_was_watched_do_not_count() {
    let mut book = server();
    book.read(SERVER, faults(500), Some(1_000_000_000));
    assert_eq!(frame(&book, 0).processes[0].minor_faults_per_s, None, "since when is not known");
    book.read(SERVER, faults(600), Some(3_000_000_000));
    let frame = frame(&book, 0);
    assert_eq!(frame.processes[0].totals.minor_faults, 100);
    assert_eq!(frame.processes[0].minor_faults_per_s, Some(50.0));
    assert_eq!(frame.processes[0].writes_to_present_per_s, None, "not counted is not 0");
    assert_eq!(frame.groups[0].totals.minor_faults, 100);
}

#[test]
fn rates_are_of_the_time_since_a_process_was_read_for_them() {
    let mut book = Book::new(PAGE, false);
    book.add(SERVER, &stat("server", 7), counted(500, 10, 0), None);
    book.read(SERVER, counted(500, 10, 0), Some(1_000_000_000));
    // Looked at between, and its turn again after four seconds, which had 400 faults.
    book.read(SERVER, counted(700, 30, 0), None);
    book.read(SERVER, counted(900, 50, 0), Some(5_000_000_000));
    let process = frame(&book, 0).processes[0].clone();
    assert_eq!(process.minor_faults_per_s, Some(100.0));
    assert_eq!(process.writes_to_present_per_s, Some(10.0));
}

#[test]
fn an_epoch_goes_on_from_the_last_walk_by_faults() {
    let mut book = server();
    fork_of(&mut book, SERVER, CHILD, 10, false);
    // Before any walk: what the parent's faults and the child's own suggest.
    book.read(SERVER, faults(520), None);
    let epoch = frame(&book, 11).processes[0].epoch.clone().unwrap();
    assert_eq!((epoch.copied_bytes, epoch.walked_bytes), (Some(23 * PAGE), None));
    assert_eq!(epoch.shared_bytes, Some(977 * PAGE));
    assert_eq!(epoch.stop_ns, Some(5_000_000));
    book.walked(CHILD, walk(30, 960), 12);
    book.read(SERVER, faults(525), None);
    let epoch = frame(&book, 20).processes[0].epoch.clone().unwrap();
    assert_eq!((epoch.copied_bytes, epoch.walked_bytes), (Some(35 * PAGE), Some(30 * PAGE)));
    assert_eq!((epoch.shared_bytes, epoch.walk_age_ns), (Some(955 * PAGE), Some(8)));
    assert_eq!((epoch.regions.len(), epoch.age_ns, epoch.parent_faults), (1, Some(10), 25));
}

#[test]
fn what_a_parent_copies_away_from_two_children_is_neithers() {
    let mut book = server();
    fork_of(&mut book, SERVER, CHILD, 10, false);
    fork_of(&mut book, SERVER, CHILD + 1, 11, false);
    book.read(SERVER, faults(520), None);
    let children = frame(&book, 12).processes[0].children.clone();
    let copied: Vec<_> = children.iter().map(|child| child.copied_bytes).collect();
    assert_eq!(copied, [Some(3 * PAGE), Some(3 * PAGE)], "their own, and not 40 of the parent's");
    assert_eq!(children[0].shared_bytes, Some(977 * PAGE));
    // Alone with the parent, one has what is copied away from it.
    book.ended(CHILD, 13);
    book.read(SERVER, faults(530), None);
    assert_eq!(frame(&book, 14).processes[0].children[0].copied_bytes, Some(33 * PAGE));
}

#[test]
fn faults_count_as_much_as_the_last_walk_showed() {
    let mut book = server();
    fork_of(&mut book, SERVER, CHILD, 10, false);
    book.read(SERVER, faults(500 + 997), None);
    // 1000 faults, the child's 3 among them, of which only half copied.
    book.walked(CHILD, walk(500, 500), 12);
    book.read(SERVER, faults(500 + 1197), None);
    let epoch = frame(&book, 13).processes[0].epoch.clone().unwrap();
    assert_eq!(epoch.copied_bytes, Some(600 * PAGE));
    // Few faults teach nothing.
    book.walked(CHILD, walk(900, 100), 14);
    book.read(SERVER, faults(500 + 1200), None);
    book.walked(CHILD, walk(903, 97), 15);
    book.read(SERVER, faults(500 + 1300), None);
    let epoch = frame(&book, 16).processes[0].epoch.clone().unwrap();
    assert_eq!(epoch.copied_bytes, Some((903 + 200) * PAGE), "two pages a fault at most");
}

#[test]
fn a_fork_that_was_read_late_does_not_make_faults_dear() {
    let mut book = server();
    fork_of(&mut book, SERVER, CHILD, 10, false);
    // 300 of the parent's 400 copies were made before it was read.
    book.read(SERVER, faults(600), None);
    book.walked(CHILD, walk(400, 600), 12);
    book.read(SERVER, faults(700), None);
    assert_eq!(
        frame(&book, 13).processes[0].epoch.as_ref().unwrap().copied_bytes,
        Some(500 * PAGE)
    );
}

#[test]
fn counted_writes_are_better_than_minor_faults() {
    let mut book = Book::new(PAGE, false);
    book.add(SERVER, &stat("server", 7), counted(500, 10, 0), None);
    fork_of(&mut book, SERVER, CHILD, 10, false);
    // 90 faults of the parent, of which 40 wrote to what was there; the child's 6 are writes.
    book.read(SERVER, counted(590, 50, 50), Some(1_000_000_000));
    book.read(CHILD, counted(20, 4, 2), None);
    let process = frame(&book, 11).processes[0].clone();
    assert_eq!(process.totals.writes_to_present, Some(40));
    // Until the child's counts are read for the first time, its minor faults stand for them.
    let epoch = process.epoch.unwrap();
    assert!(epoch.copied_bytes >= Some(46 * PAGE), "{epoch:?}");
}

#[test]
fn what_was_counted_of_a_child_that_was_reaped_is_its_own() {
    let counts = |present: u64, absent: u64| Counts {
        faults: present + absent,
        writes_to_present: present,
        writes_to_absent: absent,
        ..Counts::default()
    };
    let mut book = Book::new(PAGE, false);
    book.add(SERVER, &stat("server", 7), counted(500, 10, 0), None);
    // Gone before its fork was read; then one that was read once.
    let fork = ForkEvent { child_tgid: Some(CHILD), shares_memory: false, stop_ns: None };
    let reading = Reading { counts: Some(counts(5, 2)), ..Reading::default() };
    book.forked(&event(SERVER, 10, Happening::Fork(fork)), &fork, (None, reading));
    book.counted(CHILD, counts(5, 2));
    let child = frame(&book, 11).processes[0].children[0].clone();
    assert_eq!(child.copied_bytes, Some(7 * PAGE), "since the fork");
    book.ended(CHILD, 12);
    fork_of(&mut book, SERVER, CHILD + 1, 20, false);
    book.read(CHILD + 1, counted(4, 1, 0), None);
    book.counted(CHILD + 1, counts(6, 0));
    assert_eq!(frame(&book, 21).processes[0].children[0].minor_faults, 4, "as they were");
    book.ended(CHILD + 1, 22);
    let sums = frame(&book, 30).groups[0].totals.clone();
    assert_eq!(sums.writes_to_present, Some(5 + 6));
    book.counted(CHILD + 2, counts(9, 9));
    assert!(!book.knows(CHILD + 2));
}

#[test]
fn the_end_of_a_child_is_booked_once() {
    let mut book = server();
    fork_of(&mut book, SERVER, CHILD, 10, false);
    book.walked(CHILD, walk(30, 960), 12);
    book.ended(CHILD, 30);
    book.ended(CHILD, 31);
    let frame = frame(&book, 40);
    let process = &frame.processes[0];
    assert_eq!((process.totals.forks, process.totals.exits), (Some(1), Some(1)));
    assert_eq!(process.totals.copied_bytes, 30 * PAGE);
    assert_eq!(process.last_epoch.as_ref().unwrap().age_ns, Some(20));
    assert!(process.epoch.is_none() && process.children_alive == 0);
    assert_eq!(frame.groups[0].totals.copied_bytes, 30 * PAGE);
    assert_eq!(frame.groups[0].totals.exits, Some(1));
}

#[test]
fn how_old_a_child_is_that_was_there_before_is_not_known() {
    let mut book = server();
    book.add_sharing(CHILD, &stat("server", 9), faults(3), SERVER);
    let process = frame(&book, 30).processes[0].clone();
    assert_eq!((process.epoch.unwrap().age_ns, process.children[0].age_ns), (None, None));
}

#[test]
fn what_a_child_that_was_there_before_copied_is_not_known_until_it_is_walked() {
    let mut book = server();
    book.add_sharing(CHILD, &stat("server", 9), faults(3), SERVER);
    let epoch = frame(&book, 30).processes[0].epoch.clone().unwrap();
    assert_eq!((epoch.copied_bytes, epoch.shared_bytes, epoch.walk_age_ns), (None, None, None));
    // One that ends so adds nothing that is known.
    book.add_sharing(CHILD + 9, &stat("server", 9), faults(3), SERVER);
    book.ended(CHILD + 9, 31);
    let totals = frame(&book, 31).processes[0].totals.clone();
    assert_eq!((totals.copied_bytes, totals.unseen_copiers), (0, 1));
    book.walked(CHILD, walk(5, 7), 31);
    let epoch = frame(&book, 40).processes[0].epoch.clone().unwrap();
    assert_eq!(epoch.copied_bytes, Some(5 * PAGE));
    assert_eq!((epoch.shared_bytes, epoch.walk_age_ns), (Some(7 * PAGE), Some(9)));
    // The faults since a fork that was seen are all that a child can have copied.
    fork_of(&mut book, SERVER, CHILD + 1, 50, false);
    assert!(frame(&book, 51).processes[0].epoch.as_ref().unwrap().copied_bytes.is_some());
}

#[test]
fn what_is_spawned_or_executed_shares_nothing() {
    let mut book = server();
    fork_of(&mut book, SERVER, CHILD, 10, true);
    fork_of(&mut book, SERVER, CHILD + 1, 11, false);
    book.executed(&event(CHILD + 1, 15, Happening::Exec));
    let process = frame(&book, 20).processes[0].clone();
    assert_eq!((process.totals.spawns, process.totals.forks), (Some(1), Some(1)));
    assert!(process.epoch.is_none() && process.last_epoch.is_some());
    assert_eq!(process.children_alive, 2);
    assert!(process.children.iter().all(|child| child.apart && child.copied_bytes.is_none()));
    assert_eq!(process.children[0].name, "other-name");
}

#[test]
fn without_events_nobody_knows_how_many_forks_there_were() {
    let mut book = server();
    book.add_sharing(CHILD, &stat("server", 9), faults(3), SERVER);
    book.ended(CHILD, 10);
    let frame = book.frame(11, 0, 0, Sees::default(), Own::default(), Room::default());
    for totals in [&frame.processes[0].totals, &frame.groups[0].totals] {
        assert_eq!((totals.forks, totals.spawns), (None, None));
        assert_eq!((totals.execs, totals.exits), (None, None));
        assert_eq!(totals.stops, None);
    }
}

#[test]
fn the_newest_child_is_the_epoch() {
    let mut book = server();
    fork_of(&mut book, SERVER, CHILD, 10, false);
    fork_of(&mut book, SERVER, CHILD + 1, 20, false);
    assert_eq!(frame(&book, 30).processes[0].epoch.as_ref().unwrap().child, CHILD + 1);
    assert_eq!(book.sharing()[0], CHILD + 1);
    book.ended(CHILD + 1, 31);
    assert_eq!(frame(&book, 32).processes[0].epoch.as_ref().unwrap().child, CHILD);
}

#[test]
fn sums_never_fall_when_processes_end_or_pids_are_used_again() {
    let mut book = server();
    book.read(SERVER, faults(600), None);
    let before = frame(&book, 1).groups[0].totals.clone();
    book.ended(SERVER, 2);
    assert!(!book.knows(SERVER));
    assert_eq!(book.drop_ended(), [SERVER]);
    book.add(SERVER, &stat("server", 99), faults(4), None);
    book.read(SERVER, faults(10), None);
    let after = frame(&book, 3).groups[0].totals.clone();
    assert_eq!(after.minor_faults, before.minor_faults + 6);
    assert_eq!(after.exits, Some(1));
}

#[test]
fn names_are_bounded() {
    let mut book = Book::new(PAGE, true);
    for pid in 1..500 {
        book.add(pid, &stat(&format!("name{pid}"), 1), faults(0), None);
        book.read(pid, faults(1), None);
    }
    let frame = frame(&book, 1);
    assert_eq!(frame.groups.len(), GROUPS + 1);
    let other = frame.groups.iter().find(|group| group.name == OTHER).unwrap();
    assert_eq!(other.processes, 399);
    assert_eq!(other.totals.minor_faults, 399);
}

#[test]
fn names_age_out_and_their_sums_do_not() {
    let mut book = Book::new(PAGE, true);
    let end = |book: &mut Book, pid| {
        book.ended(pid, 5);
        frame(book, 5);
        book.drop_ended();
    };
    book.add(1, &stat("stays", 7), faults(0), None);
    for pid in 100..230 {
        book.add(pid, &stat(&format!("short{pid}"), 7), faults(0), None);
        end(&mut book, pid);
    }
    book.add(300, &stat("lives", 7), faults(0), None);
    book.read(300, faults(0), None);
    let groups = frame(&book, 6).groups;
    let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
    assert!(names.len() <= GROUPS + 1 && names.contains(&"lives") && names.contains(&"stays"));
    assert!(names.contains(&"short229") && !names.contains(&"short100"), "{names:?}");
    let exits: u64 = groups.iter().filter_map(|group| group.totals.exits).sum();
    assert_eq!(exits, 130);
}

#[test]
fn thousands_of_children_are_no_work_for_each_other() {
    let mut book = server();
    for child in 0..20_000 {
        fork_of(&mut book, SERVER, 1000 + child, u64::from(child), false);
    }
    let shown = frame(&book, 30_000).processes[0].clone();
    assert_eq!((shown.children_alive, shown.epoch.unwrap().child), (20_000, 20_999));
    for child in 0..20_000 {
        book.ended(1000 + child, 30_000);
    }
    assert_eq!(frame(&book, 30_000).processes[0].children_alive, 0);
    assert!(book.children.is_empty());
}

#[test]
fn where_everything_is_watched_a_program_is_its_own() {
    let mut book = Book::new(PAGE, true);
    book.add(SERVER, &stat("shell", 7), faults(0), None);
    fork_of(&mut book, SERVER, CHILD, 10, false);
    assert_eq!(frame(&book, 11).processes.len(), 1);
    book.executed(&event(CHILD, 12, Happening::Exec));
    let frame = frame(&book, 13);
    assert_eq!(frame.processes.len(), 2);
    assert!(frame.groups.iter().any(|group| group.name == "other-name" && group.processes == 1));
}

#[test]
fn many_children_are_counted_and_some_shown() {
    let mut book = server();
    for child in 0..2000 {
        fork_of(&mut book, SERVER, CHILD + child, 10 + u64::from(child), false);
    }
    let process = frame(&book, 9000).processes[0].clone();
    assert_eq!((process.children_alive, process.children.len()), (2000, 50));
    assert_eq!(process.children[0].pid, CHILD + 1999, "the newest first");
    // The parent ends before them: nobody is left that they could share with.
    book.ended(SERVER, 9001);
    assert_eq!(book.alive(false).len(), 2000);
}

#[test]
fn a_child_is_walked_again_only_after_a_fault() {
    let mut book = server();
    fork_of(&mut book, SERVER, CHILD, 10, false);
    assert!(book.has_news(CHILD, 11), "never walked");
    book.walked(CHILD, walk(30, 960), 12);
    assert!(!book.has_news(CHILD, 13));
    book.read(SERVER, faults(501), None);
    assert!(book.has_news(CHILD, 14), "its parent has written");
    book.walked(CHILD, walk(31, 959), 15);
    book.read(CHILD, faults(4), None);
    assert!(book.has_news(CHILD, 16), "it has written itself");

    // Whose turn it was goes behind those whose turn it was not.
    fork_of(&mut book, SERVER, CHILD + 1, 20, false);
    fork_of(&mut book, SERVER, CHILD + 2, 30, false);
    assert!(book.has_news(CHILD + 1, 31));
    assert_eq!(book.sharing(), [CHILD + 2, CHILD, CHILD + 1]);
}
