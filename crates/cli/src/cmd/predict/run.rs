// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the forks of a footprint cost here, and what each choice would change.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use cowlab_analysis::application::{Subject, Unjudged, profile_of};
use cowlab_machine::Facts;
use cowlab_model::advice::Surroundings;
use cowlab_model::profile::MachineProfile;
use cowlab_observe::tend::Tender;
use cowlab_report::fmt::{bytes, quantity, time};
use cowlab_report::{Block, Document, Section};
use cowlab_schema::Command;
use cowlab_schema::footprint::Method;
use cowlab_store::Run;

use crate::diagnosis::{Costs, choices, mthp, price, words};

/// The forks of a footprint, priced.
pub struct Footprint {
    pub sentence: String,
    pub costs: Costs,
    title: String,
    notes: Vec<String>,
}

/// What is asked of a footprint.
#[derive(Default)]
pub struct Wanted<'a> {
    pub program: Option<&'a str>,
    /// `None`: as the footprint saw them.
    pub threads: Option<u32>,
    pub policies: Vec<String>,
}

impl Footprint {
    /// The run in `folder`, whose pages must be those of the machine profile.
    pub fn read(
        folder: &Path,
        wanted: &Wanted,
        prices: &MachineProfile,
        machine: &Facts,
    ) -> Result<Footprint> {
        let run = Run::read(folder)?;
        let (mut profile, subject) = profile_of(&run.samples, wanted.program)
            .with_context(|| folder.display().to_string())?;
        let base = prices.page_size_bytes;
        let page = run.info.environments.first().map_or(base, |of| of.page_size_bytes);
        if page != base {
            bail!(
                "{} counts pages of {page} bytes, the machine profile has pages of {base}: \
                 make the footprint on a machine with the same base page",
                folder.display()
            );
        }
        let of_worker = run.info.missing.iter().find(|row| row.metric == "forks");
        if let (false, Some(why)) = (subject.is_fork(), of_worker) {
            bail!("{}: {}", folder.display(), why.reason);
        }
        if !subject.is_fork() {
            bail!(
                "{}: no fork of {} was seen, so there is none to price: `{}` waits for one, and `cowlab predict \
                 {}` prices one of the memory that it had",
                folder.display(),
                subject.program,
                Command::FootprintForks,
                bytes(profile.pages * base).replace(' ', "")
            );
        }
        profile.threads = wanted.threads.map_or(profile.threads, f64::from);
        let mut notes = vec![format!(
            "{} of {} pages that were there are written by the {} ({}, {}), by {}",
            profile.written,
            profile.pages,
            subject.writer,
            subject.span,
            folder.display(),
            subject.method
        )];
        notes.extend(limits(&subject, profile.vmas.is_some()));
        notes.extend(Unjudged::of(&run.samples, wanted.program)?.notes(&profile));
        let around = Surroundings {
            mthp_sizes_bytes: mthp(machine),
            no_tend: Tender::refusal(None),
            policies: wanted.policies.clone(),
            ..Surroundings::default()
        };
        let costs = price(prices, &profile, &around, None)?;
        let name = &subject.program;
        Ok(Footprint {
            sentence: sentence(name, &costs, &folder.display().to_string()),
            title: format!("What a fork costs {name}, and what each choice would change"),
            costs,
            notes,
        })
    }

    pub fn document(&self, folder: &str, by: &str, tables: bool) -> Document {
        let mut document = Document::new(self.title.clone(), format!("• {}", self.sentence));
        document.facts.push(("prices".to_owned(), by.to_owned()));
        let mut blocks = vec![Block::Text(self.notes.join("; ") + ".")];
        blocks.extend(match tables {
            true => choices::all(&self.costs),
            false => choices::first(&self.costs, folder, true),
        });
        document.sections.push(Section::new("advice", "", blocks));
        document
    }
}

fn limits(subject: &Subject, counts_mappings: bool) -> Vec<String> {
    let uncounted = format!(
        "it did not count mappings: a fork is priced without them; `{}` counts them now",
        Command::FootprintForks
    );
    [
        (!counts_mappings).then_some(uncounted),
        (subject.method == Method::Snapshot).then(|| {
            "a comparison of snapshots does not see pages that were written as they were: the \
             copies may be more"
                .to_owned()
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn sentence(name: &str, costs: &Costs, folder: &str) -> String {
    let [stop, low, high] = [costs.stop_ns.value, costs.stop_ns.low, costs.stop_ns.high].map(time);
    let writes = costs.now().map_or_else(String::new, |now| {
        let extra = quantity(now.extra_bytes.value, "bytes");
        format!(
            ", and the writes after it cost {} and {extra} of memory",
            time(now.writes_ns.value)
        )
    });
    let remedy = costs
        .remedy()
        .and_then(|best| words::remedy(costs, best, folder, true))
        .unwrap_or_else(|| "No setting would save a tenth of it.".to_owned());
    format!("A fork stops {name} for {stop} ({low} to {high}) here{writes}. {remedy}")
}
