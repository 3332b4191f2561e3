// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether others worked while something was measured: their CPU time, and what a hypervisor took (proc_stat(5)).

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use cowlab_machine::process::{Target, children};
use rustix::time::{ClockId, clock_gettime};

use crate::task::{Round, Task, cpu_ns};

/// Of one CPU, what others may take.
const MOST_OTHERS: f64 = 0.1;
/// Of one CPU, what a hypervisor may.
const MOST_STOLEN: f64 = 0.05;
/// The kernel counts by ticks: fewer say nothing.
const LEAST_TICKS: f64 = 3.0;
/// Times that something is measured, if others work each time.
const MOST_TRIES: usize = 3;

/// What others took of one CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Disturbance {
    pub others: f64,
    pub stolen: f64,
}

impl Disturbance {
    fn is_much(&self) -> bool {
        self.others > MOST_OTHERS || self.stolen > MOST_STOLEN
    }

    fn sum(&self) -> f64 {
        self.others + self.stolen
    }
}

#[derive(Debug, Clone, Copy)]
struct Counters {
    busy_ns: f64,
    stolen_ns: f64,
    own_ns: f64,
    at: Instant,
}

impl Counters {
    /// `None` where the kernel does not tell.
    fn now() -> Option<Counters> {
        let (busy, stolen) = ticks(&std::fs::read_to_string("/proc/stat").ok()?)?;
        let tick_ns = tick_ns();
        let (busy_ns, stolen_ns) = (busy as f64 * tick_ns, stolen as f64 * tick_ns);
        Some(Counters { busy_ns, stolen_ns, own_ns: own_cpu_ns()?, at: Instant::now() })
    }

    fn since(self, before: Counters) -> Disturbance {
        let ns = (self.at - before.at).as_nanos() as f64;
        let of_one = |took_ns: f64| match took_ns < LEAST_TICKS * tick_ns() {
            true => 0.0,
            false => took_ns / ns,
        };
        let own_ns = self.own_ns - before.own_ns;
        Disturbance {
            others: of_one(self.busy_ns - before.busy_ns - own_ns),
            stolen: of_one(self.stolen_ns - before.stolen_ns),
        }
    }
}

fn tick_ns() -> f64 {
    1e9 / rustix::param::clock_ticks_per_second() as f64
}

/// Of all CPUs, ticks that anybody worked, and that were stolen.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let fields: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let busy = [0, 1, 2, 5, 6].iter().map(|at| fields.get(*at)).sum::<Option<u64>>()?;
    Some((busy, *fields.get(7)?))
}

/// CPU time of this process and its children, living and reaped.
fn own_cpu_ns() -> Option<f64> {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let own = time.tv_sec as f64 * 1e9 + time.tv_nsec as f64;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // cutime and cstime (proc_pid_stat(5), fields 16 and 17).
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let reaped: u64 = fields.get(13)?.parse::<u64>().ok()? + fields.get(14)?.parse::<u64>().ok()?;
    let living = children::pids(&Target::open(std::process::id() as i32).ok()?).ok()?;
    let living: u64 = living.into_iter().filter_map(|pid| cpu_ns(pid.cast_unsigned())).sum();
    Some(own + reaped as f64 * tick_ns() + living as f64)
}

/// How quiet it was while tasks were measured, of what was kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Quiet {
    pub measurements: usize,
    /// Measurements that were made again, and those that were disturbed each time.
    pub repeated: usize,
    pub disturbed: usize,
    kept: Vec<Disturbance>,
}

impl Quiet {
    fn add(&mut self, tries: usize, kept: Disturbance) {
        self.measurements += 1;
        self.repeated += usize::from(tries > 1);
        self.disturbed += usize::from(kept.is_much());
        self.kept.push(kept);
    }

    /// Of one CPU, what others and a hypervisor took on average.
    pub fn mean(&self) -> Disturbance {
        let count = self.kept.len().max(1) as f64;
        let mean = |of: fn(&Disturbance) -> f64| self.kept.iter().map(of).sum::<f64>() / count;
        Disturbance { others: mean(|of| of.others), stolen: mean(|of| of.stolen) }
    }
}

/// The same tasks: each is measured again where others worked, and the quietest try is kept.
pub fn watched(tasks: Vec<Task>) -> (Vec<Task>, Rc<RefCell<Quiet>>) {
    let quiet = Rc::<RefCell<Quiet>>::default();
    let watch = |task: Task| {
        let quiet = quiet.clone();
        let (name, rounds) = (task.name.clone(), task.rounds);
        Task::new(name, move |runner, round| {
            let mut best: Option<(Disturbance, Round)> = None;
            for tries in 1..=MOST_TRIES {
                let (before, mut own) = (Counters::now(), Round::new(round.number));
                task.measure(runner, &mut own)?;
                let seen = Counters::now().zip(before).map(|(now, before)| now.since(before));
                let seen = seen.unwrap_or_default();
                if best.as_ref().is_none_or(|(best, _)| seen.sum() < best.sum()) {
                    best = Some((seen, own));
                }
                if !seen.is_much() || tries == MOST_TRIES {
                    let (kept, own) = best.expect("one was measured");
                    quiet.borrow_mut().add(tries, kept);
                    round.append(own);
                    return Ok(());
                }
            }
            Ok(())
        })
        .at_most(rounds)
    };
    (tasks.into_iter().map(watch).collect(), quiet.clone())
}

#[cfg(test)]
mod tests {
    use cowlab_schema::Params;
    use cowlab_schema::cow_faults::ELAPSED_NS;

    use super::*;
    use crate::probes::Runner;
    use crate::task::{Rounds, run_rounds};

    #[test]
    fn what_others_work_is_what_is_left_of_all() {
        assert_eq!(ticks("cpu  1 2 4 100 100 8 16 32 64 128\ncpu0 1\n"), Some((31, 32)));
        assert_eq!(ticks("cpu  1 2\n"), None);
        let at = Instant::now();
        let before = Counters { busy_ns: 0.0, stolen_ns: 0.0, own_ns: 0.0, at };
        let later = at + std::time::Duration::from_secs(1);
        let now = Counters { busy_ns: 1.5e9, stolen_ns: 1e7, own_ns: 1e9, at: later };
        // One tick is nothing.
        assert_eq!(now.since(before), Disturbance { others: 0.5, stolen: 0.0 });
        assert!(now.since(before).is_much());
    }

    #[test]
    fn one_try_of_each_measurement_is_kept() {
        let task = Task::new("any", move |_, round| {
            round.record("any", Params::new(), 0).add(ELAPSED_NS, 1.0);
            Ok(())
        });
        let (tasks, quiet) = watched(vec![task]);
        let runner = Runner::new(Default::default()).unwrap();
        let mut count = 0;
        let whole = |samples: Vec<_>| {
            count += samples.len();
            Ok(())
        };
        run_rounds(&runner, &tasks, Rounds::exactly(2), 1, |_, _| {}, whole).unwrap();
        assert_eq!((count, quiet.borrow().measurements), (2, 2));
    }
}
