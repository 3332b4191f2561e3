// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which code copies the pages that forks share.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use cowlab_analysis::blame::{self, Blame, Changed, Place, blame};
use cowlab_analysis::samples::Samples;
use cowlab_model::Estimate;
use cowlab_schema::Writer;
use cowlab_schema::blame as names;
use cowlab_store::Run;
use cowlab_store::stacks::CopyStacks;
use serde::Serialize;

use crate::{Block, Cell, Column, Document, Drawing, Finding, Rows, Section, flame, fmt};

/// Places that have a sentence of their own: so many, with at least that share.
const TOLD: usize = 10;
const TOLD_SHARE: f64 = 0.01;
const LISTED: usize = 60;

/// What `--json` has.
#[derive(Debug, Serialize)]
pub struct BlameSummary {
    copied_pages: f64,
    pub copied_bytes: f64,
    other_pages: f64,
    workers: BTreeMap<String, usize>,
    told_stacks: usize,
    whole_stacks: usize,
    lost_stacks: Option<f64>,
    told_every: u32,
    places: Vec<PlaceSummary>,
}

#[derive(Debug, Serialize)]
struct PlaceSummary {
    program: String,
    writer: String,
    functions: Vec<String>,
    cause: Option<String>,
    share: f64,
    pages: f64,
    low_pages: f64,
    high_pages: f64,
    worker_bytes: Option<f64>,
}

pub struct Blamed {
    blame: Blame,
    folded: String,
    page_bytes: f64,
    lost_stacks: Option<f64>,
    /// All copies, also those of which no stack is there.
    total_pages: f64,
    /// What telling and reading took, by what the programs ran.
    cost: Option<f64>,
}

/// Debian's packages whose symbols fit what is installed: libpython3.11-dbg, say, has those of another build.
fn debug_package(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let version = name.strip_prefix("libpython").or_else(|| name.strip_prefix("python"));
    let version = version.map(|rest| rest.split(".so").next().unwrap_or(rest));
    match version {
        Some(version) if version.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("python{version}-dbg")
        }
        _ if name.starts_with("libc.so") || name.starts_with("ld-linux") => "libc6-dbg".to_owned(),
        _ => "NAME-dbg or NAME-dbgsym".to_owned(),
    }
}

impl Blamed {
    /// Of a run and the stacks that are kept beside it.
    pub fn of(run: &Run, stacks: &CopyStacks) -> Blamed {
        let samples = Samples::of(&run.samples, names::BENCH);
        let all = |metric| samples.values(metric).iter().sum::<f64>();
        let first = |metric| samples.first(metric);
        let environment = run.info.environments.first();
        let spent = first(names::TELLING_NS).zip(first(names::READING_NS)).map(|(t, r)| t + r);
        let mut workers = BTreeMap::new();
        let children = samples.with(names::WRITER, Writer::Child);
        for (program, of) in children.by(names::PROGRAM) {
            let count = of.first(names::PROCESSES).unwrap_or(0.0);
            workers.insert(program.to_owned(), (count as usize).max(1));
        }
        let total_pages = all(names::COPIED_PAGES);
        Blamed {
            total_pages,
            blame: blame(stacks, total_pages, &workers),
            folded: blame::folded(stacks),
            page_bytes: environment.map_or(4096.0, |of| of.page_size_bytes as f64),
            lost_stacks: first(names::LOST_STACKS),
            // Of programs that hardly ran a share says nothing.
            cost: spent
                .zip(first(names::RAN_NS).filter(|ran_ns| *ran_ns > 1e7))
                .map(|(spent, ran)| spent / ran),
        }
    }

    /// The share of the copies that a garbage collector made; `None` where no stack says it.
    pub fn collector_share(&self) -> Option<f64> {
        self.blame.collector_share()
    }

    /// Stacks by the line, for other programs.
    pub fn folded(&self) -> &str {
        &self.folded
    }

    /// The flame graph; `None` without copies.
    pub fn flame_graph(&self) -> Result<Option<String>> {
        flame::graph(&self.folded, "Pages copied after a fork, by code", "pages")
    }

