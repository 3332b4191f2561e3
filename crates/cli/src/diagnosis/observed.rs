// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a program's forks are seen to do for a while: how often, how long each stops it, what is copied after it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cowlab_machine::Facts;
use cowlab_machine::process::Target;
use cowlab_model::stats::median;
use cowlab_observe::blame::{Collector, LOOK, Share};
use cowlab_observe::bpf::{BpfError, Event, Happening, Killed, Lost, Observer, ObserverSettings};
use cowlab_report::blame::Blamed;
use cowlab_schema::blame::{self as names, COPIED_PAGES, PROGRAM, REUSE_FAULTS};
use cowlab_store::{Run, RunInfo};
use serde::Serialize;

use crate::recorded::{give_way, lacking, samples};
use crate::{output, signals};

/// Until exec a child that only arranges its descriptors needs less.
pub(super) const SLOW_EXEC_NS: f64 = 5e6;
/// System calls are counted for so long: each of the machine is a little slower meanwhile.
const CALLS: Duration = Duration::from_secs(1);
/// So many children have ended of a program that forks all the time: fewer say little.
const LEAST_ENDED: usize = 5;

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Forks {
    /// For so long it was watched.
    pub duration_s: f64,
    pub forks: usize,
    /// Children that executed another program, and that ended meanwhile.
    pub executed: usize,
    pub ended: usize,
    /// Children by vfork and posix_spawn, which stop it until they execute.
    pub spawns: usize,
    /// The median of the stops, the shortest and the longest; `None` without forks, and where this kernel does
    /// not show them.
    pub stop_ns: Option<f64>,
    pub shortest_stop_ns: Option<u64>,
    pub longest_stop_ns: Option<u64>,
    /// From a fork until its child executed another program: the median, and the longest.
    pub until_exec_ns: Option<f64>,
    pub longest_until_exec_ns: Option<f64>,
    /// Where that is long, the system call that children make most: its number, and how often each makes it.
    pub call: Option<(u32, u64)>,
    /// The same of vfork and posix_spawn, for which the caller waits.
    pub spawn_ns: Option<f64>,
    /// How long children lived that executed nothing: the median.
    pub life_ns: Option<f64>,
    /// Signals that ended children; addresses are not shown.
    #[serde(skip)]
    pub killed: Vec<Killed>,
}

/// Copies that were seen with their stacks.
pub struct Copies {
    pub blamed: Blamed,
    pub run: Run,
}

/// What watching a program showed; an error says what was not seen.
pub struct Observed {
    pub forks: Result<Forks, String>,
    pub copies: Result<Copies, String>,
    /// Whether it ended meanwhile.
    pub has_ended: bool,
}

impl Observed {
    pub fn forks(&self) -> Option<&Forks> {
        self.forks.as_ref().ok()
    }

    /// Pages that were copied after a fork, by both sides. Without a fork that was seen from its beginning on,
    /// copies say nothing of one.
    pub fn pages_per_fork(&self, name: &str) -> Option<f64> {
        let forks = self.forks().filter(|forks| forks.forks > 0)?;
        Some(self.copies.as_ref().ok()?.pages(name, forks.executed > 0) / forks.forks as f64)
    }
}

impl Observed {
    /// Pages that were written after a fork when nobody shared them any more.
    pub fn reused_per_fork(&self) -> Option<f64> {
        let forks = self.forks().filter(|forks| forks.forks > 0)?;
        let samples = &self.copies.as_ref().ok()?.run.samples;
        let reused = samples.iter().filter(|row| row.metric == REUSE_FAULTS.name);
        Some(reused.map(|row| row.value).sum::<f64>() / forks.forks as f64)
    }
}

impl Forks {
    /// Whether most children executed another program.
    pub fn execute(&self) -> bool {
        2 * self.executed > self.forks
    }

    /// Forks a second of a program whose children soon end: of one that lives on it is not known what it will
    /// copy, nor that anybody waits for it. The last one may still be at work.
    pub fn per_s(&self) -> Option<f64> {
        (self.ended >= LEAST_ENDED && self.children_end())
            .then(|| self.forks as f64 / self.duration_s)
    }

    /// Whether children end while the program forks on: one that shares its memory now soon will not.
    pub fn children_end(&self) -> bool {
        self.forks > 1 && self.forks - self.ended.min(self.forks) <= 1 + self.forks / 10
    }

