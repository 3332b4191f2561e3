// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who forked whom, and the code that each had mapped at which time.

use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use crate::blame::image::Images;
use crate::blame::space::Space;
use crate::bpf::{Event, Happening};
use crate::clock::own_cpu_ns;
use cowlab_machine::process::Target;
use cowlab_schema::Writer;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::blame::made::MadeCode;

/// How often mappings may be read anew because an address is in none.
const BETWEEN_LOOKS_NS: u64 = 100_000_000;
/// And how much longer than the last reading took, at least: a process can have mappings without number.
const BETWEEN_LOOKS_TIMES: u64 = 20;
/// A process whose mappings and files take longer to read is given up.
const ANSWER_MOST: Duration = Duration::from_secs(2);
/// After so many that were given up nobody is looked at any more.
const GIVEN_UP_MOST: usize = 8;
/// Programs that a process ran, of which the last are known.
const LIVES_MOST: usize = 64;
/// How many ancestors stand in for a process that can no longer be looked at.
const ANCESTORS_MOST: usize = 8;
/// Processes that ended are forgotten after that, when nobody tells of them any more.
const KEPT_NS: u64 = 2_000_000_000;

/// What is known of a process.
#[derive(Default)]
struct Member {
    /// One for each program that it ran while it was watched, in their order.
    lives: Vec<Life>,
    ended_ns: Option<u64>,
    looked_ns: u64,
    look_took_ns: u64,
}

/// A process from its fork or exec to the next exec.
#[derive(Default)]
struct Life {
    from_ns: u64,
    name: Arc<str>,
    /// When it was forked, 0 if before it was watched; `None` of a program that was executed.
    forked_ns: Option<u64>,
    /// Who forked it, if it was forked.
    parent: Option<u32>,
    /// Its own first and last fork.
    forks_ns: Option<(u64, u64)>,
    /// What it has mapped; `None` if nobody looked yet.
    space: Option<Arc<Space>>,
}

impl Member {
    fn life(&self, time_ns: u64) -> Option<&Life> {
        self.lives.iter().rev().find(|life| life.from_ns <= time_ns)
    }

    /// When the program that it runs now began.
    fn last_ns(&self) -> Option<u64> {
        self.lives.last().map(|life| life.from_ns)
    }

    fn between_looks_ns(&self) -> u64 {
        BETWEEN_LOOKS_NS.max(BETWEEN_LOOKS_TIMES * self.look_took_ns)
    }

    fn now(&mut self) -> &mut Life {
        if self.lives.is_empty() {
            self.lives.push(Life::default());
        }
        self.lives.last_mut().expect("there is one")
    }
}

/// Looks at processes, each in a thread that can be given up.
#[derive(Default)]
struct Looks {
    images: Arc<Mutex<Images>>,
    given_up: FxHashSet<u32>,
    cpu_ns: u64,
}

impl Looks {
    fn at(&mut self, pid: u32) -> Option<Arc<Space>> {
        if self.given_up.len() >= GIVEN_UP_MOST || self.given_up.contains(&pid) {
            return None;
        }
        let (tell, told) = mpsc::channel();
        let images = Arc::clone(&self.images);
        let look = move || {
            let target = Target::open(pid.cast_signed()).ok();
            let space = target.and_then(|target| Space::read(&target, &images)).map(Arc::new);
            // Nobody hears it who gave up.
            let _ = tell.send((space, own_cpu_ns()));
        };
        std::thread::Builder::new().name("look".to_owned()).spawn(look).ok()?;
        match told.recv_timeout(ANSWER_MOST) {
            Ok((space, cpu_ns)) => {
                self.cpu_ns += cpu_ns;
                space
            }
            Err(_) => {
                self.given_up.insert(pid);
                None
            }
        }
    }
}

#[derive(Default)]
pub struct Family {
    members: FxHashMap<u32, Member>,
    looks: Looks,
}

impl Family {
    /// Takes in a process that is there.
    pub fn admit(&mut self, target: &Target, now_ns: u64) {
        let parent = target.forked_by();
        let life = Life {
            name: target.name().into(),
            forked_ns: parent.as_ref().map(|_| 0),
            parent: parent.map(|parent| parent.pid().cast_unsigned()),
            space: self.looks.at(target.pid().cast_unsigned()),
            ..Life::default()
        };
        let member = Member { lives: vec![life], looked_ns: now_ns, ..Member::default() };
        self.members.insert(target.pid() as u32, member);
    }

    /// It has children from before it was watched.
    pub fn has_forked(&mut self, pid: u32) {
        let life = self.members.entry(pid).or_default().now();
        life.forks_ns.get_or_insert((0, 0));
    }

