// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts and prices make a diagnosis. Reads nothing: a figure that is known from several sources is the best
//! source's, here and nowhere else.

use cowlab_machine::Facts;
use cowlab_machine::verdict::{Level, Verdict, fork_of};
use cowlab_model::advice::{Advice, Forecast, Surroundings, advise, best};
use cowlab_model::application::{ApplicationProfile, Children, has_collector};
use cowlab_model::cost::{Predicted, Unanswerable, Vmas};
use cowlab_model::profile::MachineProfile;
use serde::Serialize;

use super::TargetFacts;
use super::findings::{Finding, Known, Stop, Weight, findings};

/// The share of its memory assumed to be written if nothing was measured, asked or seen in a child.
const USUAL_FRACTION: f64 = 0.1;
/// The folio that is priced besides the base page and the huge page.
const MTHP_BYTES: u64 = 64 << 10;
/// Of a shorter stop too much is what a look at the kernel's events does not see, to scale prices by it.
const LONG_STOP_NS: f64 = 500_000.0;
/// Farther than so many times its interval a stop is not what is priced.
const FAR: f64 = 2.0;

/// Where a figure is from, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Seen while the program was watched.
    Measured,
    Asked,
    /// What its living children have to themselves.
    Children,
    Calibrated,
    Usual,
    Assumed,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Amount {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    pub source: Source,
}

impl Amount {
    pub fn exactly(value: f64, source: Source) -> Amount {
        Amount { value, low: value, high: value, source }
    }

    /// Whether it was seen or asked, not predicted.
    pub fn is_known(&self) -> bool {
        self.source <= Source::Children
    }
}

/// What a fork costs a program, and what would help.
#[derive(Debug, Clone)]
pub struct Costs {
    pub application: ApplicationProfile,
    pub stop_ns: Amount,
    /// First as it is, with the same stop.
    pub choices: Vec<Advice>,
    /// Whether all prices are multiplied by what the stop takes of the predicted one.
    pub is_scaled: bool,
    /// Whether the stop that is known is far from the predicted one: then it has other causes than those that
    /// have prices, and no choice is recommended.
    pub is_odd: bool,
    pub predicted_ns: Option<f64>,
}

impl Costs {
    /// As it is; `None` where not even that has a price.
    pub fn now(&self) -> Option<&Forecast> {
        self.choices[0].forecast.as_ref().ok()
    }

    fn stop(&self) -> Option<Stop> {
        let Costs { predicted_ns, is_odd, is_scaled, .. } = *self;
        Some(Stop { ns: self.stop_ns.value, predicted_ns: predicted_ns?, is_odd, is_scaled })
    }

    /// What takes least of what shortens the stop or makes the writes cheaper by a tenth.
    pub fn remedy(&self) -> Option<(&Advice, Forecast)> {
        best(&self.choices).filter(|_| !self.is_odd)
    }
}

/// All that is said of a program.
#[derive(Debug, Clone)]
pub struct Diagnosis {
    /// Whether its next fork is refused, and whether the copies fit.
    pub verdict: Verdict,
    /// Copied by both sides after a fork.
    pub copied_bytes: Amount,
    /// An error says why there is no price.
    pub costs: Result<Costs, String>,
    /// What stands out, the most important first.
    pub findings: Vec<Finding>,
}

/// A shorter stop is none to shorten, unless it comes all the time.
const SHORT_NS: f64 = 1e6;
const MUCH: f64 = 0.05;

impl Diagnosis {
    /// What fails, hangs or costs most, if anything stands out.
    pub fn worst(&self) -> Option<&Finding> {
        self.findings.first().filter(|one| one.weight <= Weight::Costs)
    }

    /// What is recommended: one judgement for all that is printed of it.
    pub fn remedy(&self) -> Option<(&Advice, Forecast)> {
        let costs = self.costs.as_ref().ok()?;
        costs.remedy().filter(|_| !self.is_short() && !self.is_ruled_out())
    }

    /// Whether its stop is none to shorten.
    pub fn is_short(&self) -> bool {
        self.costs.as_ref().is_ok_and(|costs| {
            let per_s = costs.application.forks_per_s.unwrap_or(0.0);
            let stop_ns = costs.stop_ns.value;
            stop_ns < SHORT_NS && per_s * stop_ns / 1e9 < MUCH
        })
    }

    /// Whether something else than its page tables makes the stop.
    pub fn is_ruled_out(&self) -> bool {
        self.findings.iter().any(|one| one.rules_out_huge_pages)
    }

    /// The stop, as it is told everywhere.
    pub fn stop_ns(&self) -> Option<Amount> {
        self.costs.as_ref().ok().map(|costs| costs.stop_ns)
    }
}

