// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The application profile that the samples of a footprint hold.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use cowlab_model::application::{
    ApplicationProfile, Children, MappingShare, Region, Replay, has_collector,
};
use cowlab_model::cost::Vmas;
use cowlab_model::profile::Writer;
use cowlab_schema::{Command, footprint};
use cowlab_store::{Named, Sample};

/// The name of a footprint's samples.
pub const BENCH: &str = footprint::BENCH.name;
/// The value of `mapping` and `region` in rows of all of them together.
pub const ALL: &str = "all";
/// The method that compares bytes: it does not see what was rewritten as it was.
pub const SNAPSHOT: &str = "snapshot";

/// Of a program's spans the one that a fork's cost comes from, if there is any.
const FORK_TO_EXIT: &str = "fork-to-exit";
/// One that executed another program instead.
const FORK_TO_EXEC: &str = "fork-to-exec";
/// The writer where it is only known that one of the two wrote, or of both together.
const EITHER: &str = "either";
/// Between two marks, or from the beginning to the end: nothing was forked.
const NO_FORK: [&str; 3] = ["marks", "interval", "run"];

/// Which of a footprint's figures are meant: those of one program's spans of one kind, by one
/// writer and one method.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// Its program.
    pub program: String,
    /// Between which moments: `fork-to-exit`, `marks`, …
    pub span: String,
    /// `parent`, `child`, `either` or `own`.
    pub writer: String,
    /// How the writes were seen.
    pub method: String,
}

impl Subject {
    fn of(sample: &Sample) -> Option<Subject> {
        let param = |name: &str| sample.params.get(name).cloned();
        Some(Subject {
            program: param("program")?,
            span: param("span")?,
            writer: param("writer")?,
            method: param("method")?,
        })
    }

    /// The rows of this subject.
    fn rows<'a>(&'a self, samples: &'a [Sample]) -> impl Iterator<Item = &'a Sample> + Clone {
        samples.iter().filter(|s| s.bench == BENCH && Subject::of(s).as_ref() == Some(self))
    }

    /// A figure of all its mappings together, of one span where there were several.
    pub fn total(&self, samples: &[Sample], metric: &str) -> Option<f64> {
        let all = |s: &&Sample| {
            s.params.get("mapping").is_some_and(|of| of == ALL) && !s.params.contains_key("region")
        };
        let figure = |metric: &str| {
            self.rows(samples).filter(all).find(|s| s.metric == metric).map(|s| s.value)
        };
        let spans = figure("spans").unwrap_or(1.0).max(1.0);
        let is_sum = metric.unit() != "fraction" && metric != "spans";
        figure(metric).map(|value| if is_sum { value / spans } else { value })
    }

    /// A fork, whose cost a machine profile can tell.
    pub fn is_fork(&self) -> bool {
        self.span == FORK_TO_EXIT
    }
}

/// What was looked at, the most telling first: forks before other spans, a method that sees writes
/// before the comparison of bytes, one writer before both together, then whoever wrote most.
pub fn subjects(samples: &[Sample]) -> Vec<Subject> {
    let mut found: Vec<Subject> =
        samples.iter().filter(|s| s.bench == BENCH).filter_map(Subject::of).collect();
    found.sort();
    found.dedup();
    found.retain(|of| of.is_fork() || NO_FORK.contains(&of.span.as_str()));
    let written = |of: &Subject| {
        let metric = if of.is_fork() { "cow_pages" } else { "pages_written" };
        of.total(samples, metric).unwrap_or(0.0)
    };
    found.sort_by(|a, b| {
        let rank = |of: &Subject| (!of.is_fork(), of.method == SNAPSHOT, of.writer == EITHER);
        rank(a).cmp(&rank(b)).then(written(b).total_cmp(&written(a)))
    });
    found
}

