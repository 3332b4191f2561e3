// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs of many hosts: which groups of them differ in which figures, beyond what hosts differ by anyway.
//!
//! Of each run only the median and the range of each figure's rounds are kept, so that memory grows with
//! runs times figures, 40 bytes for each.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use cowlab_model::Estimate;
use cowlab_model::stats::{median, quantile};
use cowlab_store::{Labels, Run};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde::Serialize;

use crate::difference::Verdict;
use crate::figures::{Key, grouped};

mod figure;

pub use figure::{Against, DEVIATIONS, FEWEST_HOSTS};
use figure::{Told, Unit, compared, least_of, of_hosts, relative};

/// Figures with a plot, and groups in one.
const PANELS: usize = 12;
const MOST_BARS: usize = 24;
/// How often hosts are dealt to the groups at random: one deal can put the hosts that differ together.
const DEALS: u64 = 5;
/// What a machine has beside what it is grouped by, and a difference may come from.
const FACTS: [&str; 8] =
    ["architecture", "cpu_model", "cpus", "hypervisor", "kernel", "thp", "accelerator", "version"];

#[derive(Default)]
struct Names(BTreeMap<String, u32>);

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(name.to_owned()).or_insert(next)
    }

    fn by_number(&self) -> Vec<&str> {
        let mut names = vec![""; self.0.len()];
        self.0.iter().for_each(|(name, number)| names[*number as usize] = name);
        names
    }
}

/// Many runs, reduced.
pub struct Fleet {
    by: Vec<String>,
    within: Vec<String>,
    bench: Option<String>,
    groups: Names,
    strata: Names,
    hosts: Names,
    figures: BTreeMap<Key, Vec<Unit>>,
    /// By group: how many runs, and what its machines have.
    runs: BTreeMap<u32, usize>,
    facts: BTreeMap<(u32, &'static str), BTreeSet<String>>,
    without_key: usize,
    keys: BTreeSet<String>,
}

/// A figure of a group beside the others.
#[derive(Debug, Clone, Serialize)]
pub struct Outlier {
    pub group: String,
    #[serde(flatten)]
    pub key: Key,
    /// Its median over the group's hosts.
    pub value: f64,
    /// Its median over those that it was compared with.
    pub others: f64,
    /// Hosts of the group that have it.
    pub hosts: usize,
    /// The group ÷ the others, with the interval that `against` gives it.
    pub ratio: Estimate,
    /// What it was compared with.
    pub against: Against,
    pub verdict: Verdict,
}

#[derive(Debug, Clone, Serialize)]
pub struct Group {
    /// What its runs have in common.
    pub name: String,
    pub hosts: usize,
    /// Its runs.
    pub runs: usize,
    /// In how many figures it differs.
    pub different: usize,
}

/// One figure of each group, those that differ most first.
#[derive(Debug, Clone, Serialize)]
pub struct Panel {
    #[serde(flatten)]
    pub key: Key,
    /// Of each group its name, and the median of its hosts with the range of 95% of them.
    pub groups: Vec<(String, Estimate)>,
    /// Groups that there was no room for.
    pub left_out: usize,
}

/// Groups of hosts, figure by figure.
#[derive(Debug, Clone, Serialize)]
pub struct FleetComparison {
    /// What the groups are by.
    pub by: Vec<String>,
    /// What hosts have in common that are compared; empty: all with all.
    pub within: Vec<String>,
    /// Runs that were compared.
    pub runs: usize,
    /// Hosts that they are of.
    pub hosts: usize,
    /// Runs left out, of which it is not known which group they belong to.
    pub without_key: usize,
    /// What two runs of the same thing differ by anyway.
    pub drift_percent: f64,
    /// Each group, those that differ in most figures first.
    pub groups: Vec<Group>,
    /// What else the groups do not have in common.
    pub environments_differ: Vec<String>,
    /// Comparisons made: of each group in each figure.
    pub compared: usize,
    /// How many of them differ.
    pub different: usize,
    /// How many would, were the hosts dealt to the groups at random (the median of several deals); `None` where each
    /// group is one host.
    pub different_by_chance: Option<usize>,
    /// How many have too few hosts to tell.
    pub too_few_hosts: usize,
    /// Those that differ, or all, the outliers first: by the least that each may differ by.
    pub figures: Vec<Outlier>,
    /// The figures that differ most, of all groups.
    pub panels: Vec<Panel>,
}

impl Fleet {
    /// Nothing yet: runs are grouped by these keys, names of folders (KEY=VALUE) or of facts of run.json, and
    /// compared with others that have the same `within`.
    pub fn by(keys: &[String], within: &[String], bench: Option<&str>) -> Fleet {
        Fleet {
            by: keys.to_vec(),
            within: within.to_vec(),
            strata: Names::default(),
            bench: bench.map(str::to_owned),
            groups: Names::default(),
            hosts: Names::default(),
            figures: BTreeMap::new(),
            runs: BTreeMap::new(),
            facts: BTreeMap::new(),
            without_key: 0,
            keys: BTreeSet::new(),
        }
    }