    pub fn notes(&self) -> Vec<String> {
        let note = |file: &String| {
            format!(
                "{file} has no symbols: install its debug package ({}) to see the names of its functions",
                debug_package(file)
            )
        };
        self.blame.unnamed.iter().map(note).collect()
    }

    /// What `--json` has.
    pub fn summary(&self) -> BlameSummary {
        let blame = &self.blame;
        let places = blame.places.iter().map(|place| PlaceSummary {
            program: place.program.clone(),
            writer: place.writer.clone(),
            functions: place.functions.clone(),
            cause: place.cause.map(|cause| cause.id.clone()),
            share: place.share,
            pages: place.pages.value,
            low_pages: place.pages.low,
            high_pages: place.pages.high,
            worker_bytes: place.worker_pages.map(|pages| pages.value * self.page_bytes),
        });
        BlameSummary {
            copied_pages: blame.pages,
            copied_bytes: blame.pages * self.page_bytes,
            other_pages: blame.other_pages,
            workers: blame.workers.clone(),
            told_stacks: blame.told,
            whole_stacks: blame.whole,
            lost_stacks: self.lost_stacks,
            told_every: blame.every,
            places: places.collect(),
        }
    }

    pub fn document(&self, run: &Run) -> Result<Document> {
        let mut document =
            Document::new("Which code copies pages", format!("{} {}", self.answer(), self.how()));
        document.facts = crate::facts::headline_facts(&run.info);
        document.sections.push(self.code(run)?);
        Ok(document)
    }

    fn bytes(&self, pages: f64) -> String {
        fmt::bytes((pages * self.page_bytes).round() as u64)
    }

    /// The one sentence that was asked for.
    fn answer(&self) -> String {
        let blame = &self.blame;
        let Some(first) = blame.places.first() else {
            let all = fmt::count(self.total_pages.round() as u64);
            return match (self.total_pages > 0.0, blame.other_pages > 0.0) {
                (false, _) => "No page was copied. A worker copies each page once: restart one while blame runs, or wait \
                     for the next fork."
                    .to_owned(),
                (_, true) => format!(
                    "No page that a fork shares was copied; {all} copies were of private pages of files, \
                     which programs write when they start."
                ),
                _ => format!(
                    "{all} pages were copied, and the stack of none was recorded: give --every 1, and wait for the \
                     next fork."
                ),
            };
        };
        let each = match (blame.workers.get(&first.program), first.worker_pages) {
            (Some(workers), Some(pages)) => {
                let each = self.bytes(pages.value / first.share * first_share(blame, first));
                match workers {
                    1 => format!(" ({each} by the worker of {})", first.program),
                    _ => format!(
                        " (on average {each} by each of {workers} workers of {})",
                        first.program
                    ),
                }
            }
            _ => String::new(),
        };
        let ending = match blame.ending_share() {
            share if share > 0.0 && !first.is_ending() => format!(
                " Programs that were ending copied another {}, which does not count: they give all of it back.",
                self.bytes(blame.pages * share)
            ),
            _ => String::new(),
        };
        format!(
            "{} that forks share were copied{each}, {} of it by {} (← is \"called by\").{ending}",
            self.bytes(self.counted_pages()),
            fmt::percent(self.share(first).unwrap_or_default()),
            first.name()
        )
    }

    /// Without what programs copied that were ending, unless that is all.
    fn counted_pages(&self) -> f64 {
        let of_ending = if self.are_all_ending() { 0.0 } else { self.blame.ending_share() };
        self.blame.pages * (1.0 - of_ending)
    }

    fn are_all_ending(&self) -> bool {
        self.blame.places.iter().all(Place::is_ending)
    }

    /// Of what counts; of a program that was ending there is none beside others.
    fn share(&self, of: &Place) -> Option<f64> {
        (!of.is_ending() || self.are_all_ending()).then(|| of.pages.value / self.counted_pages())
    }

