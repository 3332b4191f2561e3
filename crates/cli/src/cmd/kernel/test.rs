// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel test`: tests inside guests, one boot a kernel: the project's own (tests/kernel) and, where the filter names
//! them, upstream's selftests of mm (kernel/selftests), on kernels with policies under one.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cowlab_lab::ktap::Outcome;
use cowlab_lab::outcome::TestResult;
use cowlab_lab::selftests::{self, Order, batch};
use cowlab_lab::testing::{Batch, Test, compile, run as run_batches};
use cowlab_lab::{Built, Machine, Variant, boot};
use serde::Serialize;

use crate::args::KernelTestArgs;
use crate::lab::{GUEST_BYTES, GUEST_CPUS, Lab, check_policies, own_program};
use crate::output;

/// A test of the project's own is killed after this time, where nothing else is asked.
const LIMIT_S: f64 = 600.0;

#[derive(Serialize)]
struct TestSummary<'a> {
    passed: usize,
    failed: usize,
    skipped: usize,
    sessions: &'a [Session],
}

/// The results of one kernel.
#[derive(Serialize)]
struct Session {
    /// The kernel, and the policy if it has any.
    on: String,
    variant: Variant,
    folder: PathBuf,
    results: Vec<TestResult>,
}

struct Chosen {
    own: Vec<Test>,
    selftests: Vec<selftests::Test>,
    /// The folder with the selftests' programs, if any is run.
    programs: Option<PathBuf>,
}

pub fn run(json: bool, args: &KernelTestArgs) -> Result<()> {
    let lab = Lab::open(json)?.of(&args.source);
    check_policies(args.policy.as_slice(), &args.variant)?;
    boot::check_tools()?;
    // Programs and outputs of one cowlab at a time.
    let _lock = lab.cache.lock("test", || lab.say("another cowlab tests a kernel: waiting"))?;
    let list = match args.tests {
        Some(_) => Vec::new(),
        None => selftests::read(&lab.kernel()?.file("selftests"))?,
    };
    let chosen = choose(&lab, args, &list)?;
    let settings = &args.guest.settings;
    let accelerator = lab.accelerator(settings.accelerator, || lab.image(&args.variant))?;
    let (memory_bytes, cpus) = match chosen.programs {
        Some(_) => (selftests::GUEST_BYTES, selftests::GUEST_CPUS),
        None => (GUEST_BYTES, GUEST_CPUS),
    };
    let mut sessions = Vec::new();
    for variant in &args.variant {
        let built = lab.built(*variant)?;
        let folder = lab.cache.folder(&format!("test/{}", built.info.name()))?;
        let batches = batches_of(args, &chosen, &built, &folder)?;
        let mut kernel_arguments = built.words();
        // For tests/kernel/kunit.sh: those tests are run by the kernel itself, at boot.
        kernel_arguments.push("kunit.enable=1".to_owned());
        if chosen.programs.is_some() {
            kernel_arguments.push(selftests::KERNEL_ARGUMENT.to_owned());
        }
        let machine = Machine {
            image: &built.image(),
            accelerator,
            memory_bytes: settings.memory_bytes.unwrap_or(memory_bytes),
            measured: false,
            cpus: settings.cpus.unwrap_or(cpus),
            kernel_arguments: &kernel_arguments,
            qemu_arguments: &[],
        };
        let done = |name: &str| lab.say(&format!("{variant}: {name}"));
        let results = lab.watched(|watch| run_batches(&batches, machine, &folder, &done, watch))?;
        let policy = args.policy.filter(|_| variant.has_policies() && chosen.programs.is_some());
        let on = policy.map_or(variant.to_string(), |policy| format!("{variant} {policy}"));
        sessions.push(Session { on, variant: *variant, folder, results });
    }
    sessions.retain(|session| !session.results.is_empty());
    if sessions.is_empty() {
        bail!(
            "nothing was run: none of the chosen tests is for these kernels (--variant), or all set policies \
             themselves, and run without --policy"
        );
    }
    let count = |outcome| {
        let results = sessions.iter().flat_map(|session| &session.results);
        results.filter(|result| result.outcome == outcome).count()
    };
    let failed = count(Outcome::Fail);
    if json {
        let summary = TestSummary {
            passed: count(Outcome::Pass),
            failed,
            skipped: count(Outcome::Skip),
            sessions: &sessions,
        };
        output::json_of(summary, &[], &[])?;
    } else {
        output::print(&text(&sessions))?;
    }
    if failed > 0 {
        bail!("{failed} tests failed");
    }
    Ok(())
}

