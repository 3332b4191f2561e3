// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cover letter: a series' `COVER`, with a run's figures in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use cowlab_model::stats::{Estimate, estimate};
use cowlab_schema::Policy;
use cowlab_store::{Accelerator, Environment, Run};

/// The line of COVER in whose place the figures are put.
const PLACE: &str = "@FIGURES@";

/// The parameter whose values are compared.
const POLICY: &str = "policy";

/// What is quoted: the rest is in the run.
const QUOTED: [&str; 4] = ["elapsed_ns", "fault_ns", "cow_faults", "minor_faults"];

/// A cover letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cover {
    /// Its subject.
    pub subject: String,
    /// Its text.
    pub body: String,
}

/// Read the letter at `path`, and put the figures of `run` into it.
pub fn read(path: &Path, run: Option<(&Path, &Run)>) -> Result<Cover> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    compose(&text, run).with_context(|| path.display().to_string())
}

fn compose(text: &str, run: Option<(&Path, &Run)>) -> Result<Cover> {
    let (subject, body) = text.split_once('\n').context("has no line after its subject")?;
    if subject.trim().is_empty() || body.trim().is_empty() {
        bail!("needs a subject, an empty line and a text");
    }
    let figures = match run {
        Some((folder, run)) => figures(folder, run)
            .with_context(|| format!("{} has nothing for a cover letter", folder.display()))?,
        None if body.contains(PLACE) => bail!("has {PLACE}: name the run with --run"),
        None => String::new(),
    };
    let body = match body.contains(PLACE) {
        true => body.replace(PLACE, figures.trim_end()),
        false => format!("{}\n\n{figures}", body.trim_end()),
    };
    Ok(Cover { subject: subject.trim().to_owned(), body: body.trim().to_owned() + "\n" })
}

/// One workload: what was measured except for the policy, and where.
type Workload = (u32, String, Vec<(String, String)>);

/// Its values: by policy, by metric.
type Values = BTreeMap<Named, BTreeMap<String, Vec<f64>>>;

/// A policy by its place among the others, and as it is called.
type Named = (Option<Policy>, String);

/// A table for each workload that was measured under several policies: their medians with
/// intervals, a row a policy, narrow enough for a mail.
fn figures(folder: &Path, run: &Run) -> Result<String> {
    let mut workloads: BTreeMap<Workload, Values> = BTreeMap::new();
    for sample in run.samples.iter().filter(|sample| QUOTED.contains(&sample.metric.as_str())) {
        let Some(policy) = sample.params.get(POLICY) else { continue };
        if sample.params.contains_key("quantile") {
            continue;
        }
        let others = sample.params.iter().filter(|(name, _)| *name != POLICY);
        let others = others.map(|(name, value)| (name.clone(), value.clone())).collect();
        let workload = (sample.environment, sample.bench.clone(), others);
        let named = (policy.parse().ok(), policy.clone());
        let metrics = workloads.entry(workload).or_default().entry(named).or_default();
        metrics.entry(sample.metric.clone()).or_default().push(sample.value);
    }
    // Nothing is compared where there is one: the plain kernel's, and the host's.
    workloads.retain(|_, values| values.len() > 1);
    if workloads.is_empty() {
        bail!("no workload has several of the parameter {POLICY} and {}", QUOTED.join(", "));
    }
    // Not the run's first environment: a study's is the host, whatever was measured in guests.
    let mut told = BTreeSet::new();
    for (index, ..) in workloads.keys() {
        let environment = run
            .info
            .environments
            .get(*index as usize)
            .with_context(|| format!("it names no environment {index}"))?;
        told.insert(place(environment));
    }
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
    let mut text = format!("Medians with 95% intervals, by policy, of the run {name}:\n");
    for place in told {
        let _ = writeln!(text, "{place}");
    }
    let varying = varying(workloads.keys());
    for ((_, bench, params), values) in &workloads {
        let params = params.iter().filter(|(name, _)| varying.contains(name.as_str()));
        let params: Vec<String> = params.map(|(name, value)| format!(" {name}={value}")).collect();
        let _ = writeln!(text, "\n{bench}{}:", params.join(""));
        text += &aligned(&table(values));
    }
    Ok(text)
}

/// A header, and a line a policy.
fn table(values: &Values) -> Vec<Vec<String>> {
    let has = |metric: &str| values.values().any(|metrics| metrics.contains_key(metric));
    // The kernel's own count, and the process's only where there is no other.
    let is_told = |metric: &str| has(metric) && (metric != "minor_faults" || !has("cow_faults"));
    let metrics: Vec<&str> = QUOTED.into_iter().filter(|metric| is_told(metric)).collect();
    let mut header = vec![String::new()];
    header.extend(metrics.iter().map(|metric| (*metric).to_owned()));
    let mut lines = vec![header];
    for ((_, policy), found) in values {
        let mut line = vec![policy.clone()];
        line.extend(metrics.iter().map(|metric| {
            let estimate = found.get(*metric).and_then(|values| estimate(values));
            estimate.map_or("-".to_owned(), cell)
        }));
        lines.push(line);
    }
    lines
}

/// Where figures were measured: by what, and on which kernel.
fn place(environment: &Environment) -> String {
    let how = match environment.accelerator {
        Accelerator::Native => "on hardware",
        Accelerator::Kvm => "under KVM",
        Accelerator::Tcg => "EMULATED (QEMU's TCG: times are not hardware's, counts are exact)",
        Accelerator::Icount => "EMULATED (QEMU's icount: instructions, no times)",
    };
    let hash = environment.build.as_ref().and_then(|build| build.hash.as_deref());
    let hash = hash.map_or(String::new(), |hash| format!(" (build {hash})"));
    format!("{how}, Linux {}{hash}", environment.kernel)
}

