// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cowlab` without a verb: what this machine can do, and what the next forks of its programs cost.

mod screen;

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use cowlab_machine::capability::{self, Capability};
use cowlab_machine::limits::CAP_SYS_PTRACE;
use cowlab_machine::process::Target;
use cowlab_machine::{Facts, Root, Stat};
use cowlab_model::advice::Surroundings;
use cowlab_model::application::{ApplicationProfile, Children};
use cowlab_model::profile::MachineProfile;
use cowlab_observe::forkers::{self, Forker, Process};
use cowlab_observe::sharing::Sharing;
use cowlab_observe::tend::privileges::allow_files;
use cowlab_observe::watch::Wanted;
use cowlab_schema::Command;
use cowlab_store::Missing;
use serde::Serialize;

use crate::args::ProfileArgs;
use crate::cmd::doctor::abilities;
use crate::diagnosis::{Amount, TargetFacts, diagnose, price};
use crate::output;
use crate::profile_file::Priced;

/// What a page costs that is looked at, on a busy machine: in a survey of a process, and in a look at what
/// a family shares, which asks of each page whether others map it.
const SURVEY_NS_PER_PAGE: u64 = 150;
const FAMILY_NS_PER_PAGE: u64 = 400;
/// No look is begun that would end later: the answer is to be there within 300 ms.
const LOOKED_BY: Duration = Duration::from_millis(200);
/// As many are looked at, by what they would cost at most.
const LOOKED_AT: usize = 20;
const SHOWN: usize = 10;

/// How a program forks, as far as it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum How {
    /// It has children that share its memory.
    Workers,
    /// It is known to save its memory by a child.
    Save,
    /// Its children execute other programs: by vfork or posix_spawn it would not be stopped for long.
    Programs,
}

#[derive(Debug, Clone, Serialize)]
struct Program {
    pid: i32,
    name: String,
    how: How,
    /// Living children that share its memory, and that execute another program.
    workers: usize,
    executed: usize,
    anonymous_bytes: Option<u64>,
    stop_ns: Option<Amount>,
    /// Whether its page tables were looked at. Without, the stop is by its size alone: neither huge pages
    /// nor mappings are known.
    is_surveyed: bool,
    /// What its workers have to themselves, and what sharing saves.
    own_bytes: Option<u64>,
    saved_bytes: Option<u64>,
    may_look: bool,
    /// Others of its name that fork as it does and cost less.
    alike: Vec<i32>,
    #[serde(skip)]
    family_bytes: Option<u64>,
}

#[derive(Serialize)]
struct Ability {
    what: &'static str,
    command: String,
    needs: Option<String>,
}

#[derive(Serialize)]
struct Next {
    command: String,
    what: &'static str,
    needs_root: bool,
}

#[derive(Serialize)]
struct OverviewSummary {
    host: String,
    kernel: String,
    cpus: usize,
    available_bytes: Option<u64>,
    thp: Option<String>,
    abilities: Vec<Ability>,
    programs: Vec<Program>,
    left_out: usize,
    unseen: usize,
    #[serde(skip)]
    not_seen: Option<String>,
    commands: Vec<Next>,
}

pub fn run(json: bool) -> Result<()> {
    let begin = Instant::now();
    // A look at a family keeps some files of each worker open.
    allow_files();
    let facts = Facts::probe(&Root::default());
    let capabilities = capability::list(&facts);
    let all = forkers::look();
    let saves = |of: &Process| Children::of(&of.name) == Children::Save;
    // A folder of runs that may not be read has no profile.
    let prices = Priced::find(&ProfileArgs { profile: None })
        .map_or_else(|_| MachineProfile::usual(), |priced| priced.profile);
    let page_bytes = facts.page_size_bytes.max(1);
    let priced = |of| Program::roughly(of, &prices, page_bytes);
    let mut programs = ranked(forkers::forkers(&all, saves).into_iter().map(priced).collect());
    for program in programs.iter_mut().take(LOOKED_AT).filter(|program| program.may_look) {
        let has_time = |bytes: Option<u64>, ns_per_page: u64| {
            let pages = bytes.unwrap_or(0) / page_bytes;
            begin.elapsed() + Duration::from_nanos(pages * ns_per_page) < LOOKED_BY
        };
        program.look(&facts, &prices, has_time);
    }
    let mut programs = ranked(programs);
    let left_out = programs.split_off(programs.len().min(SHOWN)).iter().map(Program::count).sum();
    let unseen: Vec<&Process> = all.iter().filter(|of| !of.may_look && !of.has_ended).collect();
    let may_all = facts.credentials.as_ref().is_some_and(|own| own.has(CAP_SYS_PTRACE));
    let not_seen = not_seen(&unseen, may_all);
    let unseen = unseen.len();
    let worst = programs.first().and_then(|worst| Target::open(worst.pid).ok());
    let server = worst.and_then(|worst| worst.server_address());
    let summary = OverviewSummary {
        host: facts.host.clone(),
        kernel: facts.kernel.clone(),
        cpus: facts.cpu.allowed.len(),
        available_bytes: facts.memory.as_ref().and_then(|memory| memory.available_bytes),
        thp: facts.thp.as_ref().and_then(|thp| thp.enabled.clone()),
        abilities: own_abilities(&capabilities),
        commands: next(programs.first(), server.as_deref(), &capabilities),
        programs,
        left_out,
        unseen,
        not_seen,
    };
    match json {
        true => output::json_of(&summary, &[], &missing(unseen, &summary.programs)),
        false => output::text(&screen::document(&facts, &summary)),
    }
}