    /// Takes what is kept of a run. Only what its first environment measured counts: that is the machine,
    /// others are guests. A folder's name wins over what the run says: it can be put right.
    pub fn add(&mut self, run: &Run, labels: &Labels) {
        self.keys.extend(labels.keys().cloned());
        let Some(machine) = run.info.environments.first() else {
            self.without_key += 1;
            return;
        };
        let fact = |key: &str| match key {
            "version" => Some(run.info.version.clone()),
            _ => labels.get(key).cloned().or_else(|| machine.fact(key)),
        };
        let values = |keys: &[String]| -> Option<String> {
            let all: Option<Vec<String>> = keys.iter().map(|key| fact(key)).collect();
            Some(all?.join(", "))
        };
        let Some((group, stratum)) = values(&self.by).zip(values(&self.within)) else {
            self.without_key += 1;
            return;
        };
        let group = self.groups.number(&group);
        let stratum = self.strata.number(&stratum);
        let host = self.hosts.number(&fact("host").unwrap_or_default());
        *self.runs.entry(group).or_default() += 1;
        for key in FACTS {
            let value = fact(key).unwrap_or_else(|| "none".to_owned());
            self.facts.entry((group, key)).or_default().insert(value);
        }
        let own: Vec<_> = run.samples.iter().filter(|of| of.environment == 0).cloned().collect();
        for (key, samples) in grouped(&own) {
            if self.bench.as_ref().is_some_and(|bench| *bench != key.bench) {
                continue;
            }
            // One figure a round: what one process gave has its moment in common.
            let rounds: Vec<f64> = samples.all_by_round().into_values().collect();
            let Some(value) = median(&rounds).filter(|value| value.is_finite()) else { continue };
            let low = rounds.iter().copied().fold(f64::INFINITY, f64::min);
            let high = rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            self.figures.entry(key).or_default().push(Unit {
                group,
                stratum,
                host,
                value,
                low,
                high,
            });
        }
    }

    /// Keys of folders that runs had.
    pub fn folder_keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(String::as_str)
    }

    /// How many runs are in no group, as their key is not known.
    pub fn without_key(&self) -> usize {
        self.without_key
    }

    /// How many groups there are.
    pub fn groups(&self) -> usize {
        self.groups.0.len()
    }

