// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel bench`: this program's own `bench` in guests, and what they measured as an ordinary run.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use cowlab_bench::guest::Guests;
use cowlab_lab::{Built, Guest, Variant, accelerator, boot};
use cowlab_machine::{Facts, Root};
use cowlab_report::figures::{figures, table as figure_table};
use cowlab_report::study::kernel;
use cowlab_report::{Block, Document, Section, csv, emulated, html};
use cowlab_store::{Accelerator, Run, RunFolder, RunInfo};

use super::Lab;
use super::messages::Messages;
use crate::args::{Bench, Common, KernelBenchArgs};
use crate::output;
use crate::usage::WrongUsage;

/// Variable that asks a guest's cowlab for lines of progress.
pub const PROGRESS: &str = "COWLAB_PROGRESS";

/// What is measured in guests, and how they are booted.
pub struct Plan<'a> {
    /// The arguments of the guest's cowlab, `bench` first.
    pub words: Vec<OsString>,
    /// The kernels that are booted in turn.
    pub variants: Vec<Variant>,
    /// Boots of each.
    pub boots: u32,
    /// Whether `words` set policies, of which the plain kernel has `off` alone.
    pub args: &'a KernelBenchArgs,
}

/// Run the verb.
pub fn run(common: &Common, args: &KernelBenchArgs) -> Result<()> {
    check(args)?;
    let lab = Lab::open(common, &args.place)?;
    let name = format!("kernel-bench-{}", args.bench.name());
    let host = Facts::probe(&Root::default()).environment();
    let mut info = RunInfo::begin(&name, common.seed, host);
    let folder = RunFolder::create(&common.output, &info)?;
    let began = Instant::now();
    let words = guest_words(std::env::args_os().skip(1), common);
    let boots = args.boots.unwrap_or(if args.variant.len() > 1 { 2 } else { 1 });
    let guests =
        Plan { words, variants: args.variant.clone(), boots, args }.measure(&lab, common)?;
    info.duration_s = Some(began.elapsed().as_secs_f64());
    info.environments = guests.environments;
    info.missing = guests.missing;
    let run = Run { info, samples: guests.samples };

    let summary = figures(&run.samples);
    let document = kernel::document(&run).unwrap_or_else(|| figures_document(&args.bench, &run));
    for (file, contents) in csv::tables(&document) {
        folder.write(&format!("tables/{file}"), contents.as_bytes())?;
    }
    folder.write("report.html", html::render(&document).as_bytes())?;
    folder.write_run(&run)?;
    let written = folder.commit()?;
    lab.say(&format!("the run is {}", written.display()));
    if common.json { output::json_of_run(&run, &summary) } else { output::text(&document) }
}

/// A table of everything, for what has no report of its own.
fn figures_document(bench: &Bench, run: &Run) -> Document {
    let name = bench.name();
    let table = figure_table(name, name, &figures(&run.samples));
    let environments = &run.info.environments;
    let kernels: Vec<&str> = environments.iter().map(|e| e.kernel.as_str()).collect();
    let mut document = Document::new(name, format!("In a guest: Linux {}.", kernels.join(", ")));
    document.sections.push(Section::new(name, "Figures", vec![Block::Table(table)]));
    emulated::label_document(&mut document, emulated::label_of(environments));
    document
}

/// Combinations that make no sense, before anything is built.
fn check(args: &KernelBenchArgs) -> Result<()> {
    let refuse = |why: String| Err(WrongUsage(why).into());
    let counting = args.accelerator.wanted() == cowlab_lab::Wanted::Icount;
    if counting && args.cpus.is_some_and(|cpus| cpus > 1) {
        return refuse("--accelerator icount counts on one CPU: leave --cpus out".to_owned());
    }
    let mut seen = Vec::new();
    for variant in &args.variant {
        if seen.contains(variant) {
            return refuse(format!("--variant names {variant} twice; --boots boots it again"));
        }
        seen.push(*variant);
    }
    if matches!(args.bench, Bench::PreCopy(_)) && seen.contains(&Variant::Plain) {
        return refuse(
            "the plain kernel has no policy for pre-copy: leave it out of --variant, or \
                       measure cow-faults"
                .to_owned(),
        );
    }
    Ok(())
}