    /// From one fork to the next, on average; `None` before the second.
    pub fn between_s(&self) -> Option<f64> {
        (self.forks > 1).then(|| self.duration_s / self.forks as f64)
    }
}

impl Copies {
    /// Of what the parent and the children wrote as `name`; what those that execute write afterwards is another
    /// program's.
    fn pages(&self, name: &str, is_named: bool) -> f64 {
        let is_its = |program: Option<&String>| {
            !is_named
                || program.is_some_and(|of| of == name || of.starts_with(&format!("{name} until")))
        };
        let rows = self.run.samples.iter().filter(|row| row.metric == COPIED_PAGES.name);
        rows.filter(|row| is_its(row.params.get(PROGRAM.name()))).map(|row| row.value).sum()
    }
}

/// Watches the forks of a program and the copies after them. An error says why nothing is known of either.
pub fn observe(
    json: bool,
    target: &Target,
    machine: &Facts,
    time: Duration,
) -> Result<Observed, String> {
    let text = |error: BpfError| error.to_string();
    let interrupts = signals::last().map_err(|error| error.to_string())?;
    let mut observer =
        Observer::attach(ObserverSettings { signals: true, ..ObserverSettings::default() })
            .map_err(text)?;
    let pid = target.pid().cast_unsigned();
    observer.watch(pid).map_err(text)?;
    // Some kernels show forks, and not the faults that copy.
    let mut collector = Collector::attach(Share::ByCost)
        .and_then(|mut collector| collector.watch(target).map(|()| collector))
        .map_err(text);
    let mut run = Run {
        info: RunInfo::begin(names::BENCH.name, 0, machine.environment()),
        samples: Vec::new(),
    };
    let seconds = time.as_secs_f64();
    output::progress(
        json,
        &format!("watching {} for {seconds} s; Ctrl-C ends it earlier", target.name()),
    );
    give_way();
    let (began, mut events) = (Instant::now(), Vec::new());
    while began.elapsed() < time && interrupts.load(Ordering::Relaxed) == 0 && target.is_alive() {
        std::thread::sleep(LOOK);
        if let Ok(collector) = &mut collector {
            collector.look();
        }
        observer.read_events(|event| events.push(event));
    }
    let lasted = began.elapsed();
    let mut forks = match observer.lost() == Lost::default() {
        true => Ok(count(&events, pid, lasted)),
        false => Err("some events were lost".to_owned()),
    };
    // Before there are processes that read files, which may outlive this one.
    drop(observer);
    let copies = collector.map(|collector| {
        let got = collector.finish();
        run.samples = samples(&got, lasted, run.info.started.as_nanosecond() as i64);
        run.info.missing = lacking(&got);
        Copies { blamed: Blamed::of(&run, &got.stacks), run }
    });
    if let Ok(forks) = &mut forks
        && forks.until_exec_ns.is_some_and(|ns| ns > SLOW_EXEC_NS)
    {
        forks.call = call(target, lasted);
    }
    Ok(Observed { forks, copies, has_ended: !target.is_alive() })
}

/// The system call that children make most before they execute, for a moment: how often by each.
fn call(target: &Target, lasted: Duration) -> Option<(u32, u64)> {
    let settings = ObserverSettings { calls: true, ..ObserverSettings::default() };
    let mut observer = Observer::attach(settings).ok()?;
    let pid = target.pid().cast_unsigned();
    observer.watch(pid).ok()?;
    target.wait_for_end(CALLS.min(lasted));
    let mut events = Vec::new();
    observer.read_events(|event| events.push(event));
    let children = count(&events, pid, CALLS).forks as u64;
    observer
        .most_called()
        .filter(|_| children > 0)
        .map(|(number, calls)| (number, calls / children))
}

/// A child of the program, as events show it.
struct Child {
    born_ns: u64,
    shares_memory: bool,
    executed_ns: Option<u64>,
    ended_ns: Option<u64>,
}

