// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One figure of all hosts: each group beside the others.

use std::collections::{BTreeMap, BTreeSet};

use cowlab_model::Estimate;
use cowlab_model::stats::{median, quantile};
use serde::Serialize;

use crate::difference::{FEWEST_PAIRS, Verdict, compare};

/// A figure of one run, or of all runs of a host in one group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    pub(super) group: u32,
    /// Only hosts of the same are compared.
    pub(super) stratum: u32,
    pub(super) host: u32,
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Unit {
    pub(super) fn order(&self) -> (u32, u32, u32) {
        (self.group, self.host, self.stratum)
    }
}

/// Hosts of which fewer have no spread that a single one could lie outside of.
pub const FEWEST_HOSTS: usize = 8;
/// A single host differs that lies so many robust deviations (1.4826 times the median distance from the
/// median) from the others: Iglewicz and Hoaglin's bound (1993).
pub const DEVIATIONS: f64 = 3.5;
/// Hosts of a side beyond so many are stood for by as many at even ranks: all pairs are looked at. Intervals
/// are then wider than they need be.
const MOST_HOSTS: usize = 100;
/// Whose figure it is, and what it was compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// The hosts of a group with those of all others.
    OtherHosts,
    /// The same hosts, as far as they are in another group as well, with themselves.
    ThemselvesElsewhere,
    /// A group's only host with the spread of all hosts.
    Spread,
}

/// What is said of a group in one figure.
pub(super) struct Told {
    pub(super) group: u32,
    pub(super) value: f64,
    pub(super) others: f64,
    pub(super) hosts: usize,
    pub(super) ratio: Estimate,
    pub(super) against: Against,
    pub(super) verdict: Verdict,
}

impl Told {
    pub(super) fn least(&self) -> f64 {
        least_of(self.ratio)
    }
}

/// The least that a ratio may differ from 1 by, as a logarithm. What has no ratio comes first: a figure
/// of 0 on one side.
pub(super) fn least_of(ratio: Estimate) -> f64 {
    if !ratio.low.is_finite() || !ratio.high.is_finite() {
        return f64::MAX;
    }
    ratio.low.ln().max(-ratio.high.ln()).max(0.0)
}

/// Runs of one host in one group as one: their median and the range of 95% of them; of a single run that of
/// its rounds.
pub(super) fn of_hosts(units: &[Unit]) -> Vec<Unit> {
    let mut units = units.to_vec();
    units.sort_by_key(Unit::order);
    let of_host = |runs: &[Unit]| {
        if let [only] = runs {
            return *only;
        }
        let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
        let at = |share| quantile(&values, share).unwrap_or(f64::NAN);
        Unit { value: at(0.5), low: at(0.025), high: at(0.975), ..runs[0] }
    };
    units.chunk_by(|a, b| a.order() == b.order()).map(of_host).collect()
}

/// Each group of one figure beside the others. Units are in the order of groups, then hosts.
pub(super) fn compared(units: &[Unit], drift: f64) -> Vec<Told> {
    let mut spreads: BTreeMap<u32, Spread> = BTreeMap::new();
    for stratum in units.iter().map(|unit| unit.stratum).collect::<BTreeSet<u32>>() {
        let own = by_host(units.iter().filter(|unit| unit.stratum == stratum));
        spreads.insert(stratum, Spread::of(&own));
    }
    let groups = units.chunk_by(|a, b| a.group == b.group);
    groups
        .filter_map(|own| match own {
            _ if own.len() == units.len() => None,
            [only] => Some(spreads[&only.stratum].told(*only, drift)),
            _ => of_group(own, units, spreads.len() > 1, drift),
        })
        .collect()
}

fn by_host<'a>(units: impl Iterator<Item = &'a Unit>) -> BTreeMap<u32, f64> {
    let mut values: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    units.for_each(|unit| values.entry(unit.host).or_default().push(unit.value));
    values.into_iter().filter_map(|(host, values)| Some((host, median(&values)?))).collect()
}

fn of_group(own: &[Unit], units: &[Unit], has_strata: bool, drift: f64) -> Option<Told> {
    let group = own[0].group;
    let others: Vec<Unit> = units.iter().filter(|unit| unit.group != group).copied().collect();
    let medians = (median_of(own)?, median_of(&others)?);
    let (own, others) = if has_strata { aligned(own, &others)? } else { (own.to_vec(), others) };
    let (own, others) = (by_host(own.iter()), by_host(others.iter()));
    let both: Vec<(f64, f64)> =
        own.iter().filter_map(|(host, value)| Some((*others.get(host)?, *value))).collect();
    let is_paired = both.len() >= FEWEST_PAIRS;
    let (first, second): (Vec<f64>, Vec<f64>) = match is_paired {
        true => even_ranks(both, |(a, b)| b - a).into_iter().unzip(),
        false => {
            let values = |of: &BTreeMap<u32, f64>| {
                even_ranks(of.values().copied().collect(), |value| *value)
            };
            (values(&others), values(&own))
        }
    };
    let found = compare(&first, &second, is_paired, drift)?;
    let against = if found.paired { Against::ThemselvesElsewhere } else { Against::OtherHosts };
    let hosts = if is_paired { second.len() } else { own.len() };
    let (value, others) = if has_strata { medians } else { (median(&second)?, median(&first)?) };
    let (ratio, verdict) = (found.ratio, found.verdict);
    Some(Told { group, value, others, hosts, ratio, against, verdict })
}

