// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From timed batches to samples.

use crate::probes::{Program, Runner, TraceResult, TraceRun};
use anyhow::{Context, Result};
use cowlab_schema::{Metric, trace};
use cowlab_store::{Params, histogram_of, serialise};

use super::{BENCH, Tool};
use crate::task::{Recorder, Round, median_of};

/// The parameters of a cell. `variant` tells apart what one tool can do in several ways.
pub(super) fn params(tool: Tool, variant: &str, run: &TraceRun, version: Option<&str>) -> Params {
    let mut params = Params::new();
    trace::TOOL.put(&mut params, tool);
    trace::VARIANT.put(&mut params, variant);
    trace::THREADS.put(&mut params, run.threads);
    trace::PINNED.put(&mut params, run.pinned);
    if let Some(version) = version {
        trace::VERSION.put(&mut params, version);
    }
    params
}

/// A figure, and the distribution of the batches behind it.
pub(super) type Timed = (Metric, Metric);

/// An event; the same while nobody records.
pub(super) const EVENT: Timed = (trace::EVENT_NS, trace::EVENT_BATCH_NS);
pub(super) const EVENT_OFF: Timed = (trace::EVENT_OFF_NS, trace::EVENT_OFF_BATCH_NS);

/// What a call costs, and of that the traced and the plain one.
pub(super) type Call = (Metric, Timed, Timed);

/// A leaf's and a nested call.
pub(super) const CALLS: [Call; 2] = [
    (
        trace::CALL_LEAF_NS,
        (trace::CALL_LEAF_RAW_NS, trace::CALL_LEAF_RAW_BATCH_NS),
        (trace::CALL_LEAF_PLAIN_NS, trace::CALL_LEAF_PLAIN_BATCH_NS),
    ),
    (
        trace::CALL_NESTED_NS,
        (trace::CALL_NESTED_RAW_NS, trace::CALL_NESTED_RAW_BATCH_NS),
        (trace::CALL_NESTED_PLAIN_NS, trace::CALL_NESTED_PLAIN_BATCH_NS),
    ),
];

/// The same while nobody records.
pub(super) const CALLS_OFF: [Call; 2] = [
    (
        trace::CALL_LEAF_OFF_NS,
        (trace::CALL_LEAF_OFF_RAW_NS, trace::CALL_LEAF_OFF_RAW_BATCH_NS),
        (trace::CALL_LEAF_OFF_PLAIN_NS, trace::CALL_LEAF_OFF_PLAIN_BATCH_NS),
    ),
    (
        trace::CALL_NESTED_OFF_NS,
        (trace::CALL_NESTED_OFF_RAW_NS, trace::CALL_NESTED_OFF_RAW_BATCH_NS),
        (trace::CALL_NESTED_OFF_PLAIN_NS, trace::CALL_NESTED_OFF_PLAIN_BATCH_NS),
    ),
];

/// ns an event: the median batch of each thread, and of those the slowest thread's.
pub(super) fn event_ns(result: &TraceResult) -> Result<f64> {
    let medians = result.batch_ns.iter().filter_map(|batches| median_of(batches));
    let slowest = medians.reduce(f64::max).context("no batch was timed")?;
    Ok(slowest / result.batch_events as f64)
}

/// Add a figure with the distribution of the batches behind it.
pub(super) fn add(out: &mut Recorder, (metric, batch): Timed, result: &TraceResult) -> Result<f64> {
    let ns = event_ns(result)?;
    out.add(metric, ns);
    let batches = histogram_of(result.batch_ns.iter().flatten().copied());
    let sample = out.add(batch, batches.value_at_quantile(0.5) as f64);
    trace::BATCH_EVENTS.put(&mut sample.params, result.batch_events);
    sample.histogram = Some(serialise(&batches));
    Ok(ns)
}

/// The samples of events alone.
pub(super) fn of_events(
    round: &mut Round,
    metric: Timed,
    params: Params,
    result: &TraceResult,
) -> Result<()> {
    let mut out = round.record(BENCH, params, result.start_unix_ns);
    add(&mut out, metric, result).map(drop)
}

/// Leaf and nested calls by `traced`, each beside the same calls in a program that nobody traces.
/// Which of the two comes first alternates.
pub(super) fn of_calls(
    round: &mut Round,
    calls: [Call; 2],
    params: &Params,
    run: &TraceRun,
    runner: &Runner,
    traced: impl Fn(&TraceRun) -> Result<TraceResult>,
) -> Result<()> {
    for ((metric, of_traced, of_plain), nested) in calls.into_iter().zip([false, true]) {
        let run = TraceRun { nested, ..run.clone() };
        let plain = || TraceRun { pause_ms: 0, ..run.clone() }.run(runner, Program::TraceCalls);
        let (plain, traced) = if round.number.is_multiple_of(2) {
            let plain = plain()?;
            (plain, traced(&run)?)
        } else {
            let traced = traced(&run)?;
            (plain()?, traced)
        };
        let mut out = round.record(BENCH, params.clone(), traced.start_unix_ns);
        let with = add(&mut out, of_traced, &traced)?;
        let without = add(&mut out, of_plain, &plain)?;
        out.add(metric, with - without);
    }
    Ok(())
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
        let mut round = Round::new(3);
        of_events(&mut round, EVENT, Params::new(), &result).unwrap();
        let samples = round.finish();
        let metrics: Vec<_> = samples.iter().map(|s| (s.metric.as_str(), s.value)).collect();
        assert_eq!(metrics[0], ("event_ns", 13.0));
        assert_eq!(metrics[1].0, "event_batch_ns");
        assert!(samples[1].histogram.is_some() && samples[1].unit == "ns");
    }
}
