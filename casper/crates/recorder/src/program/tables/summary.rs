// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same for programs: what `--json` prints. Times are in ns; `null` is what is not known.

use cowlab_casper::profile::{Function, Moments, Profile};
use cowlab_casper::symbol::Symbols;
use serde_json::{Value, json};

use super::words::chosen;
use super::{View, account, events};

/// Everything, whatever the tables' limit is.
pub fn summary(profile: &Profile, view: &View) -> Value {
    let ns = |ticks: f64| profile.clock.span_ns(ticks);
    let functions: Vec<Value> =
        chosen(profile, view).into_iter().map(|(_, f)| function(profile, f)).collect();
    let mut symbols = Symbols::default();
    let name = |index: usize| profile.functions.list[index].name.as_str();
    let edges = profile.functions.edges.iter().map(|edge| {
        json!({
            "caller": edge.caller.map(name),
            "function": name(edge.callee),
            "call_site": edge.place(&profile.metadata, &mut symbols),
            "calls": edge.calls,
            "total_ns": ns(edge.ticks()),
        })
    });
    let edges: Vec<Value> = edges.collect();
    let types = events::rows(profile, view.group).into_iter().map(|row| {
        json!({
            "process": row.process.map(|(process, _)| process),
            "pid": row.process.map(|(_, pid)| pid),
            "tid": row.tid,
            "type": row.event_type,
            "name": row.name,
            "events": row.count,
            "bytes": row.bytes,
            "first_s": profile.clock.seconds(row.first),
            "last_s": profile.clock.seconds(row.last),
        })
    });
    let types: Vec<Value> = types.collect();
    let pairs = profile.pairs.iter().map(|of| {
        json!({
            "name": of.pair.name, "from": of.pair.from, "to": of.pair.to,
            "without_end": of.without_end, "times": moments(profile, &of.times),
        })
    });
    let pairs: Vec<Value> = pairs.collect();
    let field = profile.field.as_ref().map(|field| {
        let values = field.values.iter().map(|v| json!({"value": v.text, "events": v.count}));
        json!({
            "type": field.event, "field": field.field, "unit": field.unit,
            "values": values.collect::<Vec<_>>(),
            "others": field.others, "without": field.without,
            "min": (field.numbers.count > 0).then_some(field.numbers.min),
            "p50": field.numbers.quantile(0.5), "p99": field.numbers.quantile(0.99),
            "max": (field.numbers.count > 0).then_some(field.numbers.max),
            "mean": field.numbers.mean(),
        })
    });
    let damage = &profile.damage;
    let overhead = &profile.functions.overhead;
    json!({
        "missing": {
            "sentences": account::lines(profile),
            "finished": damage.finished,
            "read_events": damage.read_events,
            "missing_events": damage.missing_events,
            "dropped_events": damage.lost.dropped,
            "overwritten_events": damage.lost.overwritten,
            "no_buffer_events": damage.lost.no_buffer,
            "disk_lost_events": damage.lost.disk,
            "lost_meta": damage.lost.meta,
            "skipped_bytes": damage.skipped_bytes,
            "first_skipped_offset": damage.first_skipped,
            "cut_bytes": damage.cut_bytes,
            "missing_chunks": damage.missing_chunks,
        },
        "overhead_subtracted": {
            "insert": overhead.calls_known,
            "finstrument_functions": overhead.addresses_known,
        },
        "functions": functions,
        "calls": edges,
        "types": types,
        "pairs": pairs,
        "field": field,
    })
}

fn function(profile: &Profile, function: &Function) -> Value {
    let ns = |ticks: f64| profile.clock.span_ns(ticks);
    json!({
        "name": function.name, "file": function.file, "line": function.line,
        "module": function.module,
        "calls": function.calls, "recursive": function.recursive,
        "returned": function.times.count,
        "total_ns": ns(function.total_ticks()),
        "total_raw_ns": ns(function.raw_ticks as f64),
        "self_ns": ns(function.own_ticks()),
        "self_raw_ns": ns(function.own_raw_ticks as f64),
        "inclusive_ns": ns(function.inclusive_ticks()),
        "inclusive_raw_ns": ns(function.inclusive_raw_ticks as f64),
        "mean_ns": function.mean_ticks().map(ns),
        "mean_raw_ns": function.raw_mean_ticks().map(ns),
        "times": moments(profile, &function.times),
        "left_by_longjmp": function.left_by_longjmp,
        "still_open": function.still_open,
        "cut_by_loss": function.cut_by_loss,
        "exits_without_enter": function.exits_without_enter,
    })
}

fn moments(profile: &Profile, moments: &Moments) -> Value {
    let ns = |ticks: f64| profile.clock.span_ns(ticks);
    let some = |ticks: u64| (moments.count > 0).then(|| ns(ticks as f64));
    let quantile = |share| moments.quantile(share).map(|ticks| ns(ticks as f64));
    json!({
        "count": moments.count,
        "mean_ns": moments.mean().map(ns),
        "variance_ns2": moments.variance().map(|variance| variance * ns(1.0) * ns(1.0)),
        "min_ns": some(moments.min), "p50_ns": quantile(0.5), "p99_ns": quantile(0.99),
        "max_ns": some(moments.max),
    })
}
