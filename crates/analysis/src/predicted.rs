// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What policies would do for a workload of `snapshot`, from what it does under plain copy-on-write
//! and from what batches of copies cost (`pre-copy`).

use std::collections::BTreeMap;

use cowlab_model::snapshot::{Ahead, Batch, Costs, Course, Store, fault_ns, run};
use cowlab_model::stats::median;
use cowlab_schema::snapshot::{
    BENCH, BLOCK_BYTES, ELAPSED_NS, FORK_NS, FORKS, Forked, INTERVAL_NS_FOUND, PAGE_SIZE_BYTES,
    PHASE_PERCENT, PLACEMENT, POLICY, QUANTILE, SIZE_BYTES, THROUGHPUT_PER_S, UNMEASURED_FORKS,
    WRITES_MADE, ZIPF_ALPHA,
};
use cowlab_schema::{
    Command, Field, Key, Metric, Pattern, Placement, Policy, Quantile, VARIANT, Value, cow_faults,
};
use cowlab_store::{Params, Sample};

use crate::compared::change;
use crate::samples::Samples;

/// Parameters that tell configurations of one workload, or parts of one figure.
const NOT_THE_WORKLOADS: [&dyn Field; 4] = [&POLICY, &FORKS, &QUANTILE, &PHASE_PERCENT];

/// vm.cow_waste_pct's default, which `ccow` has.
const WASTE_PERCENT: usize = 10;

/// One workload under one policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Foretold {
    /// Of the run's environments the one that has measured the workload.
    pub environment: u32,
    /// The workload's parameters, and its kernel's name (`variant`) where guests were booted.
    pub workload: Params,
    /// The policy.
    pub policy: Policy,
    /// The simulation.
    pub course: Course,
    /// Throughput beyond that of plain copy-on-write, in percent of it.
    pub gain_percent: f64,
    /// The same where the run has this policy: median over its rounds.
    pub measured_gain_percent: Option<f64>,
}

/// Each workload of `samples` under each of `policies`, and under those that it was measured with.
/// An error says what the samples lack.
pub fn foretell(
    samples: &[Sample],
    sweep: &[Sample],
    policies: &[Policy],
) -> Result<Vec<Foretold>, String> {
    let kernels = batches_by_kernel(&Samples::all(sweep))?;
    // Kernels are kept apart: the rounds of one stand beside its own plain copy-on-write.
    let all = Samples::of(samples, BENCH).by_environment();
    if all.is_empty() {
        return Err("it has no samples of `bench snapshot`".to_owned());
    }
    // Batches of huge pages cost something else.
    let pages = Samples::all(sweep).numbers(PAGE_SIZE_BYTES);
    let is_foretold = |params: &Params| {
        let own = PAGE_SIZE_BYTES.of(params);
        pages.is_empty() || own.is_none_or(|own| pages.contains(&own))
    };
    let mut found = Vec::new();
    for (environment, samples) in all {
        for (params, samples) in samples.by_params(&NOT_THE_WORKLOADS) {
            if is_foretold(&params) {
                let batches = batches_of(&kernels, params.get(VARIANT.name()).map(String::as_str))?;
                found.extend(of_workload(environment, &params, &samples, batches, policies)?);
            }
        }
    }
    Ok(found)
}