    /// Compares the groups, and keeps `all` figures or those that differ.
    pub fn compare(self, drift_percent: f64, all: bool) -> FleetComparison {
        let figures: Vec<(Key, Vec<Unit>)> =
            self.figures.iter().map(|(key, units)| (key.clone(), of_hosts(units))).collect();
        let names = self.groups.by_number();
        let drift = drift_percent / 100.0;
        let told = each(&figures, &|_, units| compared(units, drift));
        let by_deal: Option<Vec<usize>> = (0..DEALS)
            .map(|deal| self.dealt(&figures, deal).map(|dealt| chance(&figures, &dealt, drift)))
            .collect();
        let different_by_chance = by_deal.map(|mut counts| {
            counts.sort_unstable();
            counts[counts.len() / 2]
        });
        let mut summary = FleetComparison {
            by: self.by.clone(),
            within: self.within.clone(),
            runs: self.runs.values().sum(),
            hosts: self.hosts.0.len(),
            without_key: self.without_key,
            drift_percent,
            groups: self.group_rows(&figures, &told, &names),
            environments_differ: self.environments_differ(),
            compared: told.iter().map(Vec::len).sum(),
            different: 0,
            different_by_chance,
            too_few_hosts: 0,
            figures: Vec::new(),
            panels: Vec::new(),
        };
        let mut order: Vec<(f64, usize)> = Vec::new();
        for (at, ((key, _), told)) in figures.iter().zip(&told).enumerate() {
            for of in told {
                summary.different += usize::from(of.verdict == Verdict::Different);
                summary.too_few_hosts += usize::from(of.verdict == Verdict::TooFew);
                if of.verdict == Verdict::Different {
                    order.push((of.least(), at));
                }
                if all || of.verdict == Verdict::Different {
                    let group = names[of.group as usize].to_owned();
                    summary.figures.push(of.outlier(group, key.clone()));
                }
            }
        }
        summary.figures.sort_by(|a, b| least(b).total_cmp(&least(a)));
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut shown = BTreeSet::new();
        for (_, at) in order.into_iter().filter(|(_, at)| shown.insert(*at)).take(PANELS) {
            let (key, units) = &figures[at];
            summary.panels.push(match self.strata.0.len() {
                1 => panel(key.clone(), units, &told[at], &names),
                _ => {
                    let key = Key { unit: String::new(), ..key.clone() };
                    panel(key, &relative(units), &told[at], &names)
                }
            });
        }
        summary
    }

    fn group_rows(
        &self,
        figures: &[(Key, Vec<Unit>)],
        told: &[Vec<Told>],
        names: &[&str],
    ) -> Vec<Group> {
        let mut hosts: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); names.len()];
        for unit in figures.iter().flat_map(|(_, units)| units) {
            hosts[unit.group as usize].insert(unit.host);
        }
        let mut different = vec![0; names.len()];
        for of in told.iter().flatten().filter(|of| of.verdict == Verdict::Different) {
            different[of.group as usize] += 1;
        }
        let row = |(at, name): (usize, &&str)| Group {
            name: (*name).to_owned(),
            hosts: hosts[at].len(),
            runs: self.runs.get(&(at as u32)).copied().unwrap_or_default(),
            different: different[at],
        };
        let mut rows: Vec<Group> = names.iter().enumerate().map(row).collect();
        rows.sort_by(|a, b| b.different.cmp(&a.different).then(a.name.cmp(&b.name)));
        rows
    }

    /// The facts of which two groups do not have the same.
    fn environments_differ(&self) -> Vec<String> {
        let differs = |key: &&&str| {
            let mut sets = (0..self.groups() as u32).map(|group| self.facts.get(&(group, **key)));
            let first = sets.next();
            !self.by.iter().chain(&self.within).any(|by| by == **key)
                && sets.any(|set| Some(set) != first)
        };
        FACTS.iter().filter(differs).map(|key| (*key).to_owned()).collect()
    }

    /// Another group for each host and group, at random: the groups keep their sizes in each stratum, and a host
    /// that is in several stays in those. `None` where no group has two hosts.
    fn dealt(&self, figures: &[(Key, Vec<Unit>)], deal: u64) -> Option<Dealt> {
        let mut of_host: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let mut strata: BTreeMap<u32, u32> = BTreeMap::new();
        for unit in figures.iter().flat_map(|(_, units)| units) {
            of_host.entry(unit.host).or_default().insert(unit.group);
            strata.insert(unit.host, unit.stratum);
        }
        let memberships: usize = of_host.values().map(BTreeSet::len).sum();
        if memberships == self.groups() {
            return None;
        }
        let mut random = StdRng::seed_from_u64(deal);
        let (single, several): (Vec<_>, Vec<_>) =
            of_host.into_iter().partition(|(_, groups)| groups.len() == 1);
        let mut by_stratum: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        for (host, groups) in single {
            let own = by_stratum.entry(strata[&host]).or_default();
            own.extend(groups.into_iter().map(|group| (host, group)));
        }
        let mut dealt = BTreeMap::new();
        for own in by_stratum.into_values() {
            let mut groups: Vec<u32> = own.iter().map(|(_, group)| *group).collect();
            groups.shuffle(&mut random);
            dealt.extend(own.into_iter().zip(groups));
        }
        for (host, groups) in several {
            let mut others: Vec<u32> = groups.iter().copied().collect();
            others.shuffle(&mut random);
            dealt.extend(
                groups.into_iter().zip(others).map(|(group, other)| ((host, group), other)),
            );
        }
        Some(dealt)
    }
}