/// The tests that the filter means: the one of exactly that name, else all with it in their names. Without one, the
/// project's own.
fn choose(lab: &Lab, args: &KernelTestArgs, list: &[selftests::Test]) -> Result<Chosen> {
    let folder = match &args.tests {
        Some(folder) => folder.clone(),
        None => lab.kernel()?.path().join("../tests/kernel"),
    };
    let cannot = || format!("cannot read the tests in {}", folder.display());
    let folder = folder.canonicalize().with_context(cannot)?;
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).with_context(cannot)? {
        let file = entry?.path();
        if is_c(&file) || is_executable(&file)? {
            files.push(file);
        }
    }
    files.sort();
    let mut selftests = Vec::new();
    if let Some(filter) = &args.filter {
        selftests = selftests::choose(list, filter, args.quick, args.stress_s);
        let is_exact = |file: &&PathBuf| name(file) == *filter;
        match files.iter().find(is_exact).cloned() {
            Some(file) => (files, selftests) = (vec![file], Vec::new()),
            None if selftests.iter().any(|test| test.name == *filter) => files.clear(),
            None => files.retain(|file| name(file).contains(filter)),
        }
        if files.is_empty() && selftests.is_empty() {
            bail!("no test in {} has '{filter}' in its name", folder.display());
        }
    } else if files.is_empty() {
        bail!("{} has no tests", folder.display());
    }
    let mut programs = None;
    if !selftests.is_empty() {
        let source = lab.source()?;
        selftests.retain(|test| test.is_of(&source.version));
        // Those of patches that no kernel here has would find nothing to test.
        let series = args.variant.iter().map(|variant| variant.series());
        let series = series.max_by_key(|series| series.len()).unwrap_or_default();
        let kernel = lab.kernel()?;
        programs = Some(lab.watched(|watch| {
            selftests::programs(&lab.cache, &kernel, &source, series, &folder, watch)
        })?);
    }
    let own = prepared(&files, &lab.cache.folder("tests")?, args)?;
    Ok(Chosen { own, selftests, programs })
}

/// The project's own tests, and the selftests under the policy.
fn batches_of(
    args: &KernelTestArgs,
    chosen: &Chosen,
    built: &Built,
    folder: &Path,
) -> Result<Vec<Batch>> {
    let mut all = vec![Batch { setup: String::new(), tests: chosen.own.clone() }];
    if let Some(programs) = &chosen.programs {
        let variant = built.info.variant;
        let order = Order {
            programs,
            folder,
            cowlab: &own_program(folder)?,
            upstream: variant != Variant::Plain,
            patched: variant.has_policies(),
            policy: args.policy.filter(|_| variant.has_policies()),
            stress_s: args.stress_s,
        };
        all.push(batch(&chosen.selftests, &order)?);
    }
    Ok(all)
}

/// What the guest runs for each of `files`; C files are compiled into `programs`.
fn prepared(files: &[PathBuf], programs: &Path, args: &KernelTestArgs) -> Result<Vec<Test>> {
    // The program under test, for those that test it inside the guest.
    let mut ourselves = OsString::from("COWLAB=");
    ourselves.push(own_program(programs)?);
    let limit_s = args.guest.settings.time_limit_s.unwrap_or(LIMIT_S).ceil() as u64;
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
        tests.push(Test { name, command, folder: None, limit_s });
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

/// As tests print it: one line a test and, indented before it, one a case that did not pass; and how many cases each
/// kernel passed.
fn text(sessions: &[Session]) -> String {
    let total: usize = sessions.iter().map(|session| session.results.len()).sum();
    let mut lines = vec![format!("TAP version 13\n1..{total}")];
    let mut number = 0;
    for session in sessions {
        for result in &session.results {
            number += 1;
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
                let reason = reason(result).replace('\n', "\n#   ");
                lines.push(format!("# {}: {reason}", result.name));
                if let Some(output) = &result.output {
                    let output = session.folder.join(output);
                    lines.push(format!("# all it printed: {}", output.display()));
                }
            }
            lines.push(format!("{ok} {number} {} {}{directive}", session.on, result.name));
        }
    }
    for session in sessions {
        let count = |outcome| {
            let cases = session.results.iter().flat_map(|result| &result.cases);
            let whole = session.results.iter().filter(|result| result.cases.is_empty());
            cases.filter(|case| case.outcome == outcome).count()
                + whole.filter(|result| result.outcome == outcome).count()
        };
        let [passed, failed, skipped] = [Outcome::Pass, Outcome::Fail, Outcome::Skip].map(count);
        lines.push(format!(
            "# {}: {passed} cases passed, {failed} failed, {skipped} skipped",
            session.on
        ));
    }
    lines.join("\n") + "\n"
}

fn reason(result: &TestResult) -> &str {
    result.reason.as_deref().unwrap_or("no reason was given")
}