fn of_workload(
    environment: u32,
    params: &Params,
    samples: &Samples,
    batches: &[Batch],
    policies: &[Policy],
) -> Result<Vec<Foretold>, String> {
    let lacks = |what: &str| format!("it has no {what} of the workload {params:?}");
    let whole = samples.without(QUANTILE).and(samples.with(QUANTILE, Quantile::P50));
    let forking = whole.with(FORKS, Forked::Yes);
    let middle = |of: &Samples, metric: Metric| {
        median(&of.by_round(metric).into_values().collect::<Vec<_>>())
    };
    // Where no policy was set the kernel's own is plain copy-on-write.
    let off = [Policy::Off, Policy::Stock].map(|policy| forking.with(POLICY, policy));
    let off = off.into_iter().find(|own| !own.is_empty()).unwrap_or_default();
    let plain = |metric: Metric| middle(&off, metric).ok_or_else(|| lacks(metric.name));
    fn number<T: Value>(params: &Params, key: Key<T>) -> Result<f64, String> {
        let number = key.of(params).and_then(Value::number);
        number.ok_or_else(|| format!("it has no {} of the workload {params:?}", key.name()))
    }
    let page_bytes = number(params, PAGE_SIZE_BYTES)?;
    let writes = plain(WRITES_MADE)?;
    let never_ns = middle(&whole.with(FORKS, Forked::No), ELAPSED_NS);
    let never_ns = never_ns.ok_or_else(|| lacks("writes without forks"))?;
    let store = Store {
        pages: (number(params, SIZE_BYTES)? / page_bytes) as usize,
        blocks_per_page: (page_bytes / number(params, BLOCK_BYTES)?).max(1.0) as usize,
        zipf_alpha: number(params, ZIPF_ALPHA)?,
        scattered: PLACEMENT.of(params) != Some(Placement::Ranked),
        writes: writes as u64,
        interval_ns: Some(plain(INTERVAL_NS_FOUND)?),
        steady: plain(UNMEASURED_FORKS).is_ok(),
        seed: 1,
    };
    let costs = Costs::new(never_ns / writes, plain(FORK_NS)?, batches.to_vec())
        .ok_or_else(|| "the sweep has no plain copy-on-write".to_owned())?;
    let costs = match fault_ns(&store, &costs, plain(ELAPSED_NS)?) {
        Some(ns) => costs.with_fault_ns(ns),
        // No slower than without forks: as the sweep says.
        None => costs,
    };
    let base = run(&store, Ahead::Nothing, &costs);
    let mut wanted = policies.to_vec();
    for policy in samples.each(POLICY) {
        if !matches!(policy, Policy::Stock | Policy::Off | Policy::Defer)
            && !wanted.contains(&policy)
        {
            wanted.push(policy);
        }
    }
    let foretold = wanted.into_iter().map(|policy| {
        let course = run(&store, ahead(policy, page_bytes), &costs);
        let gain = change(&off, &forking.with(POLICY, policy), THROUGHPUT_PER_S);
        Foretold {
            environment,
            workload: params.clone(),
            policy,
            course,
            gain_percent: (base.elapsed_ns / course.elapsed_ns - 1.0) * 100.0,
            measured_gain_percent: gain.map(|gain| gain.value * 100.0),
        }
    });
    Ok(foretold.collect())
}

/// Folios are copied as the same pages: what they save is not in the model, and what fork saves is
/// not, either.
fn ahead(policy: Policy, page_bytes: f64) -> Ahead {
    match policy {
        Policy::Stock | Policy::Off | Policy::Defer => Ahead::Nothing,
        Policy::Next(depth) | Policy::NextFolios(depth, _) => Ahead::Next(depth as usize),
        Policy::CoverageOf(threshold, _, region_kb) => Ahead::Region {
            pages: (f64::from(region_kb) * 1024.0 / page_bytes).max(1.0) as usize,
            threshold_percent: threshold as usize,
        },
        Policy::Coverage => Ahead::Again { waste_percent: WASTE_PERCENT },
    }
}

/// What batches cost on a kernel, by the name of its variant; `None` where no guest was booted.
type OfKernel<'a> = (Option<&'a str>, Vec<Batch>);

/// The costs on each kernel of a sweep that has them.
fn batches_by_kernel<'a>(sweep: &Samples<'a>) -> Result<Vec<OfKernel<'a>>, String> {
    let mut found: Vec<OfKernel> = Vec::new();
    for (_, own) in sweep.by_environment() {
        let named = own.by(VARIANT).into_iter().map(|(variant, of)| (Some(variant), of));
        for (variant, of) in named.chain([(None, own.without(VARIANT))]) {
            found.extend(batches(&of).map(|batches| (variant, batches)));
        }
    }
    if found.is_empty() {
        return Err(format!(
            "it has no sequential writes of 32 MiB or more under `off` and under depths (`next:16`): \
             run `{}`",
            Command::StudyNextPage
        ));
    }
    Ok(found)
}

/// Those of a workload's kernel; those of another where the sweep has no choice.
fn batches_of<'a>(kernels: &'a [OfKernel], variant: Option<&str>) -> Result<&'a [Batch], String> {
    let mut own = kernels.iter().filter(|(name, _)| *name == variant);
    match (own.next(), own.next(), kernels) {
        (Some((_, batches)), None, _) | (None, _, [(_, batches)]) => Ok(batches),
        _ => Err(format!(
            "the sweep has several kernels, but not the workload's ({}): measure it with \
             one `--variant`",
            variant.unwrap_or("no guest")
        )),
    }
}