/// What is known of a program on this machine, at these prices.
pub fn diagnose(machine: &Facts, facts: &TargetFacts, prices: &MachineProfile) -> Diagnosis {
    let page_bytes = machine.page_size_bytes.max(1);
    let pages = facts.process.anonymous_bytes / page_bytes;
    let copied = copied_pages(facts, pages, page_bytes);
    let copied_bytes =
        Amount::exactly((copied.value.ceil() * page_bytes as f64).round(), copied.source);
    // A guess is no expectation.
    let expected = copied_bytes.is_known().then_some(copied_bytes.value as u64);
    let replication = facts.asked.as_ref().map(|asked| &asked.replication);
    let application = application(machine, facts, pages, copied.value.ceil() as u64);
    let around = Surroundings {
        mthp_sizes_bytes: mthp(machine),
        no_tend: facts.no_tend.clone(),
        target: Some(facts.word.clone()),
        server: facts.asked.as_ref().and_then(|asked| asked.server),
        policies: Vec::new(),
    };
    let costs = price(prices, &application, &around, known_stop(facts));
    let costs = costs.map_err(|error| error.to_string());
    let verdict = fork_of(machine, &facts.process, expected, replication);
    let known = Known {
        machine,
        facts,
        prices,
        stop: costs.as_ref().ok().and_then(Costs::stop),
        is_refused: verdict.level == Level::WillFail,
        copied_bytes: expected,
    };
    let findings = findings(&known);
    Diagnosis { verdict, copied_bytes, costs, findings }
}

/// Folios that this machine can have.
pub fn mthp(machine: &Facts) -> Vec<u64> {
    let thp = machine.thp.as_ref().filter(|thp| thp.sizes.contains_key(&MTHP_BYTES));
    thp.map(|_| MTHP_BYTES).into_iter().collect()
}

fn copied_pages(facts: &TargetFacts, pages: u64, page_bytes: u64) -> Amount {
    let most = pages as f64;
    let measured =
        facts.observed.as_ref().ok().and_then(|observed| observed.pages_per_fork(&facts.name));
    let asked = facts.asked.as_ref().and_then(|asked| asked.replication.last_cow_bytes);
    let own = &facts.own_bytes;
    let known = [
        (measured, Source::Measured),
        (asked.map(|bytes| bytes as f64 / page_bytes as f64), Source::Asked),
        // Half of them have more.
        (own.get(own.len() / 2).map(|own| *own as f64 / page_bytes as f64), Source::Children),
    ];
    let known = known.into_iter().find_map(|(pages, source)| Some((pages?, source)));
    let (value, source) = known.unwrap_or((most * USUAL_FRACTION, Source::Assumed));
    Amount::exactly(value.min(most), source)
}

fn known_stop(facts: &TargetFacts) -> Option<Amount> {
    let forks = facts.observed.as_ref().ok().and_then(|observed| observed.forks());
    let measured = forks.and_then(|forks| {
        Some(Amount {
            value: forks.stop_ns?,
            low: forks.shortest_stop_ns? as f64,
            high: forks.longest_stop_ns? as f64,
            source: Source::Measured,
        })
    });
    let asked = facts.asked.as_ref().and_then(|asked| asked.last_fork_ns);
    measured.or(asked.map(|ns| Amount::exactly(ns as f64, Source::Asked)))
}

fn application(
    machine: &Facts,
    facts: &TargetFacts,
    pages: u64,
    written: u64,
) -> ApplicationProfile {
    let process = &facts.process;
    let huge = machine.thp.as_ref().and_then(|thp| thp.pmd_size_bytes);
    let observed = facts.observed.as_ref().ok();
    let forks = observed.and_then(|observed| observed.forks()).filter(|forks| forks.forks > 0);
    let children = match (Children::of(&facts.name), forks) {
        (_, Some(forks)) if forks.execute() => Children::Execute,
        (Children::Unknown, Some(_)) => Children::Serve,
        (Children::Unknown, None) if facts.forked > 0 => Children::Serve,
        (known, _) => known,
    };
    ApplicationProfile {
        huge_pages: huge.zip(process.huge_bytes).map_or(0, |(huge, bytes)| bytes / huge.max(1)),
        collapsible_regions: facts.collapsible_regions,
        children,
        has_collector: has_collector(&facts.name),
        collector_share: observed
            .and_then(|observed| observed.copies.as_ref().ok()?.blamed.collector_share()),
        threads: facts.running_threads,
        vmas: Some(Vmas {
            anon: process.inherited_anonymous_mappings,
            // Those that a child does not get are taken out one by one.
            others: process.mappings - process.inherited_anonymous_mappings,
        }),
        forks_per_s: forks.and_then(super::Forks::per_s),
        between_forks_s: forks.and_then(super::Forks::between_s),
        child_s: forks.and_then(|forks| forks.life_ns).map(|ns| ns / 1e9),
        mappings: facts.mappings.clone(),
        ..ApplicationProfile::of_pages(pages, written)
    }
}