/// The group that stands for a host in a group.
type Dealt = BTreeMap<(u32, u32), u32>;

/// In how many comparisons the groups differ where hosts are dealt to them so.
fn chance(figures: &[(Key, Vec<Unit>)], dealt: &Dealt, drift: f64) -> usize {
    let told = each(figures, &|_, units| {
        let moved = |unit: &Unit| Unit { group: dealt[&(unit.host, unit.group)], ..*unit };
        let mut units: Vec<Unit> = units.iter().map(moved).collect();
        units.sort_by_key(Unit::order);
        compared(&units, drift)
    });
    told.iter().flatten().filter(|of| of.verdict == Verdict::Different).count()
}

fn panel(key: Key, units: &[Unit], told: &[Told], names: &[&str]) -> Panel {
    let least: BTreeMap<u32, f64> = told
        .iter()
        .map(|of| (of.group, if of.verdict == Verdict::Different { of.least() } else { -1.0 }))
        .collect();
    let of_group = |own: &[Unit]| {
        // Of a single host the range of what it measured itself.
        let (value, low, high) = match own {
            [only] => (only.value, only.low, only.high),
            _ => {
                let values: Vec<f64> = own.iter().map(|unit| unit.value).collect();
                let at = |share| quantile(&values, share).unwrap_or(f64::NAN);
                (at(0.5), at(0.025), at(0.975))
            }
        };
        (own[0].group, Estimate { value, low, high, count: own.len() })
    };
    let mut groups: Vec<(u32, Estimate)> =
        units.chunk_by(|a, b| a.group == b.group).map(of_group).collect();
    let rank = |group: &u32| least.get(group).copied().unwrap_or(-1.0);
    groups.sort_by(|(a, _), (b, _)| rank(b).total_cmp(&rank(a)).then(a.cmp(b)));
    let left_out = groups.len().saturating_sub(MOST_BARS);
    groups.truncate(MOST_BARS);
    let name = |(group, of): (u32, Estimate)| (names[group as usize].to_owned(), of);
    Panel { key, groups: groups.into_iter().map(name).collect(), left_out }
}

/// The work for each figure, on all CPUs.
fn each<T: Send>(
    figures: &[(Key, Vec<Unit>)],
    work: &(dyn Fn(&Key, &[Unit]) -> T + Sync),
) -> Vec<T> {
    let cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let share = figures.len().div_ceil(cpus).max(1);
    thread::scope(|scope| {
        let of = |part| {
            move || -> Vec<T> {
                let part: &[(Key, Vec<Unit>)] = part;
                part.iter().map(|(key, units)| work(key, units)).collect()
            }
        };
        let threads: Vec<_> = figures.chunks(share).map(|part| scope.spawn(of(part))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no work panics")).collect()
    })
}

impl Told {
    fn outlier(&self, group: String, key: Key) -> Outlier {
        let Told { value, others, hosts, ratio, against, verdict, .. } = *self;
        Outlier { group, key, value, others, hosts, ratio, against, verdict }
    }
}

fn least(of: &Outlier) -> f64 {
    let told = if of.verdict == Verdict::Different { 1.0 } else { 0.0 };
    least_of(of.ratio) * told
}

#[cfg(test)]
mod tests;