impl Plan<'_> {
    /// Boot, measure, and bring home what was measured.
    pub fn measure(&self, lab: &Lab, common: &Common) -> Result<Guests> {
        boot::check_tools()?;
        let args = self.args;
        let (accelerator, why) =
            accelerator::decide(args.accelerator.wanted(), accelerator::try_kvm)?;
        lab.say(&format!("accelerator: {why}"));
        let built: Vec<(Variant, Built)> =
            self.variants.iter().map(|v| Ok((*v, lab.built(*v)?))).collect::<Result<_>>()?;
        let mut guests = Guests::default();
        for boot in 0..self.boots {
            // There and back, so that a drift of the machine does not fall on one kernel.
            let mut order: Vec<_> = built.iter().collect();
            if boot % 2 == 1 {
                order.reverse();
            }
            for (variant, built) in order {
                if built_and_boots(self) > 1 {
                    lab.say(&format!("booting {variant}, {} of {}", boot + 1, self.boots));
                }
                let run = self.boot(lab, common, accelerator, *variant, built)?;
                guests.add(run, variant.name(), boot);
            }
        }
        Ok(guests)
    }

    fn boot(
        &self,
        lab: &Lab,
        common: &Common,
        accelerator: Accelerator,
        variant: Variant,
        built: &Built,
    ) -> Result<Run> {
        let args = self.args;
        let scratch = tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(lab.cache.folder("boot")?)
            .context("cannot make a folder for the guest")?;
        let runs = scratch.path().join("runs");
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command: Vec<OsString> = vec!["env".into(), format!("{PROGRESS}=1").into()];
        command.extend([program.into(), "--output".into(), runs.clone().into()]);
        command.extend(["--seed".into(), common.seed.to_string().into()]);
        command.extend(self.words_for(variant));
        let mut messages = Messages::new();
        let mut ignored = std::io::sink();
        let guest = Guest {
            image: &built.image(),
            accelerator,
            memory_bytes: args.memory,
            preallocated: true,
            cpus: args.cpus.unwrap_or(if accelerator == Accelerator::Icount { 1 } else { 2 }),
            time_limit: Duration::from_secs_f64(args.time_limit_s),
            folder: scratch.path(),
            command: Some(&command),
            input: None,
            output: &mut ignored,
            messages: &mut messages,
            kernel_arguments: &built.identity(),
            qemu_arguments: &[],
        };
        let say = |text: &str| lab.say(text);
        let watch =
            cowlab_lab::Watch { say: &say, progress: &|_, _| {}, interrupted: &lab.interrupted };
        let ended = boot(guest, &watch);
        messages.finish();
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) if error.is::<cowlab_lab::Interrupted>() => return Err(error),
            Err(error) => {
                // Its log is in there, and the message says so.
                let _kept = scratch.keep();
                return Err(error);
            }
        };
        if let Some(first) = ended.complaints.first() {
            let kept = scratch.keep();
            bail!(
                "the {variant} kernel complained in line {} of {}: {}",
                first.line,
                kept.join("console.log").display(),
                first.text
            );
        }
        if ended.status != 0 {
            bail!("`cowlab bench` in the guest: {}", messages.last_line(ended.status));
        }
        let entries = fs::read_dir(&runs).context("the guest wrote no run")?;
        let mut folders: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        match (folders.pop(), folders.len()) {
            (Some(only), 0) => read(&only),
            (_, more) => bail!("the guest wrote {more} runs, not one"),
        }
    }

    /// The plain kernel has one policy, `off`, whatever the others are measured under.
    fn words_for(&self, variant: Variant) -> Vec<OsString> {
        let mut words = self.words.clone();
        if variant != Variant::Plain {
            return words;
        }
        let own = words.iter().position(|word| word == "--").unwrap_or(words.len());
        for index in 0..own {
            if words[index] == "--policy" && index + 1 < own {
                words[index + 1] = "off".into();
            } else if words[index].as_bytes().starts_with(b"--policy=") {
                words[index] = "--policy=off".into();
            }
        }
        words
    }
}

fn built_and_boots(plan: &Plan<'_>) -> u32 {
    plan.boots * plan.variants.len() as u32
}

fn read(folder: &Path) -> Result<Run> {
    Run::read(folder).context("what the guest measured cannot be read")
}

/// Flags of `kernel bench` and of every verb that are not the guest's, and whether a value follows.
const OURS: [(&str, bool); 12] = [
    ("--json", false),
    ("--output", true),
    ("--seed", true),
    ("--variant", true),
    ("--boots", true),
    ("--memory", true),
    ("--cpus", true),
    ("--accelerator", true),
    ("--time-limit-s", true),
    ("--cache", true),
    ("--kernel-dir", true),
    ("--set-mthp", false),
];

/// The guest's part of this command line: `bench NAME` with that measurement's own flags.
pub fn guest_words(all: impl IntoIterator<Item = OsString>, common: &Common) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    if common.set_mthp {
        words.push("--set-mthp".into());
    }
    let mut all = all.into_iter();
    // Up to `bench`, every word is a flag of ours or the verb `kernel`.
    while let Some(word) = all.next() {
        match ours(&word) {
            Some(true) => drop(all.next()),
            Some(false) => {}
            None if word == "--" => {
                words.push(word);
                words.extend(all.by_ref());
            }
            None if word == "kernel" && !words.iter().any(|word| word == "bench") => {}
            None => words.push(word),
        }
    }
    words
}

/// Whether the word is one of [`OURS`], and whether its value is the next word.
fn ours(word: &OsStr) -> Option<bool> {
    OURS.iter().find_map(|(flag, takes_value)| {
        let rest = word.as_bytes().strip_prefix(flag.as_bytes())?;
        match rest.first() {
            None => Some(*takes_value),
            Some(b'=') => Some(false),
            Some(_) => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn common(set_mthp: bool) -> Common {
        Common { json: false, output: PathBuf::from("runs"), seed: 1, set_mthp }
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_guest_gets_the_measurements_own_flags() {
        for (line, expected) in [
            ("kernel bench cow-faults --policy off,next", "bench cow-faults --policy off,next"),
            (
                "--json --output=x kernel --cache c bench --variant plain,patched cow-faults \
                 --memory 1GiB --rounds 3 --seed 7 --cpus=1",
                "bench cow-faults --rounds 3",
            ),
            (
                "kernel bench command --accelerator tcg --rounds 2 -- make --variant x -j2",
                "bench command --rounds 2 -- make --variant x -j2",
            ),
        ] {
            assert_eq!(guest_words(words(line), &common(false)), words(expected), "{line}");
        }
        let line = "kernel bench cow-faults --set-mthp";
        assert_eq!(guest_words(words(line), &common(true)), words("--set-mthp bench cow-faults"));
    }
}