/// Faults by the pages that they copy: sequential writes under each depth, in which each batch is
/// whole. `None` without plain copy-on-write or without depths.
fn batches(sweep: &Samples) -> Option<Vec<Batch>> {
    let writes = sweep.of_bench(cow_faults::BENCH);
    let writes = writes.with(cow_faults::PATTERN, Pattern::Sequential).with(cow_faults::THREADS, 0);
    // The larger of the sizes, where there are two: it has every depth.
    let sizes = writes.numbers(cow_faults::SIZE_BYTES).into_iter();
    let large = sizes.filter(|bytes| *bytes >= 32 << 20);
    let large = large.fold(Samples::default(), |found, bytes| {
        found.and(writes.with(cow_faults::SIZE_BYTES, bytes))
    });
    let mut by_depth = BTreeMap::new();
    for policy in large.each(POLICY) {
        let depth = match policy {
            Policy::Off => 0,
            Policy::Next(depth) => depth,
            _ => continue,
        };
        let own = large.with(POLICY, policy);
        let both = own.median(cow_faults::ELAPSED_NS).zip(own.median(cow_faults::PAGES_WRITTEN));
        by_depth.extend(both.map(|(elapsed, written)| (depth, elapsed / written)));
    }
    let found: Vec<Batch> = by_depth
        .into_iter()
        .map(|(depth, page_ns)| {
            let pages = f64::from(depth + 1);
            Batch { pages, elapsed_ns: page_ns * pages }
        })
        .collect();
    let has_plain = found.first().is_some_and(|first| first.pages == 1.0);
    (has_plain && found.len() > 1).then_some(found)
}

#[cfg(test)]
mod tests {
    use cowlab_schema::Cell as _;
    use cowlab_schema::cow_faults::CowFaults;
    use cowlab_schema::snapshot::Snapshot;

    use super::*;

    /// A sweep in which each page beyond the first costs a fourth of a fault of 2 µs.
    fn sweep() -> Vec<Sample> {
        let of = |policy: Policy, depth: f64| {
            let (pattern, size_bytes) = (Pattern::Sequential, 64 << 20);
            let cell = CowFaults { pattern, size_bytes, policy, ..CowFaults::default() };
            let faults = 16384.0 / (depth + 1.0);
            let elapsed = faults * (2000.0 + 500.0 * depth);
            [(cow_faults::ELAPSED_NS, elapsed), (cow_faults::PAGES_WRITTEN, 16384.0)]
                .map(|(metric, value)| Sample::of(metric, cell.params(), value))
        };
        [(0, 0.0), (1, 1.0), (16, 16.0), (512, 512.0)]
            .into_iter()
            .flat_map(|(pages, depth)| {
                of(if pages == 0 { Policy::Off } else { Policy::Next(pages) }, depth)
            })
            .collect()
    }

    /// What the simulation says of a machine whose faults cost three times the sweep's.
    fn measured() -> (Vec<Sample>, Course, Course) {
        let store = Store {
            pages: 2048,
            blocks_per_page: 4,
            zipf_alpha: 1.0,
            scattered: true,
            writes: 80_000,
            interval_ns: Some(4e6),
            steady: true,
            seed: 1,
        };
        let costs = Costs::new(100.0, 40_000.0, batches(&Samples::all(&sweep())).unwrap()).unwrap();
        let costs = costs.with_fault_ns(3.0 * costs.fault_ns());
        let off = run(&store, Ahead::Nothing, &costs);
        let next = run(&store, Ahead::Next(16), &costs);
        let of = |forks: Forked, policy: Policy, figures: &[(Metric, f64)]| -> Vec<Sample> {
            let cell = Snapshot { size_bytes: 8 << 20, forks, policy, ..Snapshot::default() };
            figures
                .iter()
                .map(|(metric, value)| Sample::of(*metric, cell.params(), *value))
                .collect()
        };
        let mut all = of(Forked::No, Policy::Off, &[(ELAPSED_NS, 100.0 * 80_000.0)]);
        for (policy, course) in [(Policy::Off, off), (Policy::Next(16), next)] {
            let figures = [
                (ELAPSED_NS, course.elapsed_ns),
                (WRITES_MADE, 80_000.0),
                (INTERVAL_NS_FOUND, 4e6),
                (FORK_NS, 40_000.0),
                (UNMEASURED_FORKS, 1.0),
                (THROUGHPUT_PER_S, course.throughput_per_s(&store)),
            ];
            all.extend(of(Forked::Yes, policy, &figures));
        }
        (all, off, next)
    }

