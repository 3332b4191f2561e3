// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What would be done, and what it would save.

use anyhow::{Result, bail};
use cowlab_machine::Root;
use cowlab_machine::limits::Credentials;
use cowlab_model::steady::{COLLAPSE_NS, Rhythm};
use cowlab_observe::tend::plan::CollapsePlan;
use cowlab_observe::tend::stop::{Stops, stops};
use cowlab_observe::tend::{Survey, Tender};
use cowlab_report::fmt::time;
use cowlab_report::{Block, Cell, Column, Document, Finding, Section, Table};
use cowlab_schema::tend::{self, State};
use cowlab_schema::{Command, Metric};
use cowlab_store::{Missing, Sample};
use serde::Serialize;

use super::{TendPlan, messages};
use crate::args::TendArgs;
use crate::diagnosis::{shared_with_children, word_of, worker};
use crate::output;

struct Found {
    /// How it is best named to a verb.
    word: String,
    pid: i32,
    name: String,
    survey: Survey,
    steps: CollapsePlan,
    stops: Result<Stops, String>,
    page_bytes: u64,
    /// Of a program that forks often.
    rhythm: Option<Rhythm>,
}

#[derive(Serialize)]
struct DryRunSummary<'a> {
    pid: i32,
    name: &'a str,
    plan: Counts,
    stops: Option<Stops>,
    /// From one fork to the next, and how many regions can be joined meanwhile; absent where fewer than two
    /// forks were seen in a second.
    between_forks_s: Option<f64>,
    most_regions_between_forks: Option<u64>,
}

#[derive(Serialize)]
struct Counts {
    candidate_regions: usize,
    huge_regions: u64,
    sparse_regions: u64,
    sparse_pages: u64,
    mixed_regions: u64,
    unprofitable_regions: u64,
    filled_pages: u64,
}

pub fn run(json: bool, args: &TendArgs, plan: &TendPlan) -> Result<()> {
    let targets = plan.targets();
    if targets.is_empty() {
        plan.wanted.iter().try_for_each(|wanted| wanted.find().map(drop))?;
        bail!("no process that is named runs now");
    }
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    let is_one = targets.len() == 1;
    for pid in targets {
        match plan.tender(args, pid).and_then(|mut tender| look(&mut tender)) {
            Ok(one) => found.push(one),
            Err(error) if is_one => return Err(error),
            // The others are looked at all the same.
            Err(error) => {
                let reason = output::message(&error);
                output::say(&reason);
                missing.push(Missing { metric: format!("plan of {pid}"), reason });
            }
        }
    }
    if found.is_empty() {
        bail!("no process can be tended");
    }
    for one in &found {
        if let Err(reason) = &one.stops {
            missing.push(Missing { metric: "fork_ns".into(), reason: reason.clone() });
        }
        if !one.survey.knows_huge {
            let reason = "needs PAGEMAP_SCAN (Linux 6.7): every region is taken for base pages";
            missing.push(Missing { metric: "huge_regions".into(), reason: reason.into() });
        }
    }
    if json {
        return output::json_of(
            found.iter().map(Found::summary).collect::<Vec<_>>(),
            &found.iter().flat_map(samples).collect::<Vec<_>>(),
            &missing,
        );
    }
    let own = Credentials::of_self(&Root::default());
    let mut document = Document::new(
        "What tend would do",
        format!("nothing was done; looked at as uid {}; {}", own.euid, plan.priced.by),
    );
    for one in &found {
        document.sections.push(one.section());
    }
    output::text(&document)
}

fn look(tender: &mut Tender) -> Result<Found> {
    let (survey, steps) = tender.look()?;
    let of = tender.target();
    let rhythm = tender.rhythm()?;
    let stops = match worker(of).or_else(|| shared_with_children(of)) {
        Some(why) => Err(why),
        None => stops(tender.profile(), &survey, &steps),
    };
    Ok(Found {
        word: word_of(of),
        pid: tender.target().pid(),
        name: tender.target().name().to_owned(),
        survey,
        steps,
        stops,
        page_bytes: tender.page_bytes(),
        rhythm,
    })
}

