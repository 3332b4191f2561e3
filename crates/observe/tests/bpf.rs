// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs on the running kernel: what a shell does is told, and nothing stays.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cowlab_observe::bpf::{
    Anchor, Anchors, BpfError, Event, Fault, FaultMode, Happening, Observer, ObserverSettings,
    Scope,
};

/// An observer of this process, or the reason why there is none here.
fn observer(faults: FaultMode) -> Option<Observer> {
    match Observer::attach(ObserverSettings { faults, ..ObserverSettings::default() }) {
        Ok(mut observer) => {
            observer.watch(std::process::id()).unwrap();
            Some(observer)
        }
        Err(BpfError::NotAllowed(reason)) => {
            eprintln!("skipped: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Runs a shell that forks once, and reads until its end is told.
fn watch_a_shell(observer: &mut Observer) -> (u32, Vec<Event>, Vec<Fault>) {
    let mut shell = Command::new("/bin/sh")
        .args(["-c", "(exit 0); exit 0"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let pid = shell.id();
    shell.wait().unwrap();
    let (mut events, mut faults) = (Vec::new(), Vec::new());
    let until = Instant::now() + Duration::from_secs(10);
    let ended =
        |events: &[Event]| events.iter().any(|e| e.tgid == pid && e.what == Happening::Exit);
    while !ended(&events) && Instant::now() < until {
        observer.wait(Duration::from_millis(100));
        observer.read_events(|event| events.push(event));
    }
    observer.read_faults(|fault| faults.push(fault));
    assert!(ended(&events), "the shell's end is told: {events:?}");
    (pid, events, faults)
}

/// Descriptors of this process that belong to BPF.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|link| link.to_string_lossy().contains("bpf"))
        .count()
}

/// One test, as descriptors are the process's.
#[test]
fn a_shell_is_told_and_nothing_stays() {
    let before = descriptors();
    let Some(mut every) = observer(FaultMode::Every) else { return };
    let (shell, events, faults) = watch_a_shell(&mut every);
    let learned = every.learned();
    assert!(learned.tgid_offset.is_some(), "a new thread's pid was found");

    let forks: Vec<_> = events
        .iter()
        .filter_map(|event| match event.what {
            Happening::Fork(fork) => Some((event.tgid, fork)),
            _ => None,
        })
        .collect();
    let of = |parent| forks.iter().find(|(tgid, _)| *tgid == parent).map(|(_, fork)| *fork);
    let spawned = of(std::process::id()).expect("the spawn of the shell");
    assert_eq!((spawned.child_tgid, spawned.shares_memory), (Some(shell), true));
    assert_eq!(spawned.stop_ns, None, "nothing is copied");
    let forked = of(shell).expect("the shell's fork");
    assert!(!forked.shares_memory && forked.child_tgid.is_some());
    if learned.anchor.is_some() {
        let stop_ns = forked.stop_ns.expect("its beginning was seen");
        assert!((1_000..1_000_000_000).contains(&stop_ns), "{stop_ns} ns");
    }
    let exec = events.iter().find(|event| event.tgid == shell && event.what == Happening::Exec);
    assert_eq!(exec.expect("the shell is executed").comm, "sh");

    let counts = every.counts(shell).unwrap();
    let told = faults.iter().filter(|fault| fault.tgid == shell).count() as u64;
    assert_eq!(counts.faults, told, "each fault that is counted is told");
    assert!(counts.writes_to_present > 0 && counts.writes_to_absent > 0, "{counts:?}");
    assert_eq!(every.lost(), Default::default());
    every.forget(shell);
    assert_eq!(every.counts(shell), None);
    drop(every);
    assert_eq!(descriptors(), before, "no program or map is left");

    let small = ObserverSettings {
        faults: FaultMode::Every,
        fault_ring_bytes: 512,
        ..ObserverSettings::default()
    };
    let mut small = Observer::attach(small).unwrap();
    small.watch(std::process::id()).unwrap();
    let (shell, _, faults) = watch_a_shell(&mut small);
    let (counted, lost) = (small.counts(shell).unwrap().faults, small.lost().faults);
    let told = faults.iter().filter(|fault| fault.tgid == shell).count() as u64;
    assert!(lost > 0 && told <= counted && counted <= told + lost, "{told} {lost} {counted}");
    drop(small);

    let everything = ObserverSettings {
        scope: Scope::Everything,
        events: false,
        faults: FaultMode::Count,
        ..ObserverSettings::default()
    };
    let counting = Observer::attach(everything).unwrap();
    Command::new("/bin/true").status().unwrap();
    assert!(!counting.watched().is_empty(), "whoever faults is counted");
    drop(counting);
    both_anchors_show_the_same_stop();
}

/// Both look at the same forks of this process, which has 64 MiB.
fn both_anchors_show_the_same_stop() {
    let by = |anchors| {
        let settings = ObserverSettings { anchors, ..ObserverSettings::default() };
        let mut observer = Observer::attach(settings).unwrap();
        observer.watch(std::process::id()).unwrap();
        observer
    };
    let mut observers = [by(Anchors::All), by(Anchors::Locks)];
    let [first, locks] = observers.each_ref().map(|observer| observer.learned().anchor);
    assert_eq!(locks, Some(Anchor::Locks), "Linux has it since 5.11");
    if !matches!(first, Some(Anchor::Allocation(_))) {
        return eprintln!("skipped: this kernel allocates nothing per CPU in a fork");
    }
    // To learn is to fork.
    for observer in &mut observers {
        observer.read_events(drop);
    }
    let memory = std::hint::black_box(vec![1_u8; 64 << 20]);
    const FORKS: usize = 20;
    for _ in 0..FORKS {
        // A user id makes the library fork.
        let same_user = rustix::process::getuid().as_raw();
        Command::new("/bin/true").uid(same_user).status().unwrap();
    }
    drop(memory);
    let [first, locks] = observers.each_mut().map(|observer| {
        let mut stops = Vec::new();
        observer.read_events(|event| match event.what {
            Happening::Fork(fork) if event.tgid == std::process::id() => stops.extend(fork.stop_ns),
            _ => {}
        });
        assert_eq!(stops.len(), FORKS, "{:?}", observer.learned().anchor);
        stops
    });
    // Between an allocation and the lock nothing happens but waiting for it.
    let shares: Vec<_> =
        locks.iter().zip(&first).map(|(lock, site)| *lock as f64 / *site as f64).collect();
    assert!(shares.iter().all(|share| *share <= 1.05), "{shares:?}");
    let alike = shares.iter().filter(|share| **share > 0.9).count();
    assert!(alike > FORKS / 2, "{shares:?}");
}