    fn code(&self, run: &Run) -> Result<Section> {
        let blame = &self.blame;
        let mut blocks: Vec<Block> = Vec::new();
        let mut told = BTreeSet::new();
        let (told_places, rest): (Vec<_>, Vec<_>) = blame
            .places
            .iter()
            .enumerate()
            .partition(|(at, place)| *at == 0 || (*at < TOLD && place.share >= TOLD_SHARE));
        for (_, place) in told_places {
            // What is known of a cause is said once.
            let is_new = place.cause.is_none_or(|cause| told.insert(&cause.id));
            blocks.push(self.finding(place, is_new));
        }
        if !rest.is_empty() {
            let pages: f64 = rest.iter().map(|(_, place)| place.pages.value).sum();
            let places = if rest.len() == 1 { "other place" } else { "other places" };
            blocks.push(Block::Text(format!(
                "{} {places} copied {} pages in all ({}).",
                rest.len(),
                fmt::count(pages.round() as u64),
                fmt::percent(pages / blame.pages)
            )));
        }
        if let Some(svg) = self.flame_graph()? {
            let caption = "Pages copied, by code".to_owned();
            blocks.push(Block::Drawing(Drawing { id: "flame".to_owned(), caption, svg }));
        }
        if !blame.places.is_empty() {
            let listed = &blame.places[..blame.places.len().min(LISTED)];
            blocks.push(Block::Table(self.places(listed)));
            blocks.push(Block::Table(self.mappings()));
        }
        blocks.extend(self.notes().into_iter().map(Block::Note));
        for missing in &run.info.missing {
            blocks.push(Block::Note(format!("`{}`: {}.", missing.metric, missing.reason)));
        }
        Ok(Section::new("blame", "By code", blocks))
    }

    fn how(&self) -> String {
        let blame = &self.blame;
        let mut text = match blame.every {
            _ if blame.told == 0 => "No stack was recorded".to_owned(),
            1 if self.lost_stacks.is_some_and(|lost| lost > 0.0) => {
                format!("{} copies were recorded with their stacks", fmt::count(blame.told as u64))
            }
            1 => format!("All copies were recorded: {} stacks", fmt::count(blame.told as u64)),
            every => format!(
                "All copies were counted, and at least 1 in {every} was recorded with its stack: {} \
                 stacks; the 95% intervals are of that sample",
                fmt::count(blame.told as u64)
            ),
        };
        if blame.told > 0 {
            let whole = fmt::percent(blame.whole as f64 / blame.told as f64);
            text += &format!(", {whole} of them complete, from main or a thread's beginning");
        }
        if let Some(cost) = self.cost.filter(|_| blame.told > 0) {
            let cost = fmt::percent(cost);
            text += &format!(". Recording took CPU time equal to {cost} of the programs' own");
        }
        text + "."
    }

    fn finding(&self, place: &Place, is_new: bool) -> Block {
        let of = match place.worker_pages {
            Some(pages) => format!("{} a worker", self.bytes(pages.value)),
            None => format!("{} in the {}", self.bytes(place.pages.value), place.writer),
        };
        let functions: Vec<String> =
            place.functions.iter().map(|name| format!("`{name}`")).collect();
        let mut detail = Vec::new();
        if let Some(cause) = place.cause.filter(|_| is_new) {
            let (means, remedy) = (fmt::capital(&cause.means), &cause.remedy);
            detail.push(format!("{means}; to avoid it: {remedy} ({}).", cause.source));
        }
        if let Some(ns) = place.half_ns {
            detail.push(format!(
                "Half of them happened within {} of the fork.",
                fmt::time(ns as f64)
            ));
        }
        if place.pages.low < place.pages.high {
            let [low, high] = [place.pages.low, place.pages.high].map(|pages| self.bytes(pages));
            detail.push(format!("95% interval: {low} to {high} in all."));
        }
        let share = match self.share(place) {
            Some(share) => format!("{} of the copies", fmt::percent(share)),
            None => "when it ended".to_owned(),
        };
        Block::Finding(Finding {
            headline: format!("{share}, {of}: {}", functions.join(" ← ").replace('`', "")),
            detail: detail.join(" "),
            samples: Some("places".to_owned()),
        })
    }