    pub fn take(&mut self, event: &Event) {
        let time_ns = event.time_ns;
        match event.what {
            Happening::Fork(fork) => {
                let Some(child) = fork.child_tgid else { return };
                let forked_ns = time_ns.saturating_sub(fork.stop_ns.unwrap_or(0));
                let parent = self.members.entry(event.tgid).or_default().now();
                if !fork.shares_memory {
                    let (first, _) = parent.forks_ns.unwrap_or((forked_ns, forked_ns));
                    parent.forks_ns = Some((first, forked_ns));
                }
                let life = Life {
                    from_ns: forked_ns,
                    name: event.comm.as_str().into(),
                    forked_ns: (!fork.shares_memory).then_some(forked_ns),
                    parent: Some(event.tgid),
                    space: parent.space.clone(),
                    ..Life::default()
                };
                let member = Member { lives: vec![life], ..Member::default() };
                self.members.insert(child, member);
            }
            Happening::Exec => {
                let member = self.members.entry(event.tgid).or_default();
                (member.looked_ns, member.ended_ns) = (0, None);
                let name = event.comm.as_str().into();
                if member.lives.len() == LIVES_MOST {
                    member.lives.remove(0);
                }
                member.lives.push(Life { from_ns: time_ns, name, ..Life::default() });
            }
            Happening::Exit => {
                if let Some(member) = self.members.get_mut(&event.tgid) {
                    member.ended_ns = Some(time_ns);
                }
            }
            Happening::Killed(_) => {}
        }
    }

    /// Those that ended a while ago.
    pub fn gone(&self, now_ns: u64) -> Vec<u32> {
        // A first thread may end long before its process.
        let is_gone = |pid: u32, member: &Member| {
            member.ended_ns.is_some_and(|ended| ended + KEPT_NS < now_ns)
                && !Path::new(&format!("/proc/{pid}")).exists()
        };
        let members = self.members.iter();
        members.filter(|(pid, member)| is_gone(**pid, member)).map(|(pid, _)| *pid).collect()
    }

    pub fn forget(&mut self, pid: u32) {
        self.members.remove(&pid);
    }

    /// The program of a process that runs on as it was forked.
    pub fn worker(&self, pid: u32) -> Option<&str> {
        let life = self.members.get(&pid)?.lives.last()?;
        life.forked_ns.map(|_| &*life.name)
    }

    /// Its name, whose writes those at a time are, and how long since the fork that shares its pages.
    pub fn known(&self, pid: u32, time_ns: u64) -> (Arc<str>, Writer, Option<u64>) {
        let Some(life) = self.members.get(&pid).and_then(|member| member.life(time_ns)) else {
            return (Arc::default(), Writer::Own, None);
        };
        let since = |from: u64| (from > 0).then(|| time_ns.saturating_sub(from));
        let last_fork = life
            .forks_ns
            .and_then(|(first, last)| [last, first].into_iter().find(|forked| *forked <= time_ns));
        let (writer, since_ns) = match (last_fork, life.forked_ns) {
            (Some(forked), _) => (Writer::Parent, since(forked)),
            (None, Some(forked)) => (Writer::Child, since(forked)),
            (None, None) => (Writer::Own, None),
        };
        (Arc::clone(&life.name), writer, since_ns)
    }

    /// What a process had mapped at a time.
    pub fn space(&mut self, pid: u32, time_ns: u64, now_ns: u64) -> Option<Arc<Space>> {
        let life = self.members.get(&pid).and_then(|member| member.life(time_ns));
        let space = life.and_then(|life| life.space.clone());
        space.or_else(|| self.look_again(pid, time_ns, now_ns))
    }

    /// Reads what it has mapped now. For a process that ended, or that has executed another program since, this is
    /// what its parent has mapped. `None` where it was looked at a moment ago.
    pub fn look_again(&mut self, pid: u32, time_ns: u64, now_ns: u64) -> Option<Arc<Space>> {
        let (mut whose, mut when_ns) = (pid, time_ns);
        for _ in 0..=ANCESTORS_MOST {
            // A forgotten parent is not added again: another process may have its pid.
            let member = match self.members.entry(whose) {
                Entry::Vacant(_) if whose != pid => return None,
                entry => entry.or_default(),
            };
            member.now();
            let last_ns = member.last_ns();
            let was_looked_at =
                member.looked_ns > 0 && now_ns < member.looked_ns + member.between_looks_ns();
            let life = member.lives.iter_mut().rev().find(|life| life.from_ns <= when_ns)?;
            // What it has mapped now is not what another program had.
            if Some(life.from_ns) == last_ns {
                if was_looked_at && whose == pid {
                    return None;
                }
                if !was_looked_at {
                    member.looked_ns = now_ns;
                    let began = Instant::now();
                    let now = self.looks.at(whose);
                    member.look_took_ns = began.elapsed().as_nanos() as u64;
                    if whose == pid && now.is_some() {
                        life.space.clone_from(&now);
                        return now;
                    }
                    life.space = now.or(life.space.take());
                }
            }
            let (space, parent, from_ns) = (life.space.clone(), life.parent, life.from_ns);
            if whose != pid && space.is_some() {
                let member = self.members.get_mut(&pid)?;
                let mut lives = member.lives.iter_mut().rev();
                lives.find(|life| life.from_ns <= time_ns)?.space.clone_from(&space);
                return space;
            }
            (whose, when_ns) = (parent?, from_ns.checked_sub(1)?);
        }
        None
    }

