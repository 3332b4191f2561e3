// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A parent, and what it forked that still runs its program.

use std::collections::BTreeMap;

use cowlab_machine::ProcessError;

use crate::watch::{Wanted, WantedError};
use cowlab_machine::process::Target;
use cowlab_machine::process::children;

#[derive(Debug)]
pub struct Member {
    pub target: Target,
    /// Who forked it; `None` of the parent of all.
    pub parent: Option<i32>,
}

#[derive(Debug, Default)]
pub struct Family {
    /// Those that may be looked at.
    pub members: Vec<Member>,
    /// Children that may not be looked at.
    pub unseen: Vec<i32>,
}

/// The parent of the family that is meant: of a worker, its parent; of many processes, the one that
/// most of them descend from, if no others are a family as well.
pub fn parent(wanted: &Wanted) -> Result<Target, WantedError> {
    if let Wanted::Pid(pid) = wanted {
        let target = Target::open(i32::try_from(*pid).unwrap_or(0))?;
        let is_parent = !children::forked(&target)?.0.is_empty();
        let parent = target.forked_by().filter(|_| !is_parent);
        return Ok(parent.unwrap_or(target));
    }
    let (mut families, mut refusal) = (BTreeMap::new(), None);
    for (pid, _) in wanted.find()? {
        let Ok(target) = Target::open(pid.cast_signed()) else { continue };
        match target.image() {
            Ok(_) => *families.entry(first(target).pid().cast_unsigned()).or_insert(0) += 1,
            Err(error) => _ = refusal.get_or_insert(error),
        }
    }
    let several = families.values().filter(|members| **members > 1).count();
    if several == 1 {
        families.retain(|_, members| *members > 1);
    }
    let pids: Vec<u32> = families.into_keys().collect();
    match (&pids[..], refusal) {
        ([pid], _) => Ok(Target::open(pid.cast_signed())?),
        ([], Some(refusal)) => Err(refusal.into()),
        // All have ended meanwhile.
        ([], None) => wanted.only().and_then(|pid| Ok(Target::open(pid)?)),
        _ => Err(WantedError::Several(pids)),
    }
}

/// The oldest ancestor that runs the same program as it was forked.
fn first(mut of: Target) -> Target {
    while let Some(parent) = of.forked_by() {
        of = parent;
    }
    of
}

/// Everybody of it now. Fails once the parent has ended, or where it may not be looked at.
pub fn of(parent: &Target) -> Result<Family, ProcessError> {
    // Held once more: its files are this look's.
    let mut family = Family::default();
    family.members.push(Member { target: again(parent)?, parent: None });
    let mut at = 0;
    while let Some(member) = family.members.get(at) {
        let pid = member.target.pid();
        match children::forked(&member.target) {
            Ok((forked, unseen)) => {
                let child = |target| Member { target, parent: Some(pid) };
                family.members.extend(forked.into_iter().map(child));
                family.unseen.extend(unseen);
            }
            Err(error) if at == 0 => return Err(error),
            // A worker that has just ended has no children.
            Err(_) => {}
        }
        at += 1;
    }
    Ok(family)
}

/// The same process, if it still runs.
fn again(of: &Target) -> Result<Target, ProcessError> {
    let pid = of.pid();
    let vanished = || ProcessError::Vanished { pid };
    if !of.is_alive() {
        return Err(vanished());
    }
    Target::open(pid).ok().filter(|new| new.start_ticks() == of.start_ticks()).ok_or_else(vanished)
}
