// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel test`: the tests of tests/kernel inside a guest, one boot a variant.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cowlab_lab::ktap::Outcome;
use cowlab_lab::outcome::{Difference, TestResult, compare};
use cowlab_lab::testing::{Batch, Machine, Test, compile, run as run_batches};
use cowlab_lab::{Variant, boot};
use serde::Serialize;

use crate::args::KernelTestArgs;
use crate::lab::{GUEST_BYTES, GUEST_CPUS, Lab, own_program};
use crate::output;

#[derive(Serialize)]
struct TestSummary<'a> {
    passed: usize,
    failed: usize,
    skipped: usize,
    /// Passes of the first variant that a later one lacks, and failures that only that has.
    worse: &'a [Difference],
    variants: Vec<Tested>,
}

#[derive(Serialize)]
struct Tested {
    variant: Variant,
    /// Outputs and the guest's log.
    folder: PathBuf,
    results: Vec<TestResult>,
}

/// Run the verb.
pub fn run(json: bool, args: &KernelTestArgs) -> Result<()> {
    let lab = Lab::open(json)?.of(&args.source);
    boot::check_tools()?;
    let folder = match &args.tests {
        Some(folder) => folder.clone(),
        None => lab.kernel()?.path().join("../tests/kernel"),
    };
    let files = find(&folder, args)?;
    // Programs and outputs of one cowlab at a time.
    let _lock = lab.cache.lock("test", || lab.say("another cowlab tests a kernel: waiting"))?;
    let programs = lab.cache.folder("tests")?;
    let tests = prepared(&files, &programs, args)?;
    // For tests/kernel/kunit.sh: those tests are run by the kernel itself, at boot.
    let own_arguments = vec!["kunit.enable=1".to_owned()];
    let accelerator =
        lab.accelerator(args.guest.settings.accelerator, || lab.image(&args.variant))?;
    let mut all = Vec::new();
    for variant in &args.variant {
        let built = lab.built(*variant)?;
        let folder = lab.cache.folder(&format!("test/{}", built.info.name()))?;
        let mut kernel_arguments = built.words();
        kernel_arguments.extend_from_slice(&own_arguments);
        let batch = Batch { label: String::new(), setup: String::new(), tests: tests.clone() };
        let machine = Machine {
            image: &built.image(),
            accelerator,
            memory_bytes: args.guest.settings.memory_bytes.unwrap_or(GUEST_BYTES),
            cpus: args.guest.settings.cpus.unwrap_or(GUEST_CPUS),
            folder: &folder,
            kernel_arguments: &kernel_arguments,
        };
        let done = |name: &str| lab.say(&format!("{variant}: {name}"));
        let results = lab.watched(|watch| run_batches(&[batch], &machine, &done, watch))?;
        all.push(Tested { variant: *variant, folder, results });
    }
    let worse: Vec<Difference> =
        all.iter().skip(1).flat_map(|tested| compare(&all[0].results, &tested.results)).collect();
    let count = |outcome| {
        let results = all.iter().flat_map(|tested| &tested.results);
        results.filter(|result| result.outcome == outcome).count()
    };
    let (passed, failed, skipped) =
        (count(Outcome::Pass), count(Outcome::Fail), count(Outcome::Skip));
    let text = text(&all);
    if json {
        output::json_of(
            TestSummary { passed, failed, skipped, worse: &worse, variants: all },
            &[],
            &[],
        )?;
    } else {
        output::print(&text)?;
    }
    for one in &worse {
        lab.say(&format!("worse than with the first variant: {}", one.name));
    }
    if failed > 0 || !worse.is_empty() {
        bail!("{failed} of {} tests failed", passed + failed + skipped);
    }
    Ok(())
}

/// The tests in `folder` that the filter matches: executable files, and C files. Sorted.
fn find(folder: &Path, args: &KernelTestArgs) -> Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read the tests in {}", folder.display());
    let folder = folder.canonicalize().with_context(cannot)?;
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).with_context(cannot)? {
        let file = entry?.path();
        let is_meant = args.filter.as_ref().is_none_or(|filter| name(&file).contains(filter));
        if is_meant && (is_c(&file) || is_executable(&file)?) {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        match &args.filter {
            Some(filter) => bail!("no test in {} has '{filter}' in its name", folder.display()),
            None => bail!("{} has no tests", folder.display()),
        }
    }
    Ok(files)
}

/// What the guest runs for each of `files`; C files are compiled into `programs`.
fn prepared(files: &[PathBuf], programs: &Path, args: &KernelTestArgs) -> Result<Vec<Test>> {
    // The program under test, for those that test it inside the guest.
    let mut ourselves = OsString::from("COWLAB=");
    ourselves.push(own_program(programs)?);
    let mut tests = Vec::new();
    for file in files {
        let name = name(file);
        let mut program = file.clone();
        if is_c(file) {
            program = programs.join(&name);
            compile(file, &program)?;
        }
        let mut command = vec![OsString::from("env"), ourselves.clone()];
        if args.quick {
            command.push("COWLAB_QUICK=1".into());
        }
        command.push(program.into_os_string());
        tests.push(Test { name, command, folder: None, limit_s: args.time_limit_s.ceil() as u64 });
    }
    Ok(tests)
}

fn name(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_c(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "c")
}

fn is_executable(file: &Path) -> Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    let about = fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// As tests print it: one line a test and, indented before it, one a case that did not pass.
fn text(all: &[Tested]) -> String {
    let mut lines = Vec::new();
    let total: usize = all.iter().map(|tested| tested.results.len()).sum();
    lines.push(format!("TAP version 13\n1..{total}"));
    for (number, (tested, result)) in
        all.iter().flat_map(|tested| tested.results.iter().map(move |r| (tested, r))).enumerate()
    {
        for case in result.cases.iter().filter(|case| case.outcome != Outcome::Pass) {
            let what = if case.outcome == Outcome::Fail { "failed" } else { "skipped" };
            let note = case.note.as_deref().map_or(String::new(), |note| format!(": {note}"));
            lines.push(format!("# {}: {} {what}{note}", result.name, case.name));
        }
        let (ok, directive) = match result.outcome {
            Outcome::Pass => ("ok", String::new()),
            Outcome::Skip => ("ok", format!(" # SKIP {}", reason(result))),
            Outcome::Fail => ("not ok", String::new()),
        };
        if result.outcome == Outcome::Fail {
            lines.push(format!("# {}: {}", result.name, reason(result).replace('\n', "\n#   ")));
            if let Some(output) = &result.output {
                lines.push(format!("# all it printed: {}", tested.folder.join(output).display()));
            }
        }
        let batch = [tested.variant.name(), &result.batch].join(" ");
        lines.push(format!("{ok} {} {} {}{directive}", number + 1, batch.trim(), result.name));
    }
    lines.join("\n") + "\n"
}

fn reason(result: &TestResult) -> &str {
    result.reason.as_deref().unwrap_or("no reason was given")
}
