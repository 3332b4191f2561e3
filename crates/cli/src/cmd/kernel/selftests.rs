// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel test --selftests`: upstream's selftests and the project's own, on the plain kernel and on
//! the patched one under each policy; the results are compared, and kept as lists in a run.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use cowlab_lab::ktap::Outcome;
use cowlab_lab::outcome::TestResult;
use cowlab_lab::selftests::batches::Order;
use cowlab_lab::selftests::{List, Problem, Test, add_spoken, batches, lines, programs, review};
use cowlab_lab::testing::{Machine, run as run_batches};
use cowlab_lab::{Built, Variant, accelerator, boot};
use cowlab_machine::{Facts, Policy, Root};
use cowlab_store::{Accelerator, Environment, FORMAT, KernelBuild, Run, RunFolder, RunInfo};
use serde::Serialize;

use super::Lab;
use crate::args::KernelTestArgs;
use crate::output::{self, JsonDocument};
use crate::usage::WrongUsage;

#[derive(Serialize)]
struct Summary<'a> {
    problems: &'a [Problem],
    sessions: &'a [Session],
    /// Upstream's tests that are not run, and why.
    left_out: Vec<[&'a str; 2]>,
}

/// The results of one kernel under one policy.
#[derive(Serialize)]
struct Session {
    on: String,
    variant: Variant,
    policy: Option<String>,
    passed: usize,
    failed: usize,
    skipped: usize,
    results: Vec<TestResult>,
}

/// Run the verb.
pub fn run(json: bool, args: &KernelTestArgs) -> Result<()> {
    let common = &args.run.common(json, false);
    let lab = Lab::open(json, &args.place)?;
    boot::check_tools()?;
    let kernel = lab.kernel()?;
    let list = List::read(&kernel.file("selftests.toml"))?;
    let named: Vec<String> = args.filter.iter().cloned().collect();
    let tests = list
        .choose(&named, args.quick, args.stress_s)
        .map_err(|error| WrongUsage(error.to_string()))?;
    let (accelerator, why) = accelerator::decide(args.machine.wanted(), accelerator::try_kvm)?;
    lab.say(&format!("accelerator: {why}"));
    let mut environment = Facts::probe(&Root::default()).environment();
    environment.accelerator = accelerator;
    let mut info = RunInfo::begin("kernel-test", common.seed, environment);
    let folder = RunFolder::create(&common.output, &info)?;

    // Guests share a folder with their outputs, which are kept at the end.
    let waiting = || lab.say("another cowlab runs the selftests: waiting");
    let _lock = lab.cache.lock("selftests", waiting)?;
    let began = Instant::now();
    let own = kernel.path().join("../tests/kernel");
    let programs = lab.watched(|watch| programs(&lab.cache, &kernel, &own, &list.build, watch))?;
    let mut sessions: Vec<Session> = Vec::new();
    let mut guests = Vec::new();
    for variant in &args.variant {
        let built = lab.built(*variant)?;
        guests.push(environment_of(&built, &list, &info.environments[0]));
        sessions.extend(on_variant(&lab, args, &list, &tests, &built, &programs, accelerator)?);
    }
    info.environments = guests;
    if sessions.iter().all(|session| session.results.is_empty()) {
        bail!("nothing was run: no test that was chosen is for a kernel that was (--variant)");
    }
    let plain = sessions.iter().position(|session| session.variant == Variant::Plain);
    let problems: Vec<Problem> = sessions
        .iter()
        .enumerate()
        .flat_map(|(number, session)| {
            let plain = plain.filter(|plain| *plain != number);
            let plain = plain.map(|plain| sessions[plain].results.as_slice());
            review(&list, &session.on, &session.results, plain)
        })
        .collect();
    for session in &sessions {
        let name = session.on.replace([' ', ':'], "-");
        folder.write(&format!("tests/{name}.txt"), lines(&session.results).as_bytes())?;
    }
    let wrong: String =
        problems.iter().map(|problem| format!("{}: {}\n", problem.on, problem.what)).collect();
    folder.write("tests/problems.txt", wrong.as_bytes())?;
    for variant in &args.variant {
        keep_outputs(&lab, *variant, &folder)?;
    }
    info.duration_s = Some(began.elapsed().as_secs_f64());
    let run = Run { info, samples: Vec::new() };
    folder.write_run(&run)?;
    let written = folder.commit()?;
    lab.say(&format!("the lists are in {}", written.join("tests").display()));
    if common.json {
        output::json(&JsonDocument {
            format: FORMAT,
            run: Some(&run.info),
            samples: &[],
            summary: Summary {
                problems: &problems,
                sessions: &sessions,
                left_out: list.left_out.iter().map(|l| [&*l.name, &*l.reason]).collect(),
            },
            missing: &[],
        })?;
    } else {
        output::print(&text(&list, &sessions, &wrong))?;
    }
    if !problems.is_empty() {
        bail!("{} results are not as they have to be", problems.len());
    }
    Ok(())
}

