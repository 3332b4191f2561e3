// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How writes are seen: what each way needs, and which one is taken. Facts first, then a pure
//! function.

pub use cowlab_schema::footprint::Method;

use cowlab_machine::process::Pagemap;
use cowlab_machine::process::Target;
use cowlab_machine::process::mappings;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A command of ours, held at its forks and ends.
    Command,
    /// A running process, from its next fork to the child's end.
    Fork,
    /// A running process, between two times.
    Interval,
}

/// What is known before one is chosen; of a reason, why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodFacts {
    /// Frames are shown (CAP_SYS_ADMIN).
    pub frames: bool,
    /// BPF on page faults can be had.
    pub bpf: Result<(), String>,
    /// Its bytes may be read.
    pub memory: Result<(), String>,
    /// It was forked and runs on: it may share pages with who forked it.
    pub is_forked: bool,
}

impl MethodFacts {
    /// Finds out. `bpf` is another's finding.
    pub fn probe(target: Option<&Target>, bpf: Result<(), String>) -> MethodFacts {
        // Whether a page was there is told by this processor's error codes.
        let bpf = match cfg!(target_arch = "x86_64") {
            true => bpf,
            false => Err("a fault's error code is decoded on x86-64 only".to_owned()),
        };
        let memory = target.map_or(Ok(()), |target| {
            target.open_file("mem").map(drop).map_err(|error| error.to_string())
        });
        let is_forked = target.is_some_and(|target| target.forked_by().is_some());
        let frames = shows_frames();
        MethodFacts { frames, bpf, memory, is_forked }
    }
}

/// Whether frames are shown to this process: it looks at a page of its own.
fn shows_frames() -> bool {
    let own = || -> Option<bool> {
        let own = Target::open(std::process::id() as i32).ok()?;
        let stack = mappings::mappings(&own).ok()?;
        let stack = stack.into_iter().find(|mapping| mapping.kind == mappings::Kind::Stack)?;
        let mut seen = false;
        let mut pagemap = Pagemap::open(&own).ok()?;
        let each = |_, pages: &[cowlab_machine::process::Page]| {
            seen |= pages.iter().any(|p| p.frame().is_some())
        };
        pagemap.for_each(&own, stack.range, each).ok()?;
        Some(seen)
    };
    own().unwrap_or(false)
}

/// The cheapest method that sees all of what is asked for, or the one that `forced` names, with the reason;
/// or why it cannot be had. An error says what would help.
pub fn choose(
    subject: Subject,
    facts: &MethodFacts,
    forced: Option<Method>,
) -> Result<(Method, String), String> {
    if let Some(method) = forced {
        return match usable(method, subject, facts) {
            Ok(()) => Ok((method, "asked for".to_owned())),
            Err(reason) => Err(format!("--method {method}: {reason}")),
        };
    }
    let order: &[Method] = match subject {
        Subject::Command | Subject::Fork => &[Method::Faults, Method::Exclusive, Method::Snapshot],
        // Bytes do not tell of counts of references that are put back: a copy all the same.
        Subject::Interval if facts.is_forked => &[Method::Exclusive, Method::Snapshot],
        Subject::Interval => &[Method::Snapshot],
    };
    let mut reasons = Vec::new();
    for method in order {
        match usable(*method, subject, facts) {
            Ok(()) => {
                let best = match method {
                    Method::Faults => "pages that are given back count as well",
                    Method::Exclusive if subject == Subject::Interval => {
                        "it was forked: what it copied of the pages that it shared, and new ones"
                    }
                    _ if reasons.is_empty() => "the cheapest",
                    _ => "the cheapest that is left",
                };
                let why = match reasons.is_empty() {
                    true => best.to_owned(),
                    false => format!("{best} ({})", reasons.join("; ")),
                };
                return Ok((*method, why));
            }
            Err(reason) => reasons.push(format!("{method}: {reason}")),
        }
    }
    Err(format!("no method can see these writes here: {}", reasons.join("; ")))
}

fn usable(method: Method, subject: Subject, facts: &MethodFacts) -> Result<(), String> {
    match (method, subject) {
        (Method::Faults, Subject::Interval) => Err(
            "a page that is there is written without a fault unless a fork shared it: use --forks N"
                .to_owned(),
        ),
        (Method::Faults, _) => facts.bpf.clone(),
        (Method::Exclusive, Subject::Interval) if facts.is_forked && facts.frames => Ok(()),
        (Method::Exclusive, Subject::Interval) if facts.is_forked => {
            Err("which pages it copied is told by their frames, which need CAP_SYS_ADMIN".to_owned())
        }
        (Method::Exclusive, Subject::Interval) => {
            Err("without a fork between the two moments every page is exclusive: use --forks N, or \
             --method snapshot"
                .to_owned())
        }
        (Method::Exclusive, _) => Ok(()),
        (Method::Snapshot, _) => facts.memory.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> MethodFacts {
        MethodFacts { frames: true, bpf: Ok(()), memory: Ok(()), is_forked: false }
    }

    fn chosen(subject: Subject, facts: &MethodFacts) -> Method {
        choose(subject, facts, None).unwrap().0
    }

    #[test]
    fn the_cheapest_that_sees_it_is_taken() {
        for subject in [Subject::Command, Subject::Fork] {
            assert_eq!(chosen(subject, &facts()), Method::Faults);
            let no_bpf = MethodFacts { bpf: Err("needs CAP_BPF".into()), ..facts() };
            assert_eq!(chosen(subject, &no_bpf), Method::Exclusive);
        }
        assert_eq!(chosen(Subject::Interval, &facts()), Method::Snapshot);
    }

    #[test]
    fn a_forked_process_is_seen_by_what_it_copied_and_not_by_its_bytes() {
        let forked = MethodFacts { is_forked: true, ..facts() };
        let (method, why) = choose(Subject::Interval, &forked, None).unwrap();
        assert_eq!(method, Method::Exclusive);
        assert!(why.contains("and new ones"), "{why}");
        let no_frames = MethodFacts { frames: false, ..forked };
        let (method, why) = choose(Subject::Interval, &no_frames, None).unwrap();
        assert_eq!(method, Method::Snapshot);
        assert!(why.contains("CAP_SYS_ADMIN"), "{why}");
    }

    #[test]
    fn what_cannot_see_it_is_refused_with_what_helps() {
        for method in [Method::Faults, Method::Exclusive] {
            let error = choose(Subject::Interval, &facts(), Some(method)).unwrap_err();
            assert!(error.contains("--fork"), "{error}");
        }
        let blind = MethodFacts { memory: Err("may not be read".into()), ..facts() };
        assert!(choose(Subject::Interval, &blind, None).unwrap_err().contains("may not be read"));
        assert!("page".parse::<Method>().unwrap_err().contains("snapshot"));
    }
}