/// The most telling subject, of `program` alone if one is named.
fn subject_of(samples: &[Sample], program: Option<&str>) -> Result<Subject> {
    let all = subjects(samples);
    if let Some(subject) = all.iter().find(|of| program.is_none_or(|name| of.program == name)) {
        return Ok(subject.clone());
    }
    let names: BTreeSet<&str> = all.iter().map(|of| of.program.as_str()).collect();
    match program {
        Some(name) if !names.is_empty() => bail!(
            "this footprint has no program {name}: it has {}",
            Vec::from_iter(names).join(", ")
        ),
        _ => bail!("this run holds no footprint: make one with `{}`", Command::FootprintForks),
    }
}

/// What was looked at and could not be judged: a profile counts it as not written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unjudged {
    /// Pages of a span, in swap at one of its moments, unreadable, or given back before anybody looked.
    pub pages: u64,
    /// Write faults of the whole run that were lost.
    pub lost_faults: u64,
}

impl Unjudged {
    /// What the profile that [`profile_of`] makes of the same samples leaves out. Fails without a
    /// footprint in the samples.
    pub fn of(samples: &[Sample], program: Option<&str>) -> Result<Unjudged> {
        let subject = subject_of(samples, program)?;
        let pages = |metric: &str| subject.total(samples, metric).unwrap_or(0.0).ceil() as u64;
        let pages = pages("unknown_pages") + pages("freed_unseen_pages");
        let lost = samples.iter().find(|s| s.bench == BENCH && s.metric == "lost_faults");
        Ok(Unjudged { pages, lost_faults: lost.map_or(0, |s| s.value as u64) })
    }

    /// Pages that are written if all that could not be judged are.
    pub fn at_most(&self, profile: &ApplicationProfile) -> u64 {
        profile.written.saturating_add(self.pages).min(profile.pages)
    }

    /// What to say of it.
    pub fn notes(&self, profile: &ApplicationProfile) -> Vec<String> {
        let mut notes = Vec::new();
        if self.pages > 0 {
            notes.push(format!(
                "{} pages could not be judged and do not count as written: at most {} are",
                self.pages,
                self.at_most(profile)
            ));
        }
        if self.lost_faults > 0 {
            notes.push(format!("{} faults were lost: more may be written", self.lost_faults));
        }
        notes
    }
}

/// The profile of the most telling subject, of `program` alone if one is named. Fails without a
/// footprint in the samples.
pub fn profile_of(
    samples: &[Sample],
    program: Option<&str>,
) -> Result<(ApplicationProfile, Subject)> {
    let subject = subject_of(samples, program)?;
    let count = |metric: &str| subject.total(samples, metric).map(|value| value.round() as u64);
    let (Some(mapped), Some(all_written)) = (count("pages_mapped"), count("pages_written")) else {
        bail!("the footprint by {} lacks its totals: it is cut", subject.method);
    };
    // Of what the fork shared; pages that came after it are no copies.
    let (pages, written) = if subject.is_fork() {
        (count("start_pages").unwrap_or(mapped), count("cow_pages").unwrap_or(all_written))
    } else {
        (mapped, all_written)
    };
    let mut profile = ApplicationProfile::of_pages(pages.max(written), written);
    if subject.writer == "child" {
        profile.writer = Writer::Child;
    }
    // A footprint of before has no such figure.
    if let (Some(all), Some(anon)) = (count("vmas"), count("vmas_anon")) {
        profile.vmas = Some(Vmas { anon, others: all.saturating_sub(anon) });
    }
    profile.children = children(samples, &subject);
    profile.has_collector = has_collector(&subject.program);
    profile.mappings = mappings(samples, &subject);
    profile.regions = regions(samples, &subject);
    profile.replays = replays(samples, &subject);
    Ok((profile, subject))
}

/// What its children were seen to do: one that ends as it was forked worked with the memory.
fn children(samples: &[Sample], subject: &Subject) -> Children {
    let known = Children::of(&subject.program);
    let is_of_it = |of: &Subject| of.program == subject.program;
    let executes = |of: &Subject| is_of_it(of) && of.span == FORK_TO_EXEC;
    let mut all = samples.iter().filter(|s| s.bench == BENCH).filter_map(Subject::of);
    match known {
        Children::Unknown if subject.is_fork() => Children::Serve,
        Children::Unknown if all.any(|of| executes(&of)) => Children::Execute,
        known => known,
    }
}