/// The parameters that are not the same in all workloads: the others say nothing.
fn varying<'a>(workloads: impl Iterator<Item = &'a Workload>) -> BTreeSet<&'a str> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (_, _, params) in workloads {
        for (name, value) in params {
            values.entry(name).or_default().insert(value);
        }
    }
    values.into_iter().filter(|(_, values)| values.len() > 1).map(|(name, _)| name).collect()
}

fn cell(estimate: Estimate) -> String {
    let Estimate { value, low, high, .. } = estimate;
    match low == high {
        true => short(value),
        false => format!("{} [{}, {}]", short(value), short(low), short(high)),
    }
}

/// Counts as they are, times in a unit that has few digits.
fn short(value: f64) -> String {
    match value {
        v if v.abs() >= 1e8 => format!("{:.0}M", v / 1e6),
        v if v.abs() >= 1e6 => format!("{:.2}M", v / 1e6),
        v => format!("{v:.0}"),
    }
}

fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(String::len).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
            if at == 0 { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        let cells: Vec<String> = cells.collect();
        // A String takes whatever is written to it.
        let _ = writeln!(text, "  {}", cells.join("  ").trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use cowlab_schema::cow_faults::{self, CowFaults};
    use cowlab_schema::{Cell as _, Pattern};
    use cowlab_store::Sample;

    use super::*;

    fn run_with(policies: &[&str]) -> Run {
        let environment = cowlab_store::Environment {
            accelerator: Accelerator::Tcg,
            ..serde_json::from_str(
                r#"{"host":"h","architecture":"x86_64","cpus":2,"kernel":"6.12.1-cowlab-patched",
                "page_size_bytes":4096,"mthp":{},"mitigations":{},"accelerator":"tcg"}"#,
            )
            .unwrap()
        };
        let mut samples = Vec::new();
        for (at, policy) in policies.iter().enumerate() {
            for (rep, pattern) in
                [(0, Pattern::Random), (1, Pattern::Random), (0, Pattern::Sequential)]
            {
                let cell =
                    CowFaults { policy: policy.parse().unwrap(), pattern, ..CowFaults::default() };
                let value = 1e6 * (at as f64 + 1.0) + f64::from(rep);
                let sample = Sample::of(cow_faults::ELAPSED_NS, cell.params(), value);
                samples.push(Sample { rep, ..sample });
            }
        }
        Run { info: cowlab_store::RunInfo::begin("x", 1, environment), samples }
    }

    #[test]
    fn figures_stand_where_the_letter_wants_them() {
        let run = run_with(&["next:16", "off", "next"]);
        let text = "mm: copy ahead\n\nWhy.\n\n@FIGURES@\n\nThe end.\n";
        let cover = compose(text, Some((Path::new("r"), &run))).unwrap();
        assert_eq!(cover.subject, "mm: copy ahead");
        let lines: Vec<&str> = cover.body.lines().collect();
        assert!(lines[2].ends_with("of the run r:"), "{}", lines[2]);
        assert!(lines[3].contains("EMULATED") && lines[3].ends_with("6.12.1-cowlab-patched"));
        let words =
            |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        assert_eq!((lines[4], lines[5]), ("", "cow-faults pattern=random:"));
        assert_eq!(lines[11], "cow-faults pattern=sequential:");
        assert_eq!(words(lines[12]), ["elapsed_ns"]);
        assert_eq!(words(lines[13]), ["off", "2.00M"]);
        assert_eq!(words(lines[14]), ["next", "3.00M"]);
        assert_eq!(words(lines[15]), ["next:16", "1.00M"]);
        assert_eq!(lines.last(), Some(&"The end."));
    }

    #[test]
    fn figures_are_said_to_be_of_where_they_were_measured() {
        let mut run = run_with(&["off", "next"]);
        let guest = run.info.environments[0].clone();
        let hash = "0123456789abcdef".to_owned();
        let build = cowlab_store::KernelBuild {
            variant: "patched".to_owned(),
            hash: Some(hash),
            source: None,
        };
        let built = Environment { build: Some(build), ..guest };
        // As in a study with --kernel: the host is the first.
        let host = Environment {
            accelerator: Accelerator::Native,
            kernel: "6.1-host".to_owned(),
            build: None,
            ..built.clone()
        };
        run.info.environments = vec![host, built];
        run.samples.iter_mut().for_each(|sample| sample.environment = 1);
        let text = figures(Path::new("runs/r"), &run).unwrap();
        assert!(text.contains("TCG") && text.contains("(build 0123456789abcdef)"), "{text}");
        assert!(!text.contains("hardware, ") && !text.contains("6.1-host"), "{text}");
        let at_random = |sample: &&mut Sample| sample.params["pattern"] == "random";
        run.samples.iter_mut().filter(at_random).for_each(|sample| sample.environment = 0);
        let mixed = figures(Path::new("runs/r"), &run).unwrap();
        assert!(mixed.contains("TCG") && mixed.contains("on hardware, Linux 6.1-host"), "{mixed}");
        run.samples.iter_mut().for_each(|sample| sample.environment = 2);
        let error = figures(Path::new("runs/r"), &run).unwrap_err().to_string();
        assert_eq!(error, "it names no environment 2");
    }

    #[test]
    fn what_is_missing_is_said() {
        let none = run_with(&[]);
        let refused = |text, run| format!("{:#}", compose(text, run).unwrap_err());
        assert!(refused("a\n\n@FIGURES@\n", None).contains("--run"));
        assert!(refused("a\n", None).contains("subject"));
        let error = refused("a\n\nb\n", Some((Path::new("r"), &none)));
        assert!(error.contains("no workload has several of the parameter policy"), "{error}");
    }
}