fn median_of(units: &[Unit]) -> Option<f64> {
    median(&units.iter().map(|unit| unit.value).collect::<Vec<_>>())
}

/// Both sides relative to the median of the others in each stratum, which so counts no more. Strata with fewer than
/// three others, or where one side is missing, say nothing; and what is not positive has no ratio.
fn aligned(own: &[Unit], others: &[Unit]) -> Option<(Vec<Unit>, Vec<Unit>)> {
    let mut by_stratum: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for unit in others {
        by_stratum.entry(unit.stratum).or_default().push(unit.value);
    }
    by_stratum.retain(|stratum, others| {
        others.len() >= 3 && own.iter().any(|unit| unit.stratum == *stratum)
    });
    let centres: BTreeMap<u32, f64> = by_stratum
        .into_iter()
        .filter_map(|(stratum, others)| Some((stratum, median(&others)?)))
        .collect();
    if own.iter().chain(others).any(|unit| unit.value <= 0.0) {
        return None;
    }
    let relative = |units: &[Unit]| -> Vec<Unit> {
        let of =
            |unit: &Unit| Some(Unit { value: unit.value / centres.get(&unit.stratum)?, ..*unit });
        units.iter().filter_map(of).collect()
    };
    Some((relative(own), relative(others))).filter(|(own, _)| !own.is_empty())
}

/// At most [`MOST_HOSTS`] of them, at even ranks.
fn even_ranks<T: Copy>(mut all: Vec<T>, by: impl Fn(&T) -> f64) -> Vec<T> {
    if all.len() <= MOST_HOSTS {
        return all;
    }
    all.sort_by(|a, b| by(a).total_cmp(&by(b)));
    (0..MOST_HOSTS).map(|rank| all[(2 * rank + 1) * all.len() / (2 * MOST_HOSTS)]).collect()
}

/// How much hosts differ in a figure.
struct Spread {
    hosts: usize,
    centre: f64,
    /// Robust deviation of the logarithms; `None` where one has none.
    deviation: Option<f64>,
}

impl Spread {
    fn of(hosts: &BTreeMap<u32, f64>) -> Spread {
        let values: Vec<f64> = hosts.values().copied().collect();
        let centre = median(&values).unwrap_or(f64::NAN);
        let is_positive = values.iter().all(|value| *value > 0.0);
        let distances: Vec<f64> = values.iter().map(|value| (value / centre).ln().abs()).collect();
        let deviation = median(&distances).filter(|_| is_positive).map(|of| 1.4826 * of);
        Spread { hosts: values.len(), centre, deviation }
    }

    /// A host differs if all that it measured lies outside of what hosts differ by.
    fn told(&self, host: Unit, drift: f64) -> Told {
        let Unit { group, value, low, high, .. } = host;
        let of = |value: f64| if self.deviation.is_some() { value / self.centre } else { f64::NAN };
        let ratio = Estimate { value: of(value), low: of(low), high: of(high), count: self.hosts };
        let verdict = match self.deviation {
            _ if self.hosts <= FEWEST_HOSTS => Verdict::TooFew,
            None => Verdict::NoneSeen,
            Some(deviation) => {
                let band = DEVIATIONS * deviation + drift.ln_1p();
                let is_outside = ratio.low.ln() > band || ratio.high.ln() < -band;
                if is_outside { Verdict::Different } else { Verdict::NoneSeen }
            }
        };
        let against = Against::Spread;
        Told { group, value, others: self.centre, hosts: 1, ratio, against, verdict }
    }
}

/// Each relative to the median of its stratum.
pub(super) fn relative(units: &[Unit]) -> Vec<Unit> {
    let mut strata: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    units.iter().for_each(|unit| strata.entry(unit.stratum).or_default().push(unit.value));
    let centres: BTreeMap<u32, f64> = strata
        .into_iter()
        .filter_map(|(stratum, values)| Some((stratum, median(&values)?)))
        .collect();
    let of = |unit: &Unit| {
        let centre = centres[&unit.stratum];
        let Unit { value, low, high, .. } = *unit;
        Unit { value: value / centre, low: low / centre, high: high / centre, ..*unit }
    };
    units.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_hosts_are_stood_for_by_even_ranks() {
        let ranks = even_ranks((0..1000).map(f64::from).collect(), |value| *value);
        assert_eq!((ranks.len(), ranks[0], ranks[99]), (MOST_HOSTS, 5.0, 995.0));
        assert_eq!(median(&ranks), Some(500.0));
    }
}