/// Names of processes in a line.
const NAMED: usize = 3;

/// Which processes' memory was not seen, and why. Where the rights are there, each is named and what refuses it.
fn not_seen(unseen: &[&Process], may_all: bool) -> Option<String> {
    let names: Vec<String> =
        unseen.iter().take(NAMED).map(|of| format!("{} ({})", of.name, of.pid)).collect();
    let more = match unseen.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match (unseen.len(), may_all) {
        (0, _) => None,
        (_, true) => Some(format!(
            "the memory of {}{more}: a container or a security module forbids it",
            names.join(", ")
        )),
        (1, false) => Some(format!("the memory of {}: needs root, or CAP_SYS_PTRACE", names[0])),
        (count, false) => {
            Some(format!("the memory of {count} processes: needs root, or CAP_SYS_PTRACE"))
        }
    }
}

/// What the answer lacks: a row for all processes that may not be looked at, and one for all for which there
/// was no time.
fn missing(unseen: usize, programs: &[Program]) -> Vec<Missing> {
    let row = |metric: &str, reason| Missing { metric: metric.to_owned(), reason };
    let not_seen = || {
        format!(
            "the memory of {unseen} processes may not be looked at, which needs root or CAP_SYS_PTRACE \
             (where it is so already, a container or a security module forbids it): their sizes are by \
             /proc/PID/status, their workers by name"
        )
    };
    let late = programs.iter().filter(|of| of.is_late()).count();
    let no_time = || format!("of {late} programs with workers: {NO_TIME}");
    let rows = [
        (unseen > 0).then(|| row("programs", not_seen())),
        (late > 0).then(|| row("own_bytes", no_time())),
    ];
    rows.into_iter().flatten().collect()
}

/// Why it is not known what the workers of a program share.
const NO_TIME: &str = "a look would have taken too long; `cowlab sharing PID` takes the time";

fn own_abilities(capabilities: &[Capability]) -> Vec<Ability> {
    let ability = |(what, command, here): (_, Command, Result<String, String>)| Ability {
        what,
        command: command.to_string(),
        needs: here.err(),
    };
    abilities(capabilities).into_iter().map(ability).collect()
}