fn count(events: &[Event], pid: u32, lasted: Duration) -> Forks {
    let (mut stops, mut killed) = (Vec::new(), Vec::new());
    // The last of each pid; of others their place was taken.
    let mut living: HashMap<u32, Child> = HashMap::new();
    let mut children = Vec::new();
    for event in events {
        if let (Happening::Fork(fork), true) = (event.what, event.tgid == pid) {
            let Some(child) = fork.child_tgid.filter(|child| *child != pid) else { continue };
            stops.extend(fork.stop_ns.filter(|_| !fork.shares_memory));
            let (born_ns, shares_memory) = (event.time_ns, fork.shares_memory);
            let born = Child { born_ns, shares_memory, executed_ns: None, ended_ns: None };
            children.extend(living.insert(child, born));
        } else if let Some(child) = living.get_mut(&event.tgid) {
            match event.what {
                Happening::Exec => _ = child.executed_ns.get_or_insert(event.time_ns),
                Happening::Exit => _ = child.ended_ns.get_or_insert(event.time_ns),
                Happening::Killed(by) if child.executed_ns.is_none() => killed.push(by),
                _ => {}
            }
        }
    }
    children.extend(living.into_values());
    let (spawned, forked): (Vec<Child>, Vec<Child>) =
        children.into_iter().partition(|child| child.shares_memory);
    let until = |of: &[Child], when: fn(&Child) -> Option<u64>| -> Vec<f64> {
        let since = |child: &Child| Some(when(child)?.saturating_sub(child.born_ns) as f64);
        of.iter().filter_map(since).collect()
    };
    let to_exec = until(&forked, |child| child.executed_ns);
    let lives = until(&forked, |child| child.ended_ns.filter(|_| child.executed_ns.is_none()));
    Forks {
        duration_s: lasted.as_secs_f64(),
        forks: forked.len(),
        executed: to_exec.len(),
        ended: forked.iter().filter(|child| child.ended_ns.is_some()).count(),
        spawns: spawned.len(),
        stop_ns: median(&stops.iter().map(|ns| *ns as f64).collect::<Vec<_>>()),
        shortest_stop_ns: stops.iter().min().copied(),
        longest_stop_ns: stops.iter().max().copied(),
        until_exec_ns: median(&to_exec),
        call: None,
        longest_until_exec_ns: to_exec.into_iter().reduce(f64::max),
        spawn_ns: median(&until(&spawned, |child| child.executed_ns)),
        life_ns: median(&lives),
        killed,
    }
}

#[cfg(test)]
mod tests {
    use cowlab_observe::bpf::ForkEvent;

    use super::*;

    fn event(tgid: u32, what: Happening) -> Event {
        Event { time_ns: 0, tgid, tid: tgid, comm: String::new(), what }
    }

    fn fork(child: u32, stop_ns: Option<u64>) -> Happening {
        let shares_memory = stop_ns.is_none();
        Happening::Fork(ForkEvent { child_tgid: Some(child), shares_memory, stop_ns })
    }

    #[test]
    fn forks_of_the_program_are_told_from_spawns_and_threads() {
        let events = [
            event(7, fork(8, Some(1000))),
            event(7, fork(9, Some(3000))),
            event(7, fork(10, None)),
            // A thread, and another's fork.
            event(7, fork(7, None)),
            event(8, fork(11, Some(9000))),
            event(9, Happening::Exec),
            event(10, Happening::Exec),
        ];
        let forks = count(&events, 7, Duration::from_secs(4));
        assert_eq!((forks.forks, forks.executed, forks.ended, forks.spawns), (2, 1, 0, 1));
        assert_eq!((forks.stop_ns, forks.shortest_stop_ns), (Some(2000.0), Some(1000)));
        assert_eq!((forks.longest_stop_ns, forks.per_s()), (Some(3000), None));
        let none = count(&[], 7, Duration::from_secs(4));
        assert_eq!((none.forks, none.stop_ns, none.longest_stop_ns), (0, None, None));
        assert_eq!(none.per_s(), None);
    }

    #[test]
    fn a_rate_is_of_children_that_end() {
        let mut events = Vec::new();
        for child in 20..26 {
            events.insert(0, event(7, fork(child, Some(u64::from(child) * 1000))));
            events.push(event(child, Happening::Exit));
        }
        let forks = count(&events, 7, Duration::from_secs(2));
        assert_eq!(
            (forks.per_s(), forks.stop_ns, forks.execute()),
            (Some(3.0), Some(22_500.0), false)
        );
        // Where a child lives on, what it will have copied is not known.
        events.truncate(events.len() - 2);
        assert_eq!(count(&events, 7, Duration::from_secs(2)).per_s(), None);
    }
}
