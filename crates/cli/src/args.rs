// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line. Nothing deeper than this folder knows clap.

mod bench;
mod blame;
mod cells;
mod explain;
mod footprint;
mod kernel;
mod predict;
mod redis;
mod rounds;
mod sharing;
mod study;
mod target;
mod tend;
mod watch;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use cowlab_schema::units::parse_bytes;

pub use bench::{Bench, BenchArgs, CellArgs, CommandArgs};
pub use blame::BlameArgs;
pub use cells::{Cells, base_page_bytes};
pub use explain::ExplainArgs;
pub use footprint::FootprintArgs;
pub use kernel::{
    GuestArgs, GuestSettings, Kernel, KernelBootArgs, KernelBuildArgs, KernelTestArgs, KernelsArgs,
    SourceArgs,
};
pub use predict::PredictArgs;
pub use redis::RedisArgs;
pub use rounds::RoundsArgs;
pub use sharing::SharingArgs;
pub use study::{Paper, StudyArgs};
pub use target::{TargetWord, wanted};
pub use tend::TendArgs;
pub use watch::WatchArgs;

/// What fork() and copy-on-write cost, and how to pay less.
#[derive(Debug, Parser)]
#[command(
    name = "cowlab",
    version,
    max_term_width = 100,
    help_template = "{about}\nUsage: cowlab [--json] [VERB]\n\nCommands:\n{subcommands}{after-help}",
    after_help = "Without a verb: the programs that fork here."
)]
pub struct Cli {
    /// Print one JSON document on standard output, and nothing else there
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

/// Folder of runs where no other is named.
pub const RUNS: &str = "runs";

/// The seed of random choices where no other is given.
pub const DEFAULT_SEED: u64 = 1988;

/// Flags of every verb that keeps a run.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Folder that the run is kept in
    #[arg(long, global = true, value_name = "DIR", default_value = RUNS)]
    pub output: PathBuf,
    /// Seed of every random choice
    #[arg(long, global = true, value_name = "N", default_value_t = DEFAULT_SEED)]
    pub seed: u64,
}

impl RunArgs {
    /// With what else a verb that measures is told.
    pub fn common(&self, json: bool, set_mthp: bool) -> Common {
        Common { json, output: self.output.clone(), seed: self.seed, set_mthp }
    }
}

/// What a verb that measures is told.
#[derive(Debug, Clone)]
pub struct Common {
    /// Whether one JSON document is printed.
    pub json: bool,
    /// Folder that the run is kept in.
    pub output: PathBuf,
    /// Seed of every random choice.
    pub seed: u64,
    /// Whether the THP setting of a page size may be set meanwhile.
    pub set_mthp: bool,
}

/// Where the machine profile is.
#[derive(Debug, Clone, Args)]
pub struct ProfileArgs {
    /// Machine profile: a profile.json, a run that has one, or a folder of runs, of which the newest
    /// is taken (default: runs/); `usual`: typical costs, nothing measured
    #[arg(long, value_name = "PATH")]
    pub profile: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// One program: will its next fork fail, its stop, what would help
    Explain(ExplainArgs),
    /// What can be measured on this machine
    Doctor(DoctorArgs),
    /// Measure this machine, fit the model, compare with the papers
    Study(StudyArgs),
    /// Print the report of a run again, from its samples
    Report(ReportArgs),
    /// Measure the machine profile: a minute or two
    Calibrate(CalibrateArgs),
    /// Run one measurement
    Bench(BenchArgs),
    /// The patched Linux: built, booted and tested in a virtual machine
    #[command(subcommand)]
    Kernel(Kernel),
    /// Measure what a program maps and writes between two moments
    Footprint(FootprintArgs),
    /// Which code copies the pages that forks share
    Blame(BlameArgs),
    /// What forks of a size, or those of a footprint, would cost
    Predict(PredictArgs),
    /// Watch programs that fork: each stop, the copies; metrics
    Watch(WatchArgs),
    /// How much memory workers share, and how fast they lose it
    Sharing(SharingArgs),
    /// Shorten a running program's forks, by huge pages from outside
    Tend(TendArgs),
    /// Compare two runs, figure by figure
    Compare(CompareArgs),
    /// Write the man pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder
        #[arg(long, value_name = "DIR")]
        output: PathBuf,
    },
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The run's folder
    pub run: PathBuf,
    /// Print all tables of a study, not only its findings
    #[arg(long)]
    pub tables: bool,
    /// Write the report to this file as well, as a page with its plots
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Copy the run to this new folder, readable by all, without host name and command line (only
    /// its owner can read a run)
    #[arg(long, value_name = "FOLDER")]
    pub share: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Everything that cowlab can use, and what is missing for it
    #[arg(long)]
    pub tables: bool,
}

#[derive(Debug, Args)]
pub struct CalibrateArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Rounds; more rounds give narrower intervals
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(2..=100))]
    pub rounds: u32,
}