    /// What living processes wrote down of code that they made, at some addresses.
    pub fn made_code(&self, addresses: &[u64]) -> MadeCode {
        let parent = |member: &Member| member.lives.last()?.parent;
        let members = self.members.iter().map(|(pid, member)| (*pid, parent(member)));
        MadeCode::read(&members.collect::<Vec<_>>(), addresses)
    }

    /// What of the targets was not read, and why.
    pub fn left_out(&self) -> Vec<String> {
        let images = Images::lock(&self.looks.images);
        let (refused, cut, silent) =
            (images.budget.refused(), images.cut, self.looks.given_up.len() as u64);
        let said = [
            (refused, "times a file was too large to read: some stacks end early"),
            (cut, "times a process had more mappings or files than are read"),
            (silent, "processes did not answer within 2 s, and were not looked at"),
        ];
        let some = said.into_iter().filter(|(count, _)| *count > 0);
        some.map(|(count, what)| format!("{count} {what}")).collect()
    }

    /// What looking took.
    pub fn cpu_ns(&self) -> u64 {
        self.looks.cpu_ns
    }

    /// What would make interpreters tell the names of their functions, by the files that are mapped.
    pub fn hints(&self, told: &MadeCode) -> Vec<String> {
        let silent = self.members.iter().filter(|(pid, _)| !told.has(**pid));
        let spaces = silent.filter_map(|(_, member)| member.lives.last()?.space.as_ref());
        let mut hints: Vec<String> = spaces
            .flat_map(|space| space.images())
            .filter_map(|image| hint(image.short_name()))
            .collect();
        hints.sort_unstable();
        hints.dedup();
        hints
    }

    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.members.keys().copied()
    }
}

/// How an interpreter is asked for the names of its functions, by the name of its file.
fn hint(file: &str) -> Option<String> {
    let (_, hint) = HINTS.iter().find(|(name, _)| file.starts_with(name))?;
    let (_, minor) = file.split_once("python3.").unwrap_or_default();
    let minor = minor.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok();
    match minor.filter(|minor| *minor < 12) {
        Some(minor) => Some(format!(
            "the stacks have C functions only: CPython names its own from 3.12 on, and this is 3.{minor}"
        )),
        None => Some(format!("the stacks have C functions only: {hint}")),
    }
}

const HINTS: [(&str, &str); 6] = [
    ("libpython3", PYTHON),
    ("python3", PYTHON),
    ("node", "Node.js names its own if it is started with --perf-basic-prof"),
    ("libruby", "Ruby names what YJIT compiled if it is started with --yjit-perf=map"),
    ("libjvm", "a JVM names its own by `jcmd PID Compiler.perfmap` (JDK 17)"),
    ("php", "PHP names what its JIT compiled with opcache.jit_debug=0x10"),
];

const PYTHON: &str = "CPython names its own if it is started with -X perf (3.12 or newer)";

#[cfg(test)]
mod tests {
    use crate::bpf::ForkEvent;

    use super::*;

    fn event(tgid: u32, time_ns: u64, what: Happening) -> Event {
        Event { time_ns, tgid, tid: tgid, comm: String::new(), what }
    }

    #[test]
    fn a_worker_that_ended_before_anybody_looked_has_the_code_of_its_parent() {
        // Pids that no kernel gives.
        let (parent, child, grandchild) = (std::process::id(), 1 << 30, (1 << 30) + 1);
        let fork = |child| {
            let child_tgid = Some(child);
            Happening::Fork(ForkEvent { child_tgid, shares_memory: false, stop_ns: None })
        };
        let mut family = Family::default();
        family.take(&event(parent, 10, Happening::Exec));
        family.take(&event(parent, 20, fork(child)));
        family.take(&event(child, 30, fork(grandchild)));
        family.take(&event(child, 40, Happening::Exec));
        assert!(family.space(grandchild, 50, 1_000_000_000).is_some());
        assert!(family.space(child, 35, 1_000_000_000).is_some());
        assert!(
            family.look_again(grandchild, 50, 3_000_000_000).is_some(),
            "what was mapped since"
        );
        assert!(family.space(child, 45, 2_000_000_000).is_none(), "another program's");
    }

    #[test]
    fn a_cpython_that_cannot_name_its_functions_is_not_asked_to() {
        for file in ["python3.11", "libpython3.11.so.1.0"] {
            assert!(hint(file).unwrap().ends_with("from 3.12 on, and this is 3.11"), "{file}");
        }
        for file in ["python3.12", "python3", "libpython3.13.so.1.0"] {
            assert!(hint(file).unwrap().contains("-X perf"), "{file}");
        }
        assert_eq!(hint("libc.so.6"), None);
    }
}
