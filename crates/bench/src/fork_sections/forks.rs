// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a kernel's trace to its forks: what each took, by section and by function, without what the
//! probes themselves cost.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use cowlab_casper::profile::{Ended, Functions, Place, Profile, ProfileSettings, Step, Watcher};
use cowlab_casper::read::{Record, Trace};
use cowlab_casper::record::known;
use cowlab_schema::Command;

use super::sections::{ROOT, Section, begun_by};

/// What one function did in one fork.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Share {
    pub calls: u64,
    /// Time in it and not in recorded functions that it called, probes subtracted.
    pub own_ns: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fork {
    /// From kernel_clone's beginning to its end, as recorded.
    pub raw_ns: f64,
    pub probes_ns: f64,
    /// The rest of it by section: their sum is `raw_ns - probes_ns`.
    pub sections: BTreeMap<Section, f64>,
    pub functions: BTreeMap<String, Share>,
}

/// The probes' cost in ns: within a call's own duration, and altogether.
#[derive(Debug, Clone, Copy)]
struct Cost {
    inner_ns: f64,
    outer_ns: f64,
}

struct Open {
    function: u32,
    section: Section,
    callees_ns: f64,
    callees: u64,
}

struct Follow<'a> {
    names: &'a [String],
    ns_per_tick: f64,
    cost: Cost,
    stacks: BTreeMap<u32, Vec<Open>>,
    fork: BTreeMap<u32, Fork>,
    forks: BTreeMap<u32, Vec<Fork>>,
    cut: u64,
}

impl Follow<'_> {
    fn began(&mut self, stream: u32, function: u32) {
        let name = &self.names[function as usize];
        let stack = self.stacks.entry(stream).or_default();
        if stack.is_empty() && name != ROOT {
            return; // outside of a fork
        }
        if stack.is_empty() {
            self.fork.insert(stream, Fork::default());
        }
        let above = stack.last().map_or(Section::Rest, |open| open.section);
        let section = begun_by(name).unwrap_or(above);
        stack.push(Open { function, section, callees_ns: 0.0, callees: 0 });
    }

    fn ended(&mut self, stream: u32, function: u32, ticks: u64, ended: Ended) {
        let Some(stack) = self.stacks.get_mut(&stream) else { return };
        if stack.last().is_none_or(|open| open.function != function) {
            return;
        }
        let Some(open) = stack.pop() else { return };
        if ended != Ended::Returned {
            stack.clear();
            self.cut += 1;
            return;
        }
        let raw_ns = ticks as f64 * self.ns_per_tick;
        let between = (self.cost.outer_ns - self.cost.inner_ns) * open.callees as f64;
        let probes_ns = self.cost.inner_ns + between;
        let own_ns = raw_ns - open.callees_ns - probes_ns;
        let fork = self.fork.entry(stream).or_default();
        *fork.sections.entry(open.section).or_default() += own_ns;
        fork.probes_ns += probes_ns;
        let share = fork.functions.entry(self.names[function as usize].clone()).or_default();
        share.calls += 1;
        share.own_ns += own_ns;
        match stack.last_mut() {
            Some(caller) => {
                caller.callees_ns += raw_ns;
                caller.callees += 1;
            }
            None => {
                let mut fork = self.fork.remove(&stream).unwrap_or_default();
                fork.raw_ns = raw_ns;
                self.forks.entry(stream).or_default().push(fork);
            }
        }
    }
}

impl Watcher for Follow<'_> {
    fn step(&mut self, place: &Place, step: &Step, _: &Functions) {
        match *step {
            Step::Began { function, .. } => self.began(place.stream, function),
            Step::Ended { function, began_ticks, ticks, ended, .. } => {
                self.ended(place.stream, function, ticks - began_ticks, ended);
            }
        }
    }

    fn event(&mut self, _: &Place, _: &Record<'_>) {}

    fn is_done(&self) -> bool {
        false
    }
}

/// The forks of the thread that made most of them, in order.
pub fn forks_of(trace: &Trace) -> Result<Vec<Fork>> {
    let header = trace.header();
    let (inner_ps, outer_ps) = (known(header.call_inner_ps), known(header.call_outer_ps));
    ensure!(
        inner_ps.is_some() && outer_ps.is_some(),
        "the trace does not say what its probes cost"
    );
    let ns = |ps: Option<u64>| ps.unwrap_or_default() as f64 / 1000.0;
    let settings = ProfileSettings::default();
    // Functions have the same numbers in a second pass, and names after the first.
    let names: Vec<String> = {
        let profile = Profile::of(trace, &settings)?;
        profile.functions.list.iter().map(|function| function.name.clone()).collect()
    };
    let mut follow = Follow {
        names: &names,
        ns_per_tick: trace.clock().ns_per_tick(),
        cost: Cost { inner_ns: ns(inner_ps), outer_ns: ns(outer_ps) },
        stacks: BTreeMap::new(),
        fork: BTreeMap::new(),
        forks: BTreeMap::new(),
        cut: 0,
    };
    Profile::watched(trace, &settings, &mut follow)?;
    let forks = follow.forks.into_values().max_by_key(Vec::len).unwrap_or_default();
    ensure!(
        !forks.is_empty(),
        "the kernel recorded no {ROOT}: kernel/fork.c is not instrumented in it (`{}`)",
        Command::KernelBuildTraced
    );
    Ok(forks)
}
