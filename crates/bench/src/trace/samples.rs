// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From timed batches to samples.

use anyhow::{Context, Result};
use cowlab_probes::{Program, Runner, TraceResult, TraceRun};
use cowlab_store::{Params, Sample, histogram_of, serialise};

use super::{BENCH, Tool};
use crate::task::{Recorder, median_of};

/// The parameters of a cell. `variant` tells apart what one tool can do in several ways.
pub(super) fn params(tool: Tool, variant: &str, run: &TraceRun, version: Option<&str>) -> Params {
    let mut params: Params = [
        ("tool", tool.to_string()),
        ("variant", variant.to_owned()),
        ("threads", run.threads.to_string()),
        ("pinned", run.pinned.to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    if let Some(version) = version {
        params.insert("version".to_owned(), version.to_owned());
    }
    params
}

/// ns an event: the median batch of each thread, and of those the slowest thread's.
pub(super) fn event_ns(result: &TraceResult) -> Result<f64> {
    let medians = result.batch_ns.iter().filter_map(|batches| median_of(batches));
    let slowest = medians.reduce(f64::max).context("no batch was timed")?;
    Ok(slowest / result.batch_events as f64)
}

/// Add `metric`, with the distribution of the batches behind it as `batch_ns`.
pub(super) fn add(out: &mut Recorder, metric: &str, result: &TraceResult) -> Result<f64> {
    let ns = event_ns(result)?;
    out.add(metric, ns);
    let batches = histogram_of(result.batch_ns.iter().flatten().copied());
    let name = metric.strip_suffix("_ns").unwrap_or(metric);
    let sample = out.add(&format!("{name}_batch_ns"), batches.value_at_quantile(0.5) as f64);
    sample.params.insert("batch_events".to_owned(), result.batch_events.to_string());
    sample.histogram = Some(serialise(&batches));
    Ok(ns)
}

/// The samples of events alone.
pub(super) fn of_events(
    metric: &str,
    params: Params,
    result: &TraceResult,
    rep: u32,
) -> Result<Vec<Sample>> {
    let mut out = Recorder::new(BENCH, params, rep, result.start_unix_ns);
    add(&mut out, metric, result)?;
    Ok(out.finish())
}

/// Leaf and nested calls by `traced`, each beside the same calls in a program that nobody traces.
/// Which of the two comes first alternates. `metric` is given `leaf` or `nested` for its `KIND`.
pub(super) fn of_calls(
    metric: &str,
    params: &Params,
    run: &TraceRun,
    runner: &Runner,
    rep: u32,
    traced: impl Fn(&TraceRun) -> Result<TraceResult>,
) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    for (kind, nested) in [("leaf", false), ("nested", true)] {
        let run = TraceRun { nested, ..run.clone() };
        let plain = || TraceRun { pause_ms: 0, ..run.clone() }.run(runner, Program::TraceCalls);
        let (plain, traced) = if rep.is_multiple_of(2) {
            let plain = plain()?;
            (plain, traced(&run)?)
        } else {
            let traced = traced(&run)?;
            (plain()?, traced)
        };
        let metric = metric.replace("KIND", kind);
        let stem = metric.strip_suffix("_ns").unwrap_or(&metric);
        let mut out = Recorder::new(BENCH, params.clone(), rep, traced.start_unix_ns);
        let with = add(&mut out, &format!("{stem}_raw_ns"), &traced)?;
        let without = add(&mut out, &format!("{stem}_plain_ns"), &plain)?;
        out.add(&metric, with - without);
        samples.extend(out.finish());
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_threads_median_counts() {
        let result = TraceResult {
            start_unix_ns: 0,
            batch_events: 10,
            batch_ns: vec![vec![100, 110, 900], vec![120, 130, 140]],
            made_events: vec![30, 30],
            recorded: None,
        };
        assert_eq!(event_ns(&result).unwrap(), 13.0);
        let samples = of_events("event_ns", Params::new(), &result, 3).unwrap();
        let metrics: Vec<_> = samples.iter().map(|s| (s.metric.as_str(), s.value)).collect();
        assert_eq!(metrics[0], ("event_ns", 13.0));
        assert_eq!(metrics[1].0, "event_batch_ns");
        assert!(samples[1].histogram.is_some() && samples[1].unit == "ns");
    }
}