    #[test]
    fn what_is_foretold_is_what_the_same_costs_gave() {
        let (samples, off, next) = measured();
        let coverage = Policy::CoverageOf(80, 0, 2048);
        let found = foretell(&samples, &sweep(), &[coverage]).unwrap();
        let policies: Vec<Policy> = found.iter().map(|one| one.policy).collect();
        assert_eq!(policies, [coverage, Policy::Next(16)]);
        assert_eq!(found[0].measured_gain_percent, None);
        let gain = (off.elapsed_ns / next.elapsed_ns - 1.0) * 100.0;
        assert!((found[1].measured_gain_percent.unwrap() - gain).abs() < 1e-6);
        // The cost of a fault was not told but found.
        assert!((found[1].gain_percent - gain).abs() < 0.5, "{} {gain}", found[1].gain_percent);
        assert_eq!(found[1].course.forks, next.forks);
    }

    #[test]
    fn a_run_without_policies_is_plain_copy_on_write() {
        let (mut samples, ..) = measured();
        samples.retain(|s| s.params["policy"] == "off");
        let off = foretell(&samples, &sweep(), &[Policy::Next(16)]).unwrap();
        for sample in &mut samples {
            sample.params.insert("policy".into(), "stock".into());
        }
        assert_eq!(foretell(&samples, &sweep(), &[Policy::Next(16)]).unwrap(), off);
        assert_eq!(off.len(), 1);
    }

    fn on_kernel(samples: &[Sample], environment: u32, variant: &str) -> Vec<Sample> {
        let of = |sample: &Sample| {
            let mut own = Sample { environment, ..sample.clone() };
            own.params.insert("variant".into(), variant.into());
            own
        };
        samples.iter().map(of).collect()
    }

    #[test]
    fn kernels_are_kept_apart() {
        let (samples, ..) = measured();
        let alone = foretell(&samples, &sweep(), &[]).unwrap();
        // The other kernel writes half as fast without policies, in the same rounds.
        let mut both = on_kernel(&samples, 1, "patched");
        let mut slow = on_kernel(&samples, 0, "plain");
        slow.retain(|s| s.params["policy"] == "off");
        for sample in slow.iter_mut().filter(|s| s.metric == "throughput_per_s") {
            sample.value /= 2.0;
        }
        both.extend(slow);
        let found = foretell(&both, &on_kernel(&sweep(), 0, "patched"), &[]).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].environment, found[0].workload["variant"].as_str()), (1, "patched"));
        assert_eq!(found[0].measured_gain_percent, alone[0].measured_gain_percent);
        // A policy is not compared with another kernel's plain copy-on-write.
        let own_plain = |s: &Sample| s.environment == 1 && s.params["policy"] == "off";
        let without: Vec<Sample> = both.iter().filter(|s| !own_plain(s)).cloned().collect();
        assert!(foretell(&without, &sweep(), &[]).is_err());
        // Costs of two kernels are not pooled.
        let sweeps = [on_kernel(&sweep(), 0, "a"), on_kernel(&sweep(), 1, "b")].concat();
        assert!(foretell(&both, &sweeps, &[]).unwrap_err().contains("several kernels"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let (samples, ..) = measured();
        assert!(foretell(&[], &sweep(), &[]).unwrap_err().contains("bench snapshot"));
        assert!(foretell(&samples, &[], &[]).unwrap_err().contains("next-page"));
        let never = |s: &Sample| s.params.get("forks").is_some_and(|forks| forks == "no");
        let without: Vec<Sample> = samples.iter().filter(|s| !never(s)).cloned().collect();
        assert!(foretell(&without, &sweep(), &[]).unwrap_err().contains("without forks"));
        let off = |s: &Sample| s.params.get("policy").is_some_and(|policy| policy == "off");
        let without: Vec<Sample> = samples.into_iter().filter(|s| !off(s) || never(s)).collect();
        assert!(foretell(&without, &sweep(), &[]).is_err());
    }
}
