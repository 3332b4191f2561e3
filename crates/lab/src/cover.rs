// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cover letter: `kernel/series/COVER`, with a run's figures in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use cowlab_model::stats::{Estimate, estimate};
use cowlab_store::{Accelerator, Environment, Run, Sample};

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

/// One row of the table: what was measured but for the policy.
type Row = (String, Vec<(String, String)>, String);

/// A table of medians with their intervals, a column a policy.
fn figures(folder: &Path, run: &Run) -> Result<String> {
    let mut rows: BTreeMap<Row, BTreeMap<String, Vec<&Sample>>> = BTreeMap::new();
    let mut policies = BTreeSet::new();
    let mut measured_in = BTreeSet::new();
    for sample in run.samples.iter().filter(|sample| QUOTED.contains(&sample.metric.as_str())) {
        let Some(policy) = sample.params.get(POLICY) else { continue };
        if sample.params.contains_key("quantile") {
            continue;
        }
        policies.insert(order(policy));
        measured_in.insert(sample.environment);
        let others = sample
            .params
            .iter()
            .filter(|(name, _)| *name != POLICY)
            .map(|(n, v)| (n.clone(), v.clone()));
        let row = (sample.bench.clone(), others.collect(), sample.metric.clone());
        rows.entry(row).or_default().entry(policy.clone()).or_default().push(sample);
    }
    if rows.is_empty() {
        bail!("no sample has the parameter {POLICY} and a metric of {}", QUOTED.join(", "));
    }
    let varying = varying(rows.keys());
    let mut lines = vec![];
    let mut header = vec![String::new()];
    header.extend(policies.iter().map(|(_, policy)| policy.clone()));
    lines.push(header);
    for ((bench, params, metric), cells) in &rows {
        let told = params.iter().filter(|(name, _)| varying.contains(name.as_str()));
        let told: Vec<&str> = told.map(|(_, value)| value.as_str()).collect();
        let mut line = vec![format!("{bench} {} {metric}", told.join(" "))];
        let of = |policy: &str| {
            let values: Vec<f64> = cells.get(policy)?.iter().map(|sample| sample.value).collect();
            estimate(&values)
        };
        line.extend(policies.iter().map(|(_, policy)| of(policy).map_or("-".to_owned(), cell)));
        lines.push(line);
    }
    // Not the run's first environment: a study's is the host, whatever was measured in guests.
    let mut told = BTreeSet::new();
    for index in measured_in {
        let environment = run
            .info
            .environments
            .get(index as usize)
            .with_context(|| format!("it names no environment {index}"))?;
        told.insert(place(environment));
    }
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
    let mut text = format!("Medians with 95% intervals, by policy, of the run {name}:\n");
    for place in told {
        let _ = writeln!(text, "{place}");
    }
    text.push('\n');
    text += &aligned(&lines);
    Ok(text)
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

/// `off` first, then by name and depth.
fn order(policy: &str) -> ((bool, String, u64), String) {
    let (name, depth) = policy.split_once(':').unwrap_or((policy, "1"));
    ((name != "off", name.to_owned(), depth.parse().unwrap_or(u64::MAX)), policy.to_owned())
}

/// The parameters that are not the same in all rows: the others say nothing.
fn varying<'a>(rows: impl Iterator<Item = &'a Row>) -> BTreeSet<&'a str> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (_, params, _) in rows {
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
            for (rep, pattern) in [(0, "random"), (1, "random"), (0, "sequential")] {
                samples.push(Sample {
                    rep,
                    ..Sample::new(
                        "cow-faults",
                        [("policy", *policy), ("pattern", pattern), ("children", "1")]
                            .map(|(name, value)| (name.to_owned(), value.to_owned()))
                            .into(),
                        "elapsed_ns",
                        1e6 * (at as f64 + 1.0) + f64::from(rep),
                    )
                });
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
        assert_eq!(words(lines[5]), ["off", "next", "next:16"]);
        assert_eq!(
            words(lines[7]),
            ["cow-faults", "sequential", "elapsed_ns", "2.00M", "3.00M", "1.00M"]
        );
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
        run.samples[0].environment = 0;
        let mixed = figures(Path::new("runs/r"), &run).unwrap();
        assert!(mixed.contains("TCG") && mixed.contains("on hardware, Linux 6.1-host"), "{mixed}");
        run.samples[0].environment = 2;
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
        assert!(error.contains("no sample has the parameter policy"), "{error}");
    }
}
