// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The application profile that the samples of a footprint hold.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use cowlab_model::application::{
    ApplicationProfile, Children, MappingShare, Region, Replay, has_collector,
};
use cowlab_model::cost::Vmas;
use cowlab_schema::footprint::{
    BENCH, Between, COW_PAGES, DURATION_NS, FAULTS_LEFT, FREED_UNSEEN_PAGES, LOST_FAULTS, MAPPING,
    METHOD, Mapping, Method, NEARBY_PAGES, OBSERVING_NS, OTHERS_CPU_NS, PAGES_MAPPED,
    PAGES_WRITTEN, POLICY, PRECOPIED_PAGES, PRECOPIED_WRITTEN_PAGES, PROGRAM, REGION, SPAN, SPANS,
    START_PAGES, UNKNOWN_PAGES, VMAS, VMAS_ANON, WRITER, WRITER_CPU_NS,
};
use cowlab_schema::{Command, Key, Metric, Params, Value, Writer};
use cowlab_store::Sample;

use crate::samples::Samples;

/// Which of a footprint's figures are meant: those of one program's spans of one kind, by one
/// writer and one method.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    pub program: String,
    pub span: Between,
    pub writer: Writer,
    pub method: Method,
}

impl Subject {
    fn of(params: &Params) -> Option<Subject> {
        Some(Subject {
            program: params.get(PROGRAM.name())?.clone(),
            span: SPAN.of(params)?,
            writer: WRITER.of(params)?,
            method: METHOD.of(params)?,
        })
    }

    fn rows<'a>(&self, samples: &Samples<'a>) -> Samples<'a> {
        let of_program = samples.with(PROGRAM, &self.program).with(SPAN, self.span);
        of_program.with(WRITER, self.writer).with(METHOD, self.method)
    }

    /// A figure of all its mappings together, of one span where there were several.
    pub fn total(&self, samples: &Samples, metric: Metric) -> Option<f64> {
        let all = self.rows(samples).with(MAPPING, Mapping::All).without(REGION);
        let is_sum = metric.unit != "fraction" && metric != SPANS;
        let spans = self.spans(samples) as f64;
        all.first(metric).map(|value| if is_sum { value / spans } else { value })
    }

    pub fn spans(&self, samples: &Samples) -> u64 {
        let all = self.rows(samples).with(MAPPING, Mapping::All).without(REGION);
        all.first(SPANS).unwrap_or(1.0).max(1.0) as u64
    }

    /// A fork, whose cost a machine profile can tell.
    pub fn is_fork(&self) -> bool {
        self.span == Between::ForkToExit
    }
}

/// What was looked at, the most telling first: forks before other spans, a method that sees writes
/// before the comparison of bytes, one writer before both together, then whoever wrote most.
pub fn subjects(samples: &Samples) -> Vec<Subject> {
    let mut found: Vec<Subject> =
        samples.params().filter_map(Subject::of).collect::<BTreeSet<_>>().into_iter().collect();
    // What is executed after a fork is another program.
    found.retain(|of| of.span != Between::ForkToExec);
    let written = |of: &Subject| {
        of.total(samples, if of.is_fork() { COW_PAGES } else { PAGES_WRITTEN }).unwrap_or(0.0)
    };
    found.sort_by(|a, b| {
        let rank = |of: &Subject| {
            (!of.is_fork(), of.method == Method::Snapshot, of.writer == Writer::Either)
        };
        rank(a).cmp(&rank(b)).then(written(b).total_cmp(&written(a)))
    });
    found
}

/// The most telling subject, of `program` alone if one is named.
fn subject_of(samples: &Samples, program: Option<&str>) -> Result<Subject> {
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
        let samples = &Samples::of(samples, BENCH);
        let subject = subject_of(samples, program)?;
        let pages = |metric| subject.total(samples, metric).unwrap_or(0.0).ceil() as u64;
        let pages = pages(UNKNOWN_PAGES) + pages(FREED_UNSEEN_PAGES);
        let lost_faults = samples.first(LOST_FAULTS).map_or(0, |faults| faults as u64);
        Ok(Unjudged { pages, lost_faults })
    }

    /// Pages that are written if all that could not be judged are.
    fn at_most(&self, profile: &ApplicationProfile) -> u64 {
        profile.written.saturating_add(self.pages).min(profile.pages)
    }

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

/// Threads that run less than that are asleep but for housekeeping.
const LEAST_THREADS: f64 = 0.02;