/// Mapped and written pages by the value of one parameter, in the order of the rows: of a fork those
/// that it shared and that were copied, also if they were given back since.
fn pairs<'a>(
    rows: impl Iterator<Item = &'a Sample> + Clone,
    param: &str,
    is_fork: bool,
) -> Vec<(String, u64, u64)> {
    // The map of a footprint of before has only what was there at the end.
    let has_start = rows.clone().any(|row| row.metric == "start_pages");
    let (mapped, written) = match is_fork && has_start {
        true => ("start_pages", "cow_pages"),
        false => ("pages_mapped", "pages_written"),
    };
    let mut found: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in rows {
        let Some(name) = row.params.get(param) else { continue };
        let pages = found.entry(name.clone()).or_default();
        match row.metric.as_str() {
            metric if metric == mapped => pages.0 += row.value as u64,
            metric if metric == written => pages.1 += row.value as u64,
            _ => {}
        }
    }
    found.into_iter().map(|(name, (mapped, written))| (name, mapped, written.min(mapped))).collect()
}

fn mappings(samples: &[Sample], subject: &Subject) -> Vec<MappingShare> {
    let is_mapping = |s: &&Sample| {
        !s.params.contains_key("region") && s.params.get("mapping").is_some_and(|of| of != ALL)
    };
    pairs(subject.rows(samples).filter(is_mapping), "mapping", subject.is_fork())
        .into_iter()
        .map(|(name, pages, written)| MappingShare { name, pages, written })
        .collect()
}

fn regions(samples: &[Sample], subject: &Subject) -> Option<Vec<Region>> {
    let rows = subject.rows(samples).filter(|s| s.params.contains_key("region"));
    let regions = pairs(rows, "region", subject.is_fork());
    let region = |(_, pages, written)| Region { pages, written };
    (!regions.is_empty()).then(|| regions.into_iter().map(region).collect())
}