    fn places(&self, listed: &[Place]) -> crate::Table {
        let bytes = self.page_bytes;
        Rows::of("places", "Code that copies pages", listed)
            .text("code", Place::name)
            .text("program", |place| &place.program)
            .text("side", |place| &place.writer)
            .figure("share", |place| match self.share(place) {
                Some(share) => Cell::number(share, "fraction"),
                None => Cell::Missing("its program was ending".to_owned()),
            })
            .unit("pages", "pages", |place| estimate(place.pages, "pages"))
            .unit("a worker", "bytes", |place| match place.worker_pages {
                Some(pages) => estimate(pages.scaled(bytes), "bytes"),
                None => Cell::Missing("the parent wrote".to_owned()),
            })
            .unit("half after", "ns", |place| match place.half_ns {
                Some(ns) => Cell::number(ns as f64, "ns"),
                None => Cell::Missing("forked before this run".to_owned()),
            })
            .text("cause", |place| place.cause.map_or("", |cause| &cause.id))
            .table()
    }

    fn mappings(&self) -> crate::Table {
        let listed = &self.blame.mappings[..self.blame.mappings.len().min(LISTED)];
        Rows::of("mappings", "What is mapped where pages were copied", listed)
            .text("mapping", |(name, _)| match name.as_str() {
                "" => "gone before it could be looked up",
                name => name,
            })
            .unit("pages", "pages", |(_, pages)| estimate(*pages, "pages"))
            .table()
    }
}

/// What all workers of a place's program copied, by what was copied in all; without what they copied
/// when they ended, unless that is all.
fn first_share(blame: &Blame, of: &Place) -> f64 {
    let is_same = |p: &&Place| {
        p.program == of.program && p.writer == of.writer && p.is_ending() == of.is_ending()
    };
    blame.places.iter().filter(is_same).map(|place| place.share).sum()
}

fn estimate(of: Estimate, unit: &str) -> Cell {
    match of.low < of.high {
        true => Cell::estimate(of.value, of.low, of.high, unit),
        false => Cell::number(of.value, unit),
    }
}

pub fn comparison(both: [&Blamed; 2], names: [&str; 2]) -> Document {
    let changes = blame::changes(both.map(|of| &of.blame));
    // Of the program that copied most, where its workers did and both have some of it.
    let first = both[0].blame.places.first().filter(|place| place.worker_pages.is_some());
    let program = first
        .map(|place| place.program.clone())
        .filter(|program| both.iter().all(|of| of.blame.workers.contains_key(program)));
    let each = |of: &Blamed| match &program {
        None => of.blame.pages,
        Some(program) => {
            let places = of.blame.places.iter().filter(|place| place.program == *program);
            places.filter_map(|place| place.worker_pages).map(|pages| pages.value).sum()
        }
    };
    let bytes = both.map(|of| each(of) * of.page_bytes);
    let per = program.map_or_else(String::new, |program| format!(" a worker of {program}"));
    let answer = crate::comparison::copied(&per, bytes, names);
    let mut document = Document::new("Comparison of two blames", answer);
    let bytes = both[0].page_bytes;
    let cell = |pages: Option<Estimate>| match pages {
        Some(pages) => estimate(pages.scaled(bytes), "bytes"),
        None => Cell::Missing("not in this run".to_owned()),
    };
    let listed = &changes[..changes.len().min(LISTED)];
    let value = |of: &Changed, at: usize| of.pages[at].map_or(0.0, |pages| pages.value * bytes);
    let table = Rows::of(
        "changes",
        "Code, the largest change first: of children a worker, of parents in all",
        listed,
    )
    .text("code", |of| &of.name)
    .text("program", |of| &of.who)
    .unit("first", "bytes", |of| cell(of.pages[0]))
    .unit("second", "bytes", |of| cell(of.pages[1]))
    .column(Column::unit("change", "bytes"), |of| {
        Cell::number(value(of, 1) - value(of, 0), "bytes")
    })
    .table();
    let blocks = vec![Block::Table(table)];
    document.sections.push(Section::new("comparison", "By code", blocks));
    document
}

/// The flame graph of their difference; `None` where the second copied nothing.
pub fn difference(both: [&Blamed; 2]) -> Result<Option<String>> {
    let title = "Pages copied after a fork: difference";
    flame::difference(both.map(|of| of.folded.as_str()), title, "pages")
}