/// The profile of the most telling subject, of `program` alone if one is named. Fails without a
/// footprint in the samples.
pub fn profile_of(
    samples: &[Sample],
    program: Option<&str>,
) -> Result<(ApplicationProfile, Subject)> {
    let samples = &Samples::of(samples, BENCH);
    let subject = subject_of(samples, program)?;
    let count = |metric| subject.total(samples, metric).map(|value| value.round() as u64);
    let (Some(mapped), Some(all_written)) = (count(PAGES_MAPPED), count(PAGES_WRITTEN)) else {
        bail!("the footprint by {} lacks its totals: it is cut", subject.method);
    };
    // Of what the fork shared; pages that came after it are no copies.
    let (pages, written) = if subject.is_fork() {
        (count(START_PAGES).unwrap_or(mapped), count(COW_PAGES).unwrap_or(all_written))
    } else {
        (mapped, all_written)
    };
    let mut profile = ApplicationProfile::of_pages(pages.max(written), written);
    if subject.writer == Writer::Child {
        profile.writer = Writer::Child;
    }
    // A footprint of before has no such figure.
    if let (Some(all), Some(anon)) = (count(VMAS), count(VMAS_ANON)) {
        profile.vmas = Some(Vmas { anon, others: all.saturating_sub(anon) });
    }
    let per_copy = |metric| {
        let of_span = subject.total(samples, metric).filter(|_| subject.is_fork() && written > 0);
        of_span.map(|value| value / written as f64)
    };
    // Less what seeing its faults took of it.
    let seen = samples.first(OBSERVING_NS).filter(|_| subject.method == Method::Faults);
    profile.cpu_ns_per_copy = per_copy(WRITER_CPU_NS).map(|ns| (ns - seen.unwrap_or(0.0)).max(0.0));
    // Of the time between fork and end: with them every copy interrupts another CPU.
    let total = |metric| subject.total(samples, metric).filter(|_| subject.is_fork());
    if let (Some(others_ns), Some(lasted_ns)) = (total(OTHERS_CPU_NS), total(DURATION_NS)) {
        let threads = others_ns / lasted_ns.max(1.0);
        profile.threads = if threads < LEAST_THREADS { 0.0 } else { threads };
    }
    profile.child_s = total(DURATION_NS).map(|ns| ns / 1e9);
    profile.between_forks_s = between_forks_s(samples, &subject);
    profile.nearby_share = per_copy(NEARBY_PAGES).map(|share| share.min(1.0));
    profile.children = children(samples, &subject);
    profile.has_collector = has_collector(&subject.program);
    profile.mappings = mappings(samples, &subject);
    profile.regions = regions(samples, &subject);
    profile.replays = replays(samples, &subject);
    Ok((profile, subject))
}

/// From one fork to the next, of a program that was followed from its beginning to its end.
fn between_forks_s(samples: &Samples, subject: &Subject) -> Option<f64> {
    let run = Subject { span: Between::Run, writer: Writer::Own, ..subject.clone() };
    let forks = subject.spans(samples);
    let lasted_ns = run.total(samples, DURATION_NS).filter(|_| forks > 1 && subject.is_fork())?;
    Some(lasted_ns / 1e9 / forks as f64)
}

/// What its children were seen to do: one that ends as it was forked worked with the memory.
fn children(samples: &Samples, subject: &Subject) -> Children {
    let executed = samples.with(PROGRAM, &subject.program).with(SPAN, Between::ForkToExec);
    match Children::of(&subject.program) {
        Children::Unknown if subject.is_fork() => Children::Serve,
        Children::Unknown if !executed.is_empty() => Children::Execute,
        known => known,
    }
}

/// Mapped and written pages by the value of one parameter, in its order: of a fork those that it
/// shared and that were copied, also if they were given back since.
fn pairs<T: Value>(rows: &Samples, key: Key<T>, is_fork: bool) -> Vec<(String, u64, u64)> {
    let of = |(name, rows): (&str, Samples)| {
        let pages = |metric| rows.values(metric).iter().map(|pages| *pages as u64).sum::<u64>();
        // The map of a footprint of before has only what was there at the end.
        let (mapped, written) = match is_fork && rows.first(START_PAGES).is_some() {
            true => (pages(START_PAGES), pages(COW_PAGES)),
            false => (pages(PAGES_MAPPED), pages(PAGES_WRITTEN)),
        };
        (name.to_owned(), mapped, written.min(mapped))
    };
    let mut found: Vec<_> = rows.by(key).into_iter().map(of).collect();
    found.sort();
    found
}

fn mappings(samples: &Samples, subject: &Subject) -> Vec<MappingShare> {
    let mut found = pairs(&subject.rows(samples).without(REGION), MAPPING, subject.is_fork());
    found.retain(|(name, ..)| name != Mapping::All.name());
    let share = |(name, pages, written)| MappingShare { name, pages, written };
    found.into_iter().map(share).collect()
}

fn regions(samples: &Samples, subject: &Subject) -> Option<Vec<Region>> {
    let regions = pairs(&subject.rows(samples), REGION, subject.is_fork());
    let region = |(_, pages, written)| Region { pages, written };
    (!regions.is_empty()).then(|| regions.into_iter().map(region).collect())
}

