// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel selftests`: upstream's selftests and the project's own, on the plain kernel and on
//! others, on the patched one under each policy; the results are compared, and kept as lists in a run.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use clap::ArgMatches;
use clap::parser::ValueSource;
use cowlab_lab::ktap::Outcome;
use cowlab_lab::outcome::TestResult;
use cowlab_lab::selftests::batches::Order;
use cowlab_lab::selftests::{
    List, Problem, Test, add_plain_output, batches, lines, programs, review,
};
use cowlab_lab::testing::{Machine, run as run_batches};
use cowlab_lab::{Built, Variant, boot};
use cowlab_machine::{Facts, Policy, Root};
use cowlab_store::{Accelerator, Environment, KernelBuild};
use serde::Serialize;

use super::check_policies;
use crate::args::KernelSelftestsArgs;
use crate::lab::{Lab, own_program};
use crate::run_life::{Report, RunLife};
use crate::usage::WrongUsage;
use cowlab_report::{Block, Cell, Column, Document, Finding, Section, Table};

#[derive(Serialize)]
struct SelftestsSummary<'a> {
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
pub fn run(json: bool, args: &KernelSelftestsArgs, matches: &ArgMatches) -> Result<()> {
    if matches.value_source("policy") == Some(ValueSource::CommandLine) {
        check_policies(&args.policy, &args.variant)?;
    }
    let common = &args.run.common(json, false);
    if args.guest.memory_bytes.is_some() || args.guest.cpus.is_some() {
        bail!(WrongUsage("--guest: the list has memory and CPUs (kernel/selftests.toml)".into()));
    }
    let lab = Lab::open(json)?.of(&args.source);
    boot::check_tools()?;
    let kernel = lab.kernel()?;
    let list = List::read(&kernel.file("selftests.toml"))?;
    let named: Vec<String> = args.filter.iter().cloned().collect();
    let mut tests = list
        .choose(&named, args.quick, args.stress_s)
        .map_err(|error| WrongUsage(error.to_string()))?;
    let accelerator = lab.accelerator(args.guest.accelerator, || lab.image(&args.variant))?;
    let mut environment = Facts::probe(&Root::default()).environment();
    environment.accelerator = accelerator;
    let mut life = RunLife::begin(common, "kernel-test", environment)?;

    // Guests share a folder with their outputs, which are kept at the end.
    let waiting = || lab.say("another cowlab runs the selftests: waiting");
    let _lock = lab.cache.lock("selftests", waiting)?;
    let own = kernel.path().join("../tests/kernel");
    let source = lab.source()?;
    tests.retain(|test| test.is_of(&source.version));
    // Those of steps that no kernel here has would find nothing to test.
    let series = args.variant.iter().map(|variant| variant.series());
    let series = series.max_by_key(|series| series.len()).unwrap_or_default();
    let programs = lab.watched(|watch| {
        programs(&lab.cache, &kernel, &source, series, &own, &list.build, watch)
    })?;
    let mut sessions: Vec<Session> = Vec::new();
    let mut guests = Vec::new();
    for variant in &args.variant {
        let built = lab.built(*variant)?;
        guests.push(environment_of(&built, &list, &life.run.info.environments[0]));
        sessions.extend(on_variant(&lab, args, &list, &tests, &built, &programs, accelerator)?);
    }
    life.run.info.environments = guests;
    if sessions.iter().all(|session| session.results.is_empty()) {
        bail!(
            "nothing was run: none of the chosen tests applies to the chosen kernels (--variant)"
        );
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
        life.write(&format!("tests/{name}.txt"), lines(&session.results).as_bytes())?;
    }
    let wrong: String =
        problems.iter().map(|problem| format!("{}: {}\n", problem.on, problem.what)).collect();
    life.write("tests/problems.txt", wrong.as_bytes())?;
    for variant in &args.variant {
        keep_outputs(&lab, *variant, &life)?;
    }
    let left_out = list.left_out.iter().map(|left| [&*left.name, &*left.reason]).collect();
    let summary = SelftestsSummary { problems: &problems, sessions: &sessions, left_out };
    let kept =
        life.end(Ok(()), |_| Report::new(document(&list, &sessions, &problems), &summary))?;
    lab.say(&format!("the lists are in {}", kept.path.join("tests").display()));
    kept.print()?;
    if !problems.is_empty() {
        bail!("{} results are not as expected", problems.len());
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
    args: &KernelSelftestsArgs,
    list: &List,
    tests: &[&Test],
    built: &Built,
    programs: &Path,
    accelerator: Accelerator,
) -> Result<Vec<Session>> {
    let variant = built.info.variant;
    let folder = lab.cache.folder(&format!("test/selftests-{variant}"))?;
    let none: &[Policy] = &[];
    let policies = if variant.has_policies() { &args.policy } else { none };
    let cowlab = own_program(&folder)?;
    let order = Order {
        programs,
        folder: &folder,
        cowlab: &cowlab,
        upstream: variant != Variant::Plain,
        policies,
        stress_s: args.stress_s,
    };
    let batches = batches(list, tests, &order)?;
    let mut kernel_arguments = built.words();
    kernel_arguments.extend(list.guest.kernel_arguments.iter().cloned());
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
    add_plain_output(&mut all, &folder);
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
    if !policies.is_empty() && all.iter().any(|result| result.batch.is_empty()) {
        sessions.push(of_batch(""));
    }
    Ok(sessions)
}

/// The outputs and the guest's log, for whoever wants to know why.
fn keep_outputs(lab: &Lab, variant: Variant, run: &RunLife) -> Result<()> {
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

fn document(list: &List, sessions: &[Session], problems: &[Problem]) -> Document {
    let headline = match problems.len() {
        0 => "Every result is as expected.".to_owned(),
        wrong => format!("{wrong} results are NOT as expected."),
    };
    let mut blocks = vec![Block::Finding(Finding { headline, ..Finding::default() })];
    let heads = ["kernel and policy", "passed", "failed", "skipped"];
    let columns = heads.map(Column::number).into_iter().enumerate();
    let columns = columns.map(|(index, column)| Column { numeric: index > 0, ..column }).collect();
    let mut table = Table::new("sessions", "", columns);
    for session in sessions {
        let counts = [session.passed, session.failed, session.skipped];
        let mut row = vec![Cell::text(&session.on)];
        row.extend(counts.map(|count| Cell::count(count as u64)));
        table.push(row);
    }
    blocks.push(Block::Table(table));
    let mut list_of = |id: &str, caption: &str, heads: [&str; 2], rows: Vec<[String; 2]>| {
        if !rows.is_empty() {
            let mut table = Table::new(id, caption, heads.map(Column::text).into());
            rows.into_iter().for_each(|row| table.push(row.map(Cell::text).into()));
            blocks.push(Block::Table(table));
        }
    };
    let wrong = problems.iter().map(|one| [one.on.clone(), one.what.clone()]).collect();
    list_of("problems", "Not as expected", ["kernel and policy", "what"], wrong);
    let skips = list.tests.iter().flat_map(|test| test.skips.iter().map(move |skip| (test, skip)));
    let skips =
        skips.map(|(test, skip)| [format!("{}: {}", test.name, skip.text), skip.reason.clone()]);
    let caption = "Skipped, each for a reviewed reason (kernel/selftests.toml)";
    list_of("skipped", caption, ["case", "reason"], skips.collect());
    let left = list.left_out.iter().map(|one| [one.name.clone(), one.reason.clone()]).collect();
    list_of("not-run", "Not run", ["test", "reason"], left);
    let mut document = Document::new("Selftests", "");
    document.sections.push(Section::new("selftests", "Results", blocks));
    document
}
