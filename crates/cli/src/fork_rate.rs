// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process that forks all the time, as a fuzzer's fork server does, looked at for a second.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cowlab_machine::Stat;
use cowlab_model::stats::median;
use cowlab_observe::Target;
use cowlab_observe::bpf::{Event, FaultMode, Happening, Lost, Observer, ObserverSettings};

/// So long it is looked whether children come to an end.
const GLANCE: Duration = Duration::from_millis(100);
/// So long the forks of one that forks all the time are counted.
const LOOK: Duration = Duration::from_secs(1);

/// Fewer in a look say little.
const LEAST_FORKS: usize = 5;

/// What the forks of a process were like whose children soon end.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkRate {
    /// Forks a second.
    pub per_s: f64,
    /// The stop of half of them was longer; `None` where this kernel does not show it.
    pub stop_ns: Option<f64>,
    /// Pages copied for each, by both sides; of a child nothing after it has executed another program.
    pub copies: Option<f64>,
    /// Whether most children executed another program.
    pub execute: bool,
}

/// `None` of a process whose children do not end all the time; an error where its forks may not be seen.
pub fn fork_rate(target: &Target) -> Result<Option<ForkRate>, String> {
    let reaped = || Stat::of(target.pid()).map(|stat| stat.reaped_minor_faults);
    let before = reaped();
    std::thread::sleep(GLANCE);
    if reaped() == before {
        return Ok(None);
    }
    let settings = ObserverSettings {
        faults: FaultMode::Copies,
        kernel_faults: true,
        // They are counted, not told.
        copies_bytes: 4096,
        processes: 16384,
        ..ObserverSettings::default()
    };
    let mut observer = Observer::attach(settings).map_err(|error| error.to_string())?;
    let pid = target.pid().cast_unsigned();
    observer.watch(pid).map_err(|error| error.to_string())?;
    let begin = Instant::now();
    let mut events = Vec::new();
    while let Some(left) = LOOK.checked_sub(begin.elapsed()) {
        observer.wait(left);
        observer.read_events(|event| events.push(event));
    }
    if observer.lost() != Lost::default() {
        return Err("events were lost".to_owned());
    }
    let copies = |tgid| observer.counts(tgid).map(|counts| counts.copies);
    Ok(of_events(&events, pid, begin.elapsed(), copies))
}

fn of_events(
    events: &[Event],
    pid: u32,
    time: Duration,
    copies: impl Fn(u32) -> Option<u64>,
) -> Option<ForkRate> {
    let forks =
        events.iter().filter(|event| event.tgid == pid).filter_map(|event| match event.what {
            Happening::Fork(fork) if !fork.shares_memory => Some(fork),
            _ => None,
        });
    let forks: Vec<_> = forks.collect();
    let mut memory: BTreeSet<u32> = forks.iter().filter_map(|fork| fork.child_tgid).collect();
    let children = memory.len();
    for event in events.iter().filter(|event| event.what == Happening::Exec) {
        memory.remove(&event.tgid);
    }
    let execs = children - memory.len();
    let ended = events.iter().filter(|event| event.what == Happening::Exit);
    let ended: BTreeSet<u32> = ended.map(|event| event.tgid).collect();
    // Of one that lives on it is not known what it will copy, nor that anybody waits for it.
    let lived = forks.iter().filter_map(|fork| fork.child_tgid).filter(|pid| ended.contains(pid));
    let lived = lived.count();
    // The last one may still be at work.
    if lived < LEAST_FORKS || forks.len() - lived > 1 + forks.len() / 10 {
        return None;
    }
    memory.insert(pid);
    let copied: Option<u64> = memory.into_iter().map(copies).sum();
    let stops: Vec<f64> = forks.iter().filter_map(|fork| Some(fork.stop_ns? as f64)).collect();
    Some(ForkRate {
        per_s: forks.len() as f64 / time.as_secs_f64(),
        stop_ns: median(&stops),
        copies: copied.map(|pages| pages as f64 / forks.len() as f64),
        execute: 2 * execs > forks.len(),
    })
}

#[cfg(test)]
mod tests {
    use cowlab_observe::bpf::ForkEvent;

    use super::*;

    #[test]
    fn forks_of_the_process_alone_are_counted() {
        let event = |tgid, what| Event { time_ns: 0, tgid, tid: tgid, comm: String::new(), what };
        let fork = |child, stop_ns: Option<u64>| {
            let shares_memory = stop_ns.is_none();
            Happening::Fork(ForkEvent { child_tgid: Some(child), shares_memory, stop_ns })
        };
        let mut events = vec![
            event(20, Happening::Exec),
            event(20, fork(40, Some(9000))),
            event(7, fork(41, None)),
            event(40, Happening::Exec),
        ];
        for child in 20..26 {
            events.insert(0, event(7, fork(child, Some(u64::from(child) * 1000))));
            events.push(event(child, Happening::Exit));
        }
        let copies = |tgid| Some(u64::from(tgid));
        let rate = of_events(&events, 7, Duration::from_secs(2), copies).unwrap();
        // Of 20, which has executed, nothing counts, and of 40, whose parent it is, neither.
        let copies_each = Some((7.0 + 21.0 + 22.0 + 23.0 + 24.0 + 25.0) / 6.0);
        let (per_s, stop_ns) = (3.0, Some(22_500.0));
        assert_eq!(rate, ForkRate { per_s, stop_ns, copies: copies_each, execute: false });
        // Where a child lives on, what it will have copied is not known.
        events.truncate(events.len() - 2);
        assert_eq!(of_events(&events, 7, Duration::from_secs(2), copies), None);
        assert_eq!(of_events(&events, 8, Duration::from_secs(2), copies), None);
    }
}
