// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which processes to tend.

use std::collections::BTreeMap;

use crate::watch::Wanted;
use cowlab_machine::Stat;

use crate::tend::forks::may_share;

/// The processes that are wanted and run now. A pid that cannot be listed (hidepid) is among them, and
/// gives its own error.
pub fn targets(wanted: &[Wanted]) -> Vec<i32> {
    let (mut named, mut found) = (Vec::new(), BTreeMap::new());
    for one in wanted {
        match one {
            // No process has a number that is larger than any.
            Wanted::Pid(pid) => named.push(i32::try_from(*pid).unwrap_or(0)),
            // That nobody has a name yet is no error.
            others => found.extend(others.find().unwrap_or_default()),
        }
    }
    without_forks(&found, named)
}

/// The memory of a fork of one that is chosen is that one's: it is left out, unless it is named.
fn without_forks(found: &BTreeMap<u32, Stat>, named: Vec<i32>) -> Vec<i32> {
    let is_fork = |stat: &Stat| {
        let parent = u32::try_from(stat.parent).ok().and_then(|pid| found.get(&pid));
        parent.is_some_and(|parent| may_share(stat, parent))
    };
    let own = found.iter().filter(|(_, stat)| !is_fork(stat)).map(|(pid, _)| pid.cast_signed());
    let mut all: Vec<i32> = own.chain(named).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forked_children_are_left_out_and_those_that_executed_another_program_are_not() {
        let process = |parent, stack| Stat { parent, stack, ..Stat::default() };
        let found =
            [(10, process(1, 5)), (11, process(10, 5)), (12, process(10, 7)), (13, process(12, 0))];
        let found = BTreeMap::from(found);
        assert_eq!(without_forks(&found, vec![]), [10, 12]);
        assert_eq!(without_forks(&found, vec![11, 99, 12]), [10, 11, 12, 99]);
    }

    #[test]
    fn a_name_that_nobody_has_chooses_nobody() {
        let wanted = [Wanted::Name("nobody-has-it".into()), Wanted::Pid(u32::MAX)];
        assert_eq!(targets(&wanted), [0]);
    }
}