fn replays(samples: &[Sample], subject: &Subject) -> Vec<Replay> {
    let mut found: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for row in samples.iter().filter(|s| s.bench == BENCH) {
        let writer = row.params.get("writer");
        if let (Some(policy), true) =
            (row.params.get("policy"), writer.is_some_and(|of| *of == subject.writer))
        {
            found.entry(policy).or_default().insert(&row.metric, row.value as u64);
        }
    }
    let replay = |(policy, figures): (&str, BTreeMap<&str, u64>)| {
        let ahead = *figures.get("precopied_pages")?;
        Some(Replay {
            policy: policy.to_owned(),
            faults: *figures.get("faults_left")?,
            ahead,
            wasted: ahead.saturating_sub(*figures.get("precopied_written_pages")?),
        })
    };
    found.into_iter().filter_map(replay).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cowlab_store::Params;

    fn row(writer: &str, method: &str, more: &[(&str, &str)], metric: &str, value: f64) -> Sample {
        let mut params: BTreeMap<String, String> = BTreeMap::new();
        let of = [
            ("program", "server"),
            ("span", FORK_TO_EXIT),
            ("writer", writer),
            ("method", method),
            ("mapping", ALL),
        ];
        for (key, value) in of.iter().chain(more) {
            params.insert((*key).into(), (*value).into());
        }
        Sample::new(BENCH, params, metric, value)
    }

    /// Two forks of a server: of 1000 pages 100 are copied, 20 come new.
    fn footprint() -> Vec<Sample> {
        let mut samples = Vec::new();
        for (writer, method, copied) in [
            ("parent", "exclusive", 100.0),
            ("child", "exclusive", 3.0),
            ("parent", SNAPSHOT, 90.0),
        ] {
            for (metric, value) in [
                ("spans", 2.0),
                ("start_pages", 2000.0),
                ("pages_mapped", 2040.0),
                ("pages_written", copied * 2.0 + 40.0),
                ("cow_pages", copied * 2.0),
                ("vmas", 180.0),
                ("vmas_anon", 60.0),
            ] {
                samples.push(row(writer, method, &[], metric, value));
            }
        }
        for (name, pages, written) in [("heap", 800.0, 90.0), ("stack", 200.0, 10.0)] {
            let mapping = [("mapping", name)];
            samples.push(row("parent", "exclusive", &mapping, "pages_mapped", pages));
            samples.push(row("parent", "exclusive", &mapping, "pages_written", written));
        }
        for (place, pages, written) in [("0", 512.0, 100.0), ("1", 488.0, 0.0)] {
            let region = [("mapping", "heap"), ("region", place)];
            samples.push(row("parent", "exclusive", &region, "start_pages", pages));
            samples.push(row("parent", "exclusive", &region, "cow_pages", written));
            // Given back since: of the fork it counts.
            samples.push(row("parent", "exclusive", &region, "pages_mapped", 0.0));
            samples.push(row("parent", "exclusive", &region, "pages_written", 0.0));
        }
        for (metric, value) in
            [("faults_left", 60.0), ("precopied_pages", 41.0), ("precopied_written_pages", 40.0)]
        {
            let mut policy = row("parent", "", &[], metric, value);
            policy.params = Params::from([
                ("policy".to_owned(), "next".to_owned()),
                ("writer".to_owned(), "parent".to_owned()),
            ]);
            samples.push(policy);
        }
        samples
    }

    #[test]
    fn the_profile_is_of_one_fork_by_whoever_writes() {
        let (profile, subject) = profile_of(&footprint(), None).unwrap();
        assert_eq!((subject.writer.as_str(), subject.method.as_str()), ("parent", "exclusive"));
        assert_eq!((profile.pages, profile.written), (1000, 100));
        assert_eq!(profile.writer, Writer::Parent);
        assert_eq!(profile.vmas, Some(Vmas { anon: 30, others: 60 }));
        assert_eq!((profile.mappings[0].name.as_str(), profile.mappings[0].written), ("heap", 90));
        assert_eq!(profile.mappings.len(), 2);
        let regions = profile.regions.unwrap();
        assert_eq!((regions[0].written, regions[1].written), (100, 0));
        let next = Replay { policy: "next".into(), faults: 60, ahead: 41, wasted: 1 };
        assert_eq!(profile.replays, [next]);
        assert_eq!(subject.total(&footprint(), "pages_written"), Some(120.0));
    }

    #[test]
    fn what_could_not_be_judged_bounds_what_is_written() {
        let mut samples = footprint();
        let (profile, _) = profile_of(&samples, None).unwrap();
        let none = Unjudged::of(&samples, None).unwrap();
        assert_eq!((none, none.at_most(&profile)), (Unjudged::default(), 100));
        assert!(none.notes(&profile).is_empty());
        // Of two spans together, and of whom the profile is not.
        samples.push(row("parent", "exclusive", &[], "unknown_pages", 71.0));
        samples.push(row("parent", "exclusive", &[], "freed_unseen_pages", 10.0));
        samples.push(row("child", "exclusive", &[], "unknown_pages", 900.0));
        samples.push(Sample::new(BENCH, Params::new(), "lost_faults", 7.0));
        let some = Unjudged::of(&samples, Some("server")).unwrap();
        assert_eq!(some, Unjudged { pages: 41, lost_faults: 7 });
        assert_eq!(some.at_most(&profile), 141);
        let notes = some.notes(&profile);
        assert!(notes[0].starts_with("41 pages could not be judged"), "{notes:?}");
        assert!(notes[0].ends_with("at most 141 are"), "{notes:?}");
        assert!(notes[1].starts_with("7 faults were lost"), "{notes:?}");
        assert_eq!(Unjudged { pages: 1 << 40, ..some }.at_most(&profile), profile.pages);
        assert!(Unjudged::of(&[], None).is_err());
    }

    #[test]
    fn what_is_no_footprint_is_refused() {
        let message =
            |samples: &[Sample], program| profile_of(samples, program).unwrap_err().to_string();
        assert!(message(&[], None).contains("cowlab footprint"));
        assert!(message(&footprint(), Some("emacs")).contains("it has server"));
        let cut = [row("parent", "exclusive", &[], "pages_mapped", 5.0)];
        assert!(message(&cut, None).contains("lacks its totals"));
    }
}