/// Three commands that tell more about the worst program, a server if it has an address, or about the machine
/// where none forks.
fn next(worst: Option<&Program>, server: Option<&str>, capabilities: &[Capability]) -> Vec<Next> {
    let told: [(Command, &'static str); 3] = match worst.map(|worst| worst.how) {
        Some(How::Workers) => [
            (Command::Explain, "all of it in plain words, in 15 s"),
            (Command::SharingRate, "how fast its workers lose the memory that they share"),
            (Command::Blame, "which code copies the shared pages"),
        ],
        Some(How::Save) => [
            (
                server.map_or(Command::Explain, |_| Command::ExplainRedis),
                "all of it in plain words, in 15 s",
            ),
            (Command::TendDryRun, "what huge pages from outside would save"),
            (Command::Watch, "each fork as it comes: its stop and its copies"),
        ],
        Some(How::Programs) => [
            (Command::Watch, "whether it forks, how often, and each stop"),
            (Command::ExplainQuick, "whether its next fork would fail, at once"),
            (Command::Explain, "all of it in plain words, in 15 s"),
        ],
        None => [
            (Command::DoctorMachine, "everything that cowlab can use here, and what is missing"),
            (Command::Calibrate, "what forks and copies cost on this machine, in 2 minutes"),
            (Command::Predict, "what a fork of a program of that size would cost"),
        ],
    };
    let sees_events = abilities(capabilities)
        .iter()
        .any(|(_, command, here)| *command == Command::Watch && here.is_ok());
    let next = |(command, what): (Command, &'static str)| {
        let follows_events = matches!(command, Command::Blame | Command::Watch);
        let needs_root = follows_events && !sees_events || worst.is_some_and(|of| !of.may_look);
        Next {
            command: match worst {
                Some(_) if command.at(server) != command.to_string() => command.at(server),
                Some(worst) => command.of(worst.pid),
                None => command.to_string(),
            },
            what,
            needs_root,
        }
    };
    told.into_iter().map(next).collect()
}

impl Program {
    /// By what everybody may read: its anonymous memory, taken as base pages.
    fn roughly(of: Forker, prices: &MachineProfile, page_bytes: u64) -> Program {
        let process = of.process;
        let how = match Children::of(&process.name) {
            Children::Save => How::Save,
            _ if of.workers.is_empty() => How::Programs,
            _ => How::Workers,
        };
        let stop = |bytes: u64| {
            let pages = bytes / page_bytes;
            let threads = f64::from(Stat::other_running_threads(process.pid));
            let all = ApplicationProfile { threads, ..ApplicationProfile::of_pages(pages, 0) };
            Some(price(prices, &all, &Surroundings::default(), None).ok()?.stop_ns)
        };
        let stop_ns = process.anonymous_bytes.and_then(stop);
        Program {
            pid: process.pid,
            name: process.name,
            how,
            workers: of.workers.len(),
            executed: of.executed,
            anonymous_bytes: process.anonymous_bytes,
            stop_ns,
            is_surveyed: false,
            own_bytes: None,
            saved_bytes: None,
            may_look: process.may_look,
            alike: Vec::new(),
            family_bytes: of.family_bytes,
        }
    }

    /// By its page tables and its workers', as far as there is time. One that has gone meanwhile stays as
    /// it was.
    fn look(
        &mut self,
        facts: &Facts,
        prices: &MachineProfile,
        has_time: impl Fn(Option<u64>, u64) -> bool,
    ) {
        let has_time_to_survey = has_time(self.anonymous_bytes, SURVEY_NS_PER_PAGE);
        let target = has_time_to_survey.then(|| Target::open(self.pid).ok()).flatten();
        let read = target.and_then(|target| TargetFacts::read(facts, &target, None).ok());
        if let Some(stop) = read.and_then(|of| diagnose(facts, &of, prices).stop_ns()) {
            self.stop_ns = Some(stop);
            self.is_surveyed = true;
        }
        if self.workers > 0 && has_time(self.family_bytes, FAMILY_NS_PER_PAGE) {
            let wanted = Wanted::Pid(self.pid.cast_unsigned());
            let figures = Sharing::begin(&wanted).ok().map(|sharing| sharing.figures());
            let Some(figures) = figures.filter(|figures| figures.unseen.is_empty()) else { return };
            self.own_bytes = Some(figures.forked().map(|worker| worker.own_bytes).sum());
            self.saved_bytes = figures.saved.fork_bytes;
        }
    }

    /// Whether there was no time to look at its workers.
    fn is_late(&self) -> bool {
        self.how == How::Workers && self.may_look && self.own_bytes.is_none()
    }

    fn count(&self) -> usize {
        1 + self.alike.len()
    }

    fn cost_ns(&self) -> f64 {
        self.stop_ns.as_ref().map_or(0.0, |stop| stop.value)
    }

    /// The worst first. What may never fork without an exec comes last, whatever that would cost.
    fn order(&self, other: &Program) -> Ordering {
        let may_spawn = |of: &Program| of.how == How::Programs;
        let by_how = may_spawn(self).cmp(&may_spawn(other));
        by_how.then(other.cost_ns().total_cmp(&self.cost_ns())).then(self.pid.cmp(&other.pid))
    }
}

/// The worst first; of those with the same name that fork in the same way, the worst stands for all.
fn ranked(mut programs: Vec<Program>) -> Vec<Program> {
    programs.sort_by(Program::order);
    let mut kept: Vec<Program> = Vec::new();
    for program in programs {
        let is_alike =
            |other: &&mut Program| other.name == program.name && other.how == program.how;
        match kept.iter_mut().find(is_alike) {
            Some(worse) => {
                worse.alike.push(program.pid);
                worse.alike.extend(program.alike);
            }
            None => kept.push(program),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use cowlab_observe::forkers::Process;

    use super::*;

    fn program(pid: i32, name: &str, mib: Option<u64>, workers: usize) -> Program {
        let process = Process {
            pid,
            name: name.to_owned(),
            anonymous_bytes: mib.map(|mib| mib << 20),
            ..Process::default()
        };
        let workers = (0..workers as i32).map(|worker| 1000 + worker).collect();
        let prices = MachineProfile::usual();
        Program::roughly(Forker { process, workers, ..Forker::default() }, &prices, 4096)
    }

    #[test]
    fn the_worst_comes_first_and_stands_for_its_like() {
        let all = vec![
            program(1, "shell", Some(4096), 0),
            program(2, "web", Some(100), 4),
            program(3, "redis-server", Some(1000), 0),
            program(4, "shell", Some(1), 0),
            program(5, "web", Some(200), 2),
            program(6, "old", None, 1),
        ];
        let ranked = ranked(all);
        let told: Vec<_> = ranked.iter().map(|of| (of.pid, of.how, of.alike.clone())).collect();
        assert_eq!(
            told,
            [
                (3, How::Save, vec![]),
                (5, How::Workers, vec![2]),
                (6, How::Workers, vec![]),
                (1, How::Programs, vec![4]),
            ]
        );
        assert_eq!(ranked[2].stop_ns, None, "what is not known is not 0");
        assert_eq!(ranked[1].count(), 2);
    }

    #[test]
    fn three_commands_name_the_worst() {
        for (worst, first) in [
            (Some(program(7, "web", Some(1), 1)), "cowlab explain 7"),
            (Some(program(7, "redis-server", Some(1), 0)), "cowlab explain 7"),
            (Some(program(7, "sh", Some(1), 0)), "cowlab watch 7"),
            (None, "cowlab doctor --tables"),
        ] {
            let told = next(worst.as_ref(), None, &[]);
            assert_eq!((told.len(), told[0].command.as_str()), (3, first));
            assert_eq!(told.iter().all(|of| of.needs_root), worst.is_some());
            assert!(told.iter().all(|of| !of.command.contains("PID")));
        }
    }

    #[test]
    fn a_server_is_asked_at_its_address() {
        let redis = program(7, "redis-server", Some(1), 0);
        let told = next(Some(&redis), Some("redis://127.0.0.1:6379"), &[]);
        assert_eq!(told[0].command, "cowlab explain redis://127.0.0.1:6379");
        assert_eq!(told[1].command, "cowlab tend 7 --dry-run");
    }

    #[test]
    fn what_refuses_in_spite_of_the_rights_is_named() {
        let one = |pid| Process { pid, name: "web".into(), ..Process::default() };
        let of = |count, may_all| {
            let all: Vec<Process> = (1..=count).map(one).collect();
            not_seen(&all.iter().collect::<Vec<_>>(), may_all).unwrap_or_default()
        };
        assert_eq!((of(0, true), of(0, false)), Default::default());
        assert_eq!(of(1, false), "the memory of web (1): needs root, or CAP_SYS_PTRACE");
        assert_eq!(of(5, false), "the memory of 5 processes: needs root, or CAP_SYS_PTRACE");
        let forbidden = "web (1), web (2), web (3) and 2 more: a container or a security module";
        assert!(of(5, true).contains(forbidden), "{}", of(5, true));
        assert!(!of(1, true).contains("root"));
    }

    #[test]
    fn what_was_not_seen_is_one_row() {
        assert!(missing(0, &[]).is_empty());
        let mut late = program(2, "web", Some(100), 4);
        late.may_look = true;
        let rows = missing(74, &[program(1, "sh", Some(1), 0), late]);
        let told: Vec<_> = rows.iter().map(|row| row.metric.as_str()).collect();
        assert_eq!(told, ["programs", "own_bytes"]);
        assert!(rows[0].reason.contains("of 74 processes"), "{rows:?}");
        assert!(rows[1].reason.starts_with("of 1 programs"), "{rows:?}");
    }
}