/// The guest, as far as it is known from outside; what only the guest could tell is left out.
fn environment_of(built: &Built, list: &List, host: &Environment) -> Environment {
    let info = &built.info;
    Environment {
        host: host.host.clone(),
        architecture: host.architecture.clone(),
        cpus: list.guest.cpus,
        kernel: format!("{}-cowlab-{}", info.source.version, info.variant),
        page_size_bytes: host.page_size_bytes,
        accelerator: host.accelerator,
        build: Some(KernelBuild {
            variant: info.variant.to_string(),
            hash: Some(info.key.clone()),
            source: Some(info.source.version.clone()),
        }),
        ..Environment::default()
    }
}

/// Boot one kernel, and run the tests under each policy that it has.
fn on_variant(
    lab: &Lab,
    args: &KernelTestArgs,
    list: &List,
    tests: &[&Test],
    built: &Built,
    programs: &Path,
    accelerator: Accelerator,
) -> Result<Vec<Session>> {
    let variant = built.info.variant;
    let folder = lab.cache.folder(&format!("test/selftests-{variant}"))?;
    let none: &[Policy] = &[];
    let policies = if variant == Variant::Plain { none } else { &args.policy };
    let cowlab = std::env::current_exe().context("where is cowlab?")?;
    let order =
        Order { programs, folder: &folder, cowlab: &cowlab, policies, stress_s: args.stress_s };
    let batches = batches(list, tests, &order)?;
    let mut kernel_arguments = built.words();
    kernel_arguments.extend(list.guest.kernel_arguments.iter().cloned());
    kernel_arguments.extend(args.kernel_argument.iter().cloned());
    let machine = Machine {
        image: &built.image(),
        accelerator,
        memory_bytes: list.guest.memory_mib << 20,
        cpus: list.guest.cpus,
        folder: &folder,
        kernel_arguments: &kernel_arguments,
    };
    let done = |name: &str| lab.say(&format!("{variant}: {name}"));
    let mut all = lab.watched(|watch| run_batches(&batches, &machine, &done, watch))?;
    add_spoken(&mut all, &folder);
    let of_batch = |label: &str| -> Session {
        let results: Vec<TestResult> =
            all.iter().filter(|result| result.batch == label).cloned().collect();
        let count = |outcome| {
            let cases = results.iter().flat_map(|r| &r.cases).filter(|c| c.outcome == outcome);
            let whole = results.iter().filter(|r| r.cases.is_empty() && r.outcome == outcome);
            cases.count() + whole.count()
        };
        let policy = (!policies.is_empty()).then(|| label.to_owned());
        Session {
            on: format!("{variant} {label}").trim().to_owned(),
            variant,
            policy,
            passed: count(Outcome::Pass),
            failed: count(Outcome::Fail),
            skipped: count(Outcome::Skip),
            results,
        }
    };
    let mut sessions: Vec<Session> = batches.iter().map(|batch| of_batch(&batch.label)).collect();
    // What the log says outside of any test belongs to no policy.
    if variant != Variant::Plain && all.iter().any(|result| result.batch.is_empty()) {
        sessions.push(of_batch(""));
    }
    Ok(sessions)
}

/// The outputs and the guest's log, for whoever wants to know why.
fn keep_outputs(lab: &Lab, variant: Variant, run: &RunFolder) -> Result<()> {
    let from = lab.cache.folder(&format!("test/selftests-{variant}"))?;
    let mut files = vec![from.join("console.log")];
    for entry in fs::read_dir(from.join("results"))? {
        files.push(entry?.path());
    }
    for file in files.iter().filter(|file| file.is_file()) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        run.write(&format!("outputs/{variant}/{name}"), &fs::read(file)?)?;
    }
    Ok(())
}

fn text(list: &List, sessions: &[Session], wrong: &str) -> String {
    let mut text = String::new();
    for session in sessions {
        let Session { on, passed, failed, skipped, .. } = session;
        text += &format!("{on}: {passed} passed, {failed} failed, {skipped} skipped\n");
    }
    text += "\nskipped, each for a reviewed reason (kernel/selftests.toml):\n";
    for test in &list.tests {
        for skip in &test.skips {
            text += &format!("  {}: {}: {}\n", test.name, skip.text, skip.reason);
        }
    }
    text += "not run:\n";
    for one in &list.left_out {
        text += &format!("  {}: {}\n", one.name, one.reason);
    }
    match wrong {
        "" => text + "\nevery result is as it has to be\n",
        wrong => format!("{text}\nNOT as it has to be:\n{wrong}"),
    }
}