fn replays(samples: &Samples, subject: &Subject) -> Vec<Replay> {
    let mut policies = samples.with(WRITER, subject.writer).by(POLICY);
    policies.sort_by_key(|(policy, _)| *policy);
    let replay = |(policy, rows): (&str, Samples)| {
        let count = |metric| Some(*rows.values(metric).last()? as u64);
        let ahead = count(PRECOPIED_PAGES)?;
        Some(Replay {
            policy: policy.to_owned(),
            faults: count(FAULTS_LEFT)?,
            ahead,
            wasted: ahead.saturating_sub(count(PRECOPIED_WRITTEN_PAGES)?),
        })
    };
    policies.into_iter().filter_map(replay).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(writer: Writer, method: Method) -> Params {
        let mut params = Params::new();
        PROGRAM.put(&mut params, "server");
        SPAN.put(&mut params, Between::ForkToExit);
        WRITER.put(&mut params, writer);
        METHOD.put(&mut params, method);
        MAPPING.put(&mut params, Mapping::All);
        params
    }

    /// Rows of the parent's writes, by the page table.
    fn rows(
        mapping: Mapping,
        region: Option<u64>,
        figures: &[(Metric, f64)],
    ) -> impl Iterator<Item = Sample> {
        let mut params = params(Writer::Parent, Method::Exclusive);
        MAPPING.put(&mut params, mapping);
        if let Some(region) = region {
            REGION.put(&mut params, region);
        }
        figures.iter().map(move |(metric, value)| Sample::of(*metric, params.clone(), *value))
    }

    /// Two forks of a server: of 1000 pages 100 are copied, 20 come new.
    fn footprint() -> Vec<Sample> {
        let mut samples = Vec::new();
        for (writer, method, copied) in [
            (Writer::Parent, Method::Exclusive, 100.0),
            (Writer::Child, Method::Exclusive, 3.0),
            (Writer::Parent, Method::Snapshot, 90.0),
        ] {
            for (metric, value) in [
                (SPANS, 2.0),
                (START_PAGES, 2000.0),
                (PAGES_MAPPED, 2040.0),
                (PAGES_WRITTEN, copied * 2.0 + 40.0),
                (COW_PAGES, copied * 2.0),
                (VMAS, 180.0),
                (VMAS_ANON, 60.0),
            ] {
                samples.push(Sample::of(metric, params(writer, method), value));
            }
        }
        for (mapping, pages, written) in
            [(Mapping::Heap, 800.0, 90.0), (Mapping::Stack, 200.0, 10.0)]
        {
            samples.extend(rows(mapping, None, &[(PAGES_MAPPED, pages), (PAGES_WRITTEN, written)]));
        }
        for (place, pages, written) in [(0, 512.0, 100.0), (1, 488.0, 0.0)] {
            // Given back since: of the fork it counts.
            let back = [(PAGES_MAPPED, 0.0), (PAGES_WRITTEN, 0.0)];
            let figures = [&[(START_PAGES, pages), (COW_PAGES, written)], &back[..]].concat();
            samples.extend(rows(Mapping::Heap, Some(place), &figures));
        }
        let mut policy = Params::new();
        POLICY.put(&mut policy, "next");
        WRITER.put(&mut policy, Writer::Parent);
        for (metric, value) in
            [(FAULTS_LEFT, 60.0), (PRECOPIED_PAGES, 41.0), (PRECOPIED_WRITTEN_PAGES, 40.0)]
        {
            samples.push(Sample::of(metric, policy.clone(), value));
        }
        samples
    }

    #[test]
    fn the_profile_is_of_one_fork_by_whoever_writes() {
        let (profile, subject) = profile_of(&footprint(), None).unwrap();
        assert_eq!((subject.writer, subject.method), (Writer::Parent, Method::Exclusive));
        assert_eq!((profile.pages, profile.written), (1000, 100));
        assert_eq!(profile.writer, Writer::Parent);
        assert_eq!(profile.vmas, Some(Vmas { anon: 30, others: 60 }));
        assert_eq!((profile.mappings[0].name.as_str(), profile.mappings[0].written), ("heap", 90));
        assert_eq!(profile.mappings.len(), 2);
        let regions = profile.regions.unwrap();
        assert_eq!((regions[0].written, regions[1].written), (100, 0));
        let next = Replay { policy: "next".into(), faults: 60, ahead: 41, wasted: 1 };
        assert_eq!(profile.replays, [next]);
        assert_eq!(subject.total(&Samples::all(&footprint()), PAGES_WRITTEN), Some(120.0));
    }

    #[test]
    fn what_could_not_be_judged_bounds_what_is_written() {
        let mut samples = footprint();
        let (profile, _) = profile_of(&samples, None).unwrap();
        let none = Unjudged::of(&samples, None).unwrap();
        assert_eq!((none, none.at_most(&profile)), (Unjudged::default(), 100));
        assert!(none.notes(&profile).is_empty());
        // Of two spans together, and of whom the profile is not.
        let more = [(UNKNOWN_PAGES, 71.0), (FREED_UNSEEN_PAGES, 10.0)];
        samples.extend(rows(Mapping::All, None, &more));
        let of_child = params(Writer::Child, Method::Exclusive);
        samples.push(Sample::of(UNKNOWN_PAGES, of_child, 900.0));
        samples.push(Sample::of(LOST_FAULTS, Params::new(), 7.0));
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
        let cut: Vec<Sample> = rows(Mapping::All, None, &[(PAGES_MAPPED, 5.0)]).collect();
        assert!(message(&cut, None).contains("lacks its totals"));
    }
}
