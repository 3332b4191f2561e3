// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Both sides of a fork at its child's end, and what each wrote since.

use std::collections::BTreeMap;

use cowlab_machine::{ProcessError, Root, policy};

use super::faults::FaultLog;
use super::method::Method;
use super::reading::{Reading, join};
use super::shares;
use super::spans::{Between, Moment, Span, Work, Writer, compared};
use cowlab_machine::process::Target;

pub struct Side<'a> {
    pub target: &'a Target,
    /// What it has, or had when it was looked at last.
    pub now: &'a Reading,
    /// Its minor faults since the fork.
    pub minor_faults: u64,
    /// Whether its bytes are gone with it.
    pub is_gone: bool,
}

/// What both sides of `fork` wrote, a span each, and one of what either wrote where the method tells.
/// Fails where bytes are compared and no side has any.
pub fn since_fork(
    fork: &Moment,
    between: Between,
    program: &str,
    method: Method,
    [parent, child]: [Option<Side<'_>>; 2],
    faults: Option<&mut FaultLog>,
) -> Result<Vec<Span>, ProcessError> {
    let [parent_now, child_now] = [now_of(&parent), now_of(&child)];
    let threads = |side: &Option<Side<'_>>| {
        side.as_ref().filter(|side| !side.is_gone).and_then(|side| side.target.threads())
    };
    let parents = threads(&parent).zip(fork.threads.as_ref());
    let parents = parents.and_then(|(now, at)| Work::between(at, &now));
    let childs = threads(&child).and_then(|now| Work::between(&BTreeMap::new(), &now));
    let span = |(writer, tally)| Span {
        writer_cpu_ns: match writer {
            Writer::Parent => parents.and_then(|work| work.writer_ns),
            Writer::Child => childs.and_then(|work| work.writer_ns),
            _ => None,
        },
        others_cpu_ns: parents.map(|work| work.others_ns),
        ..Span::since(fork, between, program, writer, method, tally)
    };
    if let Some(faults) = faults {
        // A fault tells of a page that is in swap or gone by now as well.
        faults.drain();
        return Ok(faults.judge(fork, parent_now, child_now).into_iter().map(span).collect());
    }
    let shares = shares::shares(
        &fork.reading,
        parent_now.map(|(_, now)| now),
        child_now.map(|(_, now)| now),
    );
    let mut unknown_pages = shares.unknown_pages;
    let mut seen: Vec<Span> = Vec::new();
    if let Some(copy) = &fork.copy {
        // Bytes say what changed, and nothing of whose the copy was.
        for (writer, side) in [(Writer::Child, &child), (Writer::Parent, &parent)] {
            let Some(side) = side.as_ref().filter(|side| !side.is_gone) else { continue };
            match compared(&fork.reading, copy, side.target, side.now) {
                Ok((mut tally, unknown)) => {
                    shares::add_mappings(&mut tally, &fork.reading);
                    if seen.is_empty() {
                        unknown_pages = unknown;
                    }
                    seen.push(span((writer, tally)));
                }
                Err(error) if seen.is_empty() => return Err(error),
                Err(_) => {}
            }
        }
    } else {
        let both = [(Writer::Parent, shares.parent), (Writer::Child, shares.child)];
        let known = both.into_iter().filter_map(|(writer, tally)| Some((writer, tally?)));
        seen.extend(known.chain([(Writer::Either, shares.either)]).map(span));
    }
    let ahead = copies_ahead();
    let freed = |side: Option<Side<'_>>| {
        side.map_or(0, |side| freed_unseen(&fork.reading, side.now, side.minor_faults, ahead))
    };
    let (of_parent, of_child) = (freed(parent), freed(child));
    for span in &mut seen {
        span.unknown_pages = unknown_pages;
        span.freed_unseen_pages = match span.writer {
            Writer::Child => of_child,
            Writer::Either => of_parent + of_child,
            _ => of_parent,
        };
    }
    Ok(seen)
}

fn now_of<'a>(side: &Option<Side<'a>>) -> Option<(i32, &'a Reading)> {
    side.as_ref().map(|side| (side.target.pid(), side.now))
}

/// How many pages of `fork` one side may have copied and given back by `now`, at most: those that
/// are gone, and no more than the faults of that side since the fork for which no page is there, unless
/// the kernel copies ahead of the faults.
fn freed_unseen(fork: &Reading, now: &Reading, minor_faults: u64, copies_ahead: bool) -> u64 {
    let (mut gone, mut seen) = (0, 0);
    for (_, before, after) in join(fork.private_pages(), now.private_pages()) {
        gone += u64::from(before.is_some() && after.is_none());
        let moved = before.zip(after).and_then(|(a, b)| a.page.frame().zip(b.page.frame()));
        seen += u64::from(moved.is_some_and(|(a, b)| a != b) || before.is_none());
    }
    if copies_ahead { gone } else { gone.min(minor_faults.saturating_sub(seen)) }
}

/// Whether this kernel copies pages for which nobody has faulted.
fn copies_ahead() -> bool {
    policy::settings_now(&Root::default()).precopy.is_some_and(|policy| policy != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cowlab_machine::process::Page;
    use cowlab_machine::process::mappings;

    fn reading(frames: &[u64]) -> Reading {
        let maps = "10000-20000 rw-p 00000000 00:00 0 [heap]\n";
        let pages = frames.iter().map(|frame| Page(1 << 63 | frame)).collect();
        Reading::of(mappings::decode(maps).unwrap(), vec![(0x10000, pages)], 4096)
    }

    #[test]
    fn what_is_gone_was_copied_by_a_fault_unless_the_kernel_copies_ahead() {
        let (fork, now) = (reading(&[1, 2, 3, 4, 5]), reading(&[11, 2]));
        let freed = |faults, ahead| freed_unseen(&fork, &now, faults, ahead);
        assert_eq!([freed(1, false), freed(3, false), freed(9, false)], [0, 2, 3]);
        assert_eq!(freed(1, true), 3);
    }
}
