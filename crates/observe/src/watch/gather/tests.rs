// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Without BPF, on processes of their own; events are made up.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use super::*;
use crate::bpf::{Event, ForkEvent, Happening};
use crate::watch::frame::Epoch;

const NOBODY: u32 = 1 << 30;

/// A program and all that it starts, which ends with it.
struct Started {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Started {
    fn new(command: &mut Command) -> Started {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.process_group(0).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Started { child, out }
    }

    fn shell(script: &str) -> Started {
        Started::new(Command::new("sh").args(["-c", script]))
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn tell(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// The pid on its next line, once the process has that name.
    fn next(&mut self, name: &str) -> u32 {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        let pid = line.trim().parse().unwrap();
        in_time(|| reading::read_stat(pid).is_some_and(|stat| stat.name == name));
        pid
    }

    fn kill(&mut self) {
        let group = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        let _ = kill_process_group(group, Signal::KILL);
        self.child.wait().unwrap();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.kill();
    }
}

fn in_time(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed().as_secs() < 10, "it does not happen");
        std::thread::yield_now();
    }
}

fn watch(wanted: Wanted) -> Gatherer {
    let options = Options { without_bpf: true, ..Options::default() };
    Gatherer::begin(wanted, &options).unwrap()
}

fn event(tgid: u32, what: Happening) -> Event {
    Event { time_ns: monotonic_ns(), tgid, tid: tgid, comm: "x".into(), what }
}

fn fork(tgid: u32, child: u32) -> Event {
    let fork = ForkEvent { child_tgid: Some(child), shares_memory: false, stop_ns: Some(7) };
    event(tgid, Happening::Fork(fork))
}

#[test]
fn forks_count_though_who_made_them_has_ended() {
    let mut shell = Started::shell("sleep 60 & echo $!; wait");
    let (parent, child) = (shell.pid(), shell.next("sleep"));
    let mut watch = watch(Wanted::Pid(parent));
    // As where they are told.
    (watch.sees.events, watch.sees.stops) = (true, true);
    assert_eq!(watch.book.parent(child), Some(parent));
    shell.kill();
    in_time(|| reading::read(child).is_none());
    // A batch that is read only then.
    watch.take(&fork(parent, NOBODY), false);
    watch.take(&fork(parent, NOBODY + 1), false);
    watch.take(&fork(child, NOBODY + 2), false);
    watch.take(&event(child, Happening::Exit), false);
    assert!(watch.book.knows(parent) && !watch.book.knows(child), "its end is not told yet");
    assert_eq!(watch.book.parent(NOBODY + 1), Some(parent));
    watch.take(&event(parent, Happening::Exit), false);
    // One of a process that nobody knows.
    watch.take(&fork(NOBODY + 7, NOBODY + 8), false);
    let frame = watch.frame();
    let totals = &frame.groups[0].totals;
    assert_eq!((totals.forks, totals.stops.as_ref().unwrap().count), (Some(3), 3));
    assert_eq!(totals.exits, Some(5));
    assert!(watch.is_over());
}

#[test]
fn a_worker_is_shown_alone_with_what_it_copied() {
    // A shell that goes on as a subshell executes nothing.
    let mut shell = Started::shell("(echo $(exec sh -c 'echo $PPID'); sleep 60; :) & read line");
    let worker = shell.next("sh");
    let mut watch = watch(Wanted::Pid(worker));
    for _ in 0..2 {
        let frame = watch.frame();
        let shown: Vec<u32> = frame.processes.iter().map(|of| of.pid).collect();
        assert_eq!(shown, [worker]);
        let epoch = frame.processes[0].epoch.as_ref().expect("what it copied");
        assert_eq!((epoch.child, frame.groups[0].processes), (worker, 1));
    }
    let began = Instant::now();
    let mut epoch = None;
    while epoch.as_ref().is_none_or(|of: &Epoch| of.walked_bytes.is_none()) {
        assert!(began.elapsed().as_secs() < 10, "it is not walked: {epoch:?}");
        watch.until(Instant::now() + Duration::from_millis(20), || false);
        epoch = watch.frame().processes[0].epoch.clone();
    }
    assert!(epoch.is_some_and(|of| of.copied_bytes.is_some()));
    shell.kill();
    in_time(|| reading::read(worker).is_none());
    // Its parent ended as well, which makes it a process of its own first.
    watch.frame();
    watch.frame();
    assert!(watch.is_over());
}

#[test]
fn a_process_goes_on_without_its_first_thread() {
    let source = "#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\n\
                  static void *stay(void *unused) { pause(); return unused; }\n\
                  int main(void)\n{\n\tpthread_t other;\n\n\
                  \tif (pthread_create(&other, 0, stay, 0))\n\t\treturn 1;\n\
                  \tgetchar();\n\tpthread_exit(0);\n}\n";
    let folder = tempfile::tempdir().unwrap();
    let (file, program) = (folder.path().join("leaves.c"), folder.path().join("leaves"));
    fs::write(&file, source).unwrap();
    let built = Command::new("cc").arg("-pthread").arg("-o").arg(&program).arg(&file).output();
    let built = built.expect("a C compiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    let mut leaves = Started::new(&mut Command::new(&program));
    let pid = leaves.pid();
    let mut watch = watch(Wanted::Pid(pid));
    leaves.tell();
    in_time(|| reading::read_even_ended(pid).is_some_and(|(stat, _)| stat.has_ended()));
    watch.take(&event(pid, Happening::Exit), false);
    let frame = watch.frame();
    assert!(!frame.processes[0].ended && !watch.is_over());
    // Its place is taken: all of it may have ended since, which another event tells.
    leaves.kill();
    watch.take(&event(pid, Happening::Exit), true);
    assert!(watch.book.knows(pid));
    assert!(watch.frame().processes[0].ended && watch.is_over());
}

#[test]
fn watching_a_pid_ends_with_it_though_a_child_lives() {
    let mut shell = Started::shell("sleep 60 & echo $!; wait");
    let child = shell.next("sleep");
    let mut watch = watch(Wanted::Pid(shell.pid()));
    assert_eq!(watch.frame().processes[0].children_alive, 1);
    assert!(!watch.is_over());
    shell.child.kill().unwrap();
    shell.child.wait().unwrap();
    let frame = watch.frame();
    assert!(frame.processes.iter().any(|process| process.ended));
    assert!(watch.is_over() && watch.book.knows(child));
}

#[test]
fn a_parent_comes_before_workers_that_have_smaller_numbers() {
    let of = |pid: u32, parent: i32| (pid, Stat { parent, ..Stat::default() });
    let found = parents_first(vec![of(3, 900), of(5, 3), of(900, 1), of(901, 900)]);
    assert_eq!(found.iter().map(|(pid, _)| *pid).collect::<Vec<_>>(), [900, 3, 901, 5]);
    // They were read one after the other, and a number may have changed hands meanwhile.
    assert_eq!(parents_first(vec![of(1, 2), of(2, 1)]).len(), 2);
}

#[test]
fn in_a_group_a_worker_shares_and_another_program_does_not() {
    let mut shell = Started::shell("sleep 60 & echo $!; (sleep 60; true) & echo $!; wait");
    let (program, worker) = (shell.next("sleep"), shell.next("sh"));
    let folder = tempfile::tempdir().unwrap();
    let members = format!("{}\n{program}\n{worker}\n", shell.pid());
    fs::write(folder.path().join("cgroup.procs"), members).unwrap();
    let frame = watch(Wanted::Cgroup(folder.path().to_owned())).frame();
    let pids: Vec<u32> = frame.processes.iter().map(|process| process.pid).collect();
    assert!(pids.contains(&shell.pid()) && pids.contains(&program) && !pids.contains(&worker));
    let of_shell = frame.processes.iter().find(|process| process.pid == shell.pid()).unwrap();
    assert_eq!(of_shell.epoch.as_ref().map(|epoch| epoch.child), Some(worker));
    assert_eq!(of_shell.children_alive, 1);
}

#[test]
fn where_everything_is_watched_a_new_program_is_its_own() {
    let mut shell = Started::shell("read line; sleep 60 & echo $!; wait");
    let mut watch = watch(Wanted::All);
    shell.tell();
    let program = shell.next("sleep");
    let frame = watch.frame();
    let found = frame.processes.iter().find(|process| process.pid == program);
    assert_eq!(found.map(|process| process.name.as_str()), Some("sleep"));
    assert!(frame.groups.iter().any(|group| group.name == "sleep" || group.name == "other"));
}

#[test]
fn a_storm_of_forks_costs_no_more_than_its_share_and_every_fork_is_counted() {
    const PER_S: u64 = 7200;
    const SECONDS: u64 = 20;
    let mut shell = Started::shell("sleep 60 & echo $!; wait");
    let (parent, child) = (shell.pid(), shell.next("sleep"));
    let mut watch = watch(Wanted::Pid(parent));
    (watch.sees.events, watch.sees.stops) = (true, true);
    // Each is about a process that can be read.
    let storm: Vec<Event> = (0..PER_S).map(|_| fork(parent, child)).collect();
    let mut lost = 0;
    let began_ns = nanoseconds(ClockId::ThreadCPUTime);
    let mut second = Instant::now();
    for _ in 0..SECONDS {
        second += Duration::from_secs(1);
        watch.pace.pass(second);
        watch.pace.mark();
        // The kernel's ring has room for a second's.
        match watch.pace.is_late() {
            true => lost += PER_S,
            false => watch.take_all(&storm),
        }
    }
    let took_ns = nanoseconds(ClockId::ThreadCPUTime) - began_ns;
    // A hundredth, what was saved up before, and the debt with which it ends.
    assert!(took_ns < SECONDS * 10_000_000 + 300_000_000, "{took_ns} ns of CPU time");
    let forks = watch.frame().groups[0].totals.forks.unwrap();
    assert_eq!(forks + lost, PER_S * SECONDS);
    assert!((1..=forks).contains(&watch.pace.unread_events), "{}", watch.pace.unread_events);
}

/// With BPF, where that is allowed.
#[test]
fn a_few_forks_are_counted_however_late_it_is() {
    let mut shell = Started::shell("read line; (:); (:); echo $$; read line; (:)");
    let pid = shell.pid();
    let mut watch = Gatherer::begin(Wanted::Pid(pid), &Options::default()).unwrap();
    if !watch.sees.events {
        eprintln!("skipped: {:?}", watch.sees.missing);
        return;
    }
    // The budget is spent, as a guest's is by time that its host took.
    watch.pace.mark();
    let began_ns = nanoseconds(ClockId::ThreadCPUTime);
    while nanoseconds(ClockId::ThreadCPUTime) < began_ns + 300_000_000 {}
    watch.pace.charge();
    assert!(watch.pace.is_late());
    shell.tell();
    shell.next("sh");
    let forks = |frame: &Frame| frame.groups[0].totals.forks;
    assert_eq!(forks(&watch.frame()), Some(2));
    shell.tell();
    in_time(|| reading::read(pid).is_none());
    assert_eq!(forks(&watch.frame()), Some(3));
    assert!(watch.is_over() && watch.pace.is_late());
}

#[test]
fn forks_of_programs_that_have_ended_count_by_their_name() {
    let mut watch = watch(Wanted::All);
    (watch.sees.events, watch.sees.stops) = (true, true);
    let storm: Vec<Event> = (0..10_000).map(|n| fork(NOBODY + n, NOBODY + 20_000)).collect();
    watch.pace.pass(Instant::now());
    watch.take(&storm[0], false);
    let before = watch.pace.unread_events;
    storm[1..].iter().for_each(|event| watch.count(event));
    assert_eq!(watch.pace.unread_events - before, 9_999);
    let frame = watch.frame();
    let sum = &frame.groups.iter().find(|group| group.name == "x").unwrap().totals;
    assert_eq!(
        (sum.forks, sum.stops.as_ref().map(|stops| stops.count)),
        (Some(10_000), Some(10_000))
    );
    // However many names there are.
    for n in 0..1000 {
        let name = format!("x{n}");
        watch.count(&Event { comm: name, ..fork(NOBODY + n, NOBODY + 20_000) });
    }
    let frame = watch.frame();
    assert!(frame.groups.len() <= 101, "{}", frame.groups.len());
    let forks: u64 = frame.groups.iter().filter_map(|group| group.totals.forks).sum();
    assert_eq!(forks, 11_000);
}