/// What a fork of an application costs, and what each choice would change. A stop that is known is the one that is
/// told, and scales the others where it is long enough.
pub fn price(
    prices: &MachineProfile,
    application: &ApplicationProfile,
    around: &Surroundings,
    known_stop: Option<Amount>,
) -> Result<Costs, Unanswerable> {
    let mut choices = advise(prices, application, around)?;
    let stop = |choices: &[Advice]| choices[0].forecast.as_ref().ok().map(|now| now.stop_ns);
    let predicted = stop(&choices);
    let is_odd = known_stop.zip(predicted).is_some_and(|(known, predicted)| {
        let [least, most] = [predicted.low / FAR, predicted.high * FAR];
        known.value > LONG_STOP_NS && !(least..=most).contains(&known.value)
    });
    let scale =
        known_stop.zip(predicted).filter(|(known, _)| known.value > LONG_STOP_NS && !is_odd);
    if let Some((known, predicted)) = scale {
        let scaled = prices.clone().scaled(known.value / predicted.value);
        choices = advise(&scaled, application, around)?;
    }
    // One stop on one page, also of choices that leave it as it is.
    if let (Some(Amount { value, low, high, .. }), Some(before)) = (known_stop, stop(&choices)) {
        let forecasts = choices.iter_mut().filter_map(|one| one.forecast.as_mut().ok());
        for then in forecasts.filter(|then| then.stop_ns == before) {
            then.stop_ns = Predicted { value, low, high };
        }
    }
    let source = if prices.is_usual { Source::Usual } else { Source::Calibrated };
    let amount = predicted.map(|of| Amount { value: of.value, low: of.low, high: of.high, source });
    Ok(Costs {
        application: application.clone(),
        stop_ns: known_stop.or(amount).unwrap_or(Amount::exactly(0.0, Source::Assumed)),
        choices,
        is_scaled: scale.is_some(),
        is_odd,
        predicted_ns: predicted.map(|of| of.value),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn facts() -> TargetFacts {
        let process = cowlab_machine::ProcessFacts {
            pid: 7,
            name: "server".into(),
            anonymous_bytes: 1 << 30,
            ..Default::default()
        };
        TargetFacts {
            pid: 7,
            name: "server".into(),
            word: "server".into(),
            process,
            collapsible_regions: Some(500),
            running_threads: 0.0,
            threads: (None, Instant::now()),
            children: Some(0),
            own_bytes: Vec::new(),
            forked: 0,
            stuck: 0,
            unreaped: 0,
            tables_of_children_bytes: None,
            group_of_workers: None,
            throttled_ns: None,
            unpromised: Vec::new(),
            no_tend: None,
            server_address: None,
            asked: None,
            mappings: Vec::new(),
            observed: Err("it was not watched".into()),
        }
    }

    fn diagnosed(facts: &TargetFacts) -> Diagnosis {
        let machine = Facts { page_size_bytes: 4096, ..Facts::default() };
        diagnose(&machine, facts, &MachineProfile::usual())
    }

    #[test]
    fn the_best_source_of_a_figure_is_the_one_that_is_told() {
        let mut of = facts();
        let guessed = diagnosed(&of);
        assert_eq!(guessed.copied_bytes.source, Source::Assumed);
        assert_eq!(
            (guessed.stop_ns().unwrap().source, guessed.verdict.expected_bytes),
            (Source::Usual, None)
        );
        of.own_bytes = vec![1 << 20, 3 << 20, 9 << 20];
        let own = diagnosed(&of).copied_bytes;
        assert_eq!((own.source, own.value), (Source::Children, f64::from(3 << 20)));
        let mut asked = cowlab_observe::redis::Asked {
            process: None,
            last_fork_ns: Some(20_000_000),
            replication: cowlab_machine::verdict::Replication::default(),
            server: None,
        };
        asked.replication.last_cow_bytes = Some(2 << 20);
        of.asked = Some(asked);
        let told = diagnosed(&of);
        assert_eq!(told.copied_bytes, Amount::exactly(f64::from(2 << 20), Source::Asked));
        assert_eq!(told.stop_ns(), Some(Amount::exactly(2e7, Source::Asked)));
        assert!(told.verdict.expected_bytes.is_some());
        let forks = super::super::Forks {
            duration_s: 60.0,
            forks: 2,
            ended: 2,
            stop_ns: Some(3e7),
            shortest_stop_ns: Some(20_000_000),
            longest_stop_ns: Some(40_000_000),
            ..Default::default()
        };
        let copies = Err("not seen".to_owned());
        of.observed = Ok(super::super::Observed { forks: Ok(forks), copies, has_ended: false });
        let seen = diagnosed(&of);
        let stop = Amount { value: 3e7, low: 2e7, high: 4e7, source: Source::Measured };
        assert_eq!(seen.stop_ns(), Some(stop));
        // The row of the table has the same stop, and the others' prices follow it.
        let costs = seen.costs.unwrap();
        assert_eq!(costs.now().unwrap().stop_ns.value, 3e7);
        assert!(costs.is_scaled && costs.remedy().unwrap().1.stop_ns.value < 3e7);
        assert_eq!(costs.application.children, Children::Serve);
    }
}