impl Found {
    fn summary(&self) -> DryRunSummary<'_> {
        let steps = &self.steps;
        DryRunSummary {
            pid: self.pid,
            name: &self.name,
            plan: Counts {
                candidate_regions: steps.steps.len(),
                huge_regions: steps.huge_regions,
                sparse_regions: steps.sparse_regions,
                sparse_pages: steps.sparse_pages,
                mixed_regions: steps.mixed_regions,
                unprofitable_regions: steps.unprofitable_regions,
                filled_pages: steps.steps.iter().map(|step| step.absent_pages).sum(),
            },
            stops: self.stops.as_ref().ok().copied(),
            between_forks_s: self.rhythm.map(|of| of.between_s),
            most_regions_between_forks: self.rhythm.map(|of| of.most_regions(COLLAPSE_NS)),
        }
    }

    fn section(&self) -> Section {
        let columns = vec![Column::text("what"), Column::number("figure")];
        let mut table = Table::new(format!("tend-{}", self.pid), "The plan", columns);
        let mut row = |what: &str, cell: Cell| table.push(vec![Cell::text(what), cell]);
        let absent = |reason: &str| Cell::Missing(reason.to_owned());
        match &self.stops {
            Ok(Stops { now, after }) => {
                row(
                    "stop at the next fork, as it is",
                    Cell::estimate(now.value, now.low, now.high, "ns"),
                );
                row(
                    "the same after tending",
                    Cell::estimate(after.value, after.low, after.high, "ns"),
                );
            }
            Err(reason) => row("stop at the next fork", absent(reason)),
        }
        row("base pages whose entries a fork copies", Cell::count(self.survey.small_pages));
        row("huge pages", Cell::count(self.survey.huge_regions));
        row("regions to collapse", Cell::count(self.steps.steps.len() as u64));
        row("regions too sparse, left alone", Cell::count(self.steps.sparse_regions));
        row(
            "regions with pages in swap or of files, left alone",
            Cell::count(self.steps.mixed_regions),
        );
        row("regions that do not pay", Cell::count(self.steps.unprofitable_regions));
        let filled: u64 = self.steps.steps.iter().map(|step| step.absent_pages).sum();
        row("memory that is filled in", Cell::number((filled * self.page_bytes) as f64, "bytes"));
        let headline = Finding { headline: self.sentence(), ..Finding::default() };
        Section::new(
            format!("tend-{}", self.pid),
            format!("{} ({})", self.name, self.pid),
            vec![Block::Finding(headline), Block::Table(table)],
        )
    }

    /// Why a fork may come before the writes after the last one are undone.
    fn falls_behind(&self) -> Option<String> {
        let rhythm = self.rhythm?;
        let regions = self.steps.huge_regions + self.steps.steps.len() as u64;
        rhythm.cannot_keep_up(regions, COLLAPSE_NS)?;
        Some(format!(
            "It forks every {}, and tend can join at most {} of its {regions} regions meanwhile: where the \
             writes after a fork reach more, the stop stays as it is. {} says how many they reach.",
            time(rhythm.between_s * 1e9),
            rhythm.most_regions(COLLAPSE_NS),
            Command::Explain.of(&self.word)
        ))
    }

    /// What tending would save, and how to have it.
    fn sentence(&self) -> String {
        let regions = self.steps.steps.len();
        let falls_behind = self.falls_behind().filter(|_| self.stops.is_ok() && regions > 0);
        if let Some(why) = falls_behind {
            return why;
        }
        match &self.stops {
            Err(why) => format!("What would be saved cannot be said: {why}."),
            Ok(_) if regions == 0 => "There is nothing to collapse.".to_owned(),
            Ok(Stops { now, after }) => format!(
                "Tending would make the stop at the next fork {} instead of {}: keep {} running",
                time(after.value),
                time(now.value),
                Command::Tend.of(&self.word)
            ),
        }
    }
}

fn samples(of: &Found) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut add = |metric: Metric, value: f64, state: Option<State>| {
        let mut params = messages::params(of.pid, &of.name);
        if let Some(state) = state {
            tend::STATE.put(&mut params, state);
        }
        samples.push(Sample::of(metric, params, value));
    };
    add(tend::SMALL_PAGES, of.survey.small_pages as f64, None);
    add(tend::HUGE_REGIONS, of.survey.huge_regions as f64, None);
    add(tend::CANDIDATE_REGIONS, of.steps.steps.len() as f64, None);
    add(tend::SPARSE_REGIONS, of.steps.sparse_regions as f64, None);
    if let Ok(Stops { now, after }) = of.stops {
        for (state, stop) in [(State::Now, now), (State::After, after)] {
            add(tend::FORK_NS, stop.value, Some(state));
            add(tend::FORK_LOW_NS, stop.low, Some(state));
            add(tend::FORK_HIGH_NS, stop.high, Some(state));
        }
    }
    samples
}