/// A size: bytes, or with a unit.
fn size(text: &str) -> Result<u64, String> {
    parse_bytes(text)
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e9 => Ok(value),
        _ => Err(format!("'{text}' is not a number of seconds above 0")),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1.0 => Ok(value),
        _ => Err(format!("'{text}' is not a share above 0 and up to 1")),
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err(format!("'{text}' is not in 0..1")),
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "give an address of this machine and a port, such as 127.0.0.1:9464".to_owned()
    })
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The first run
    #[arg(value_name = "RUN")]
    pub first: PathBuf,
    /// The second run, whose figures are divided by the first's
    #[arg(value_name = "RUN")]
    pub second: PathBuf,
    /// Relative difference that two runs of the same thing show anyway, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub drift_percent: f64,
    /// Only this benchmark
    #[arg(long)]
    pub bench: Option<String>,
    /// Show every figure, not only those that differ
    #[arg(long)]
    pub all: bool,
    /// Of two blames: write the flame graph of their difference to this file
    #[arg(long, value_name = "FILE")]
    pub flame_graph: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use clap::CommandFactory;
    use cowlab_schema::Command;

    use super::*;

    /// Flags that mean the same wherever they stand, and are counted nowhere: the document (every
    /// verb), where something is written (every verb that writes), of what measures the seed and
    /// whether settings of THP may be changed, and of the lab which Linux.
    const SHARED: [&str; 7] = ["json", "output", "seed", "set-mthp", "source", "help", "version"];

    /// All slots of flags, and those of one verb.
    const MOST: (usize, usize) = (112, 9);

    fn count(command: &clap::Command, name: &str, slots: &mut Vec<(String, usize)>) {
        let mut verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).peekable();
        // What takes arguments of its own beside its verbs is one as well.
        let is_verb = verbs.peek().is_none() || command.get_positionals().next().is_some();
        if is_verb {
            let own = command.get_arguments().filter(|arg| !arg.is_hide_set());
            let own = own.filter_map(clap::Arg::get_long).filter(|flag| !SHARED.contains(flag));
            slots.push((name.to_owned(), own.count()));
        }
        verbs.for_each(|verb| count(verb, format!("{name} {}", verb.get_name()).trim(), slots));
    }

    #[test]
    fn the_command_line_is_small() {
        let mut slots = Vec::new();
        count(&Cli::command(), "", &mut slots);
        let total: usize = slots.iter().map(|(_, flags)| flags).sum();
        assert!(slots.iter().all(|(_, flags)| *flags <= MOST.1), "{slots:?}");
        assert!(total <= MOST.0, "{total} slots: {slots:?}");
        assert!(slots.len() > 20, "{slots:?}");
    }

    /// Flags of other programs that this one runs, or tells people to use, and properties of CSS.
    const OTHERS: &str = "aof appendonly auto-aof-rewrite-percentage bgsave bind daemonize dir disable-thp \
        logfile loglevel pdeathsig perf-basic-prof pid port name save server unixsocket yjit-perf";

    fn add_flags(command: &clap::Command, flags: &mut BTreeSet<String>) {
        flags.extend(command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)));
        command.get_subcommands().for_each(|verb| add_flags(verb, flags));
    }

    /// The flags in what a file says: its code without tests and comments, and documentation where
    /// that is printed.
    fn named_flags(path: &Path, is_printed: bool, named: &mut BTreeMap<String, PathBuf>) {
        let text = std::fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default().lines();
        let told = code
            .map(str::trim_start)
            .filter(|line| !line.starts_with("//") || (is_printed && line.starts_with("///")));
        for line in told {
            let in_flag = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            for (at, _) in line.match_indices("--") {
                let flag = line[at + 2..].split(|c| !in_flag(c)).next().unwrap_or_default();
                let is_start = !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '-');
                if is_start && flag.starts_with(|c: char| c.is_ascii_lowercase()) {
                    named.insert(flag.to_owned(), path.to_owned());
                }
            }
        }
    }

    fn walk(folder: &Path, is_printed: bool, named: &mut BTreeMap<String, PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap_or_default();
            let is_printed = is_printed || stem == "args";
            match path.is_dir() {
                // What probes take is not typed by people.
                _ if stem == "tests" || stem == "probes" => {}
                true => walk(&path, is_printed, named),
                false => named_flags(&path, is_printed, named),
            }
        }
    }

    #[test]
    fn every_flag_that_is_named_to_people_is_one() {
        let (mut known, mut named) = (BTreeSet::new(), BTreeMap::new());
        known.extend(["help", "version"].map(str::to_owned));
        add_flags(&Cli::command(), &mut known);
        let crates = Path::new("..");
        for name in "analysis bench cli machine model observe report schema".split(' ') {
            walk(&crates.join(name).join("src"), name == "schema", &mut named);
        }
        for other in OTHERS.split_whitespace() {
            assert!(named.remove(other).is_some(), "--{other} is listed and named nowhere");
        }
        named.retain(|flag, _| !known.contains(flag));
        assert!(named.is_empty(), "no command has these: {named:?}");
    }

    #[test]
    fn every_command_that_is_named_to_people_is_one() {
        for command in Command::ALL {
            for line in [command.to_string(), command.of(4711), command.of("redis-server")] {
                if let Err(error) = Cli::try_parse_from(line.split_whitespace()) {
                    panic!("{line}: {error}");
                }
            }
        }
    }
}
