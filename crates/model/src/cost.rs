// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of a fork: Smith and Maguire's (1988) equation,
//!
//! ```text
//! t(fork) = t(copy one page)·frac·pages + t(page-table entry)·pages + t(new process)
//! ```
//!
//! with its terms measured apart. An entry costs once when it is copied, once when it is torn
//! down, and more if the parent wrote the page since the last fork; a copied page costs its fault
//! and its freeing. Each is a function of how many pages there are, since memory that fits a cache
//! is cheaper: it is measured at several sizes and interpolated over the logarithm of the size.

use cowlab_schema::Command;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};
use thiserror::Error;

use crate::profile::{CycleCurve, CyclePoint, MachineProfile, Measured, USUAL_FACTOR, Writer};
use crate::stats::Estimate;

mod deferred;
mod pace;
mod terms;

pub use deferred::{Deferred, deferred};
use pace::{CopyAtPace, copy_at_pace, reasons};
use terms::{PerPage, Term};

/// A process's mappings (VMAs), which fork copies one by one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Vmas {
    /// Mappings with pages of their own, for which the kernel has an anon_vma.
    pub anon: u64,
    /// The others: program text, shared memory, what is reserved.
    pub others: u64,
}

impl Vmas {
    /// A static probe's mappings without its heap. The measured fork without a heap copies them, so
    /// they are in the base price. tests/bench.sh counts them.
    pub const OF_A_PROBE: Vmas = Vmas { anon: 5, others: 9 };

    /// The mappings beyond a probe's.
    pub fn beyond_a_probe(self) -> Vmas {
        Vmas {
            anon: self.anon.saturating_sub(Vmas::OF_A_PROBE.anon),
            others: self.others.saturating_sub(Vmas::OF_A_PROBE.others),
        }
    }
}

/// A fork to predict: the application's half.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Question {
    /// Base pages that are mapped, private and present.
    pub pages: u64,
    /// Base pages that are written after the fork.
    pub written: u64,
    /// Base pages that the parent wrote since its last fork (all, if it never forked).
    pub written_before: u64,
    /// Who writes.
    pub writer: Writer,
    /// Other threads of the forking process that run at a time, on average.
    pub threads: f64,
    /// Of the memory.
    pub page_size_bytes: u64,
    /// Huge pages, or page tables, with a written page; `None`: the writes are packed.
    pub split_pages: Option<u64>,
    /// Whether the program works between its writes, as all but probes do: caches are colder then.
    pub among_work: bool,
    /// CPU time per copied page, copying included; `None`: unknown, priced as the dearest.
    pub cpu_ns_per_copy: Option<f64>,
    /// The share of its copies next to one of a moment before, as in a sweep; `None`: unknown.
    pub nearby_share: Option<f64>,
    /// `None`: unknown, priced as a probe's.
    pub vmas: Option<Vmas>,
}

/// A figure with its 95% prediction interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Predicted {
    /// The expected time.
    pub value: f64,
    /// Lower end of the 95% prediction interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// From the call until the child is reaped and the writes are done.
    pub elapsed_ns: Predicted,
    /// The call, for which the parent stands still.
    pub fork_ns: Predicted,
    /// The writes.
    pub write_ns: Predicted,
    /// Starting the child, its exit and the wait.
    pub rest_ns: Predicted,
    /// Copied pages and the second set of page tables.
    pub extra_bytes: u64,
    /// What makes it cheap or dear.
    pub reasons: Vec<String>,
    /// Parts of the answer that are not measured.
    pub notes: Vec<String>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Unanswerable {
    /// More is written than there is.
    #[error("{written} pages cannot be written of {pages}")]
    TooManyWritten {
        /// Pages asked to be written.
        written: u64,
        /// Pages there are.
        pages: u64,
    },
    /// The profile lacks the figures.
    #[error("the machine profile has no figures for {0}: run `{cmd}` on that machine", cmd = Command::Calibrate)]
    NotCalibrated(String),
}

/// Relative error of the model where it was not measured.
const USUAL_MISFIT: f64 = 0.05;
/// Relative error of copy costs in 14 programs that the curves by pace and order leave unexplained
/// (docs/results/2026-11-unseen-programs.md).
const PROGRAMS_MISFIT: f64 = 0.12;

/// `calibrate`'s names: a copy in a program that works between copies,
const AMONG_WORK: &str = "cow_among_work_ns";
/// what a fork without a heap costs more there, and copying an entry,
const FORK_AMONG_WORK: &str = "fork_among_work_ns";
const PTE_AMONG_WORK: &str = "pte_among_work_ns_per_page";
/// and more for a page written since the last fork;
const PTE_WRITTEN_AMONG_WORK: &str = "pte_written_among_work_ns_per_page";
/// copying a mapping with pages of its own, and one without;
const VMA_ANON: &str = "vma_anon_ns";
const VMA: &str = "vma_ns";
/// copying the entry of a huge page.
const HUGE_ENTRY: &str = "thp_fork_among_work_ns_per_huge_page";

/// And of what interrupting another CPU at each copy costs: the calibration's rounds are short and meet one of
/// two figures, which a program's copies average.
const THREADS_MISFIT: f64 = 0.2;

/// Predict a fork on the machine of `profile`.
pub fn predict(profile: &MachineProfile, question: &Question) -> Result<Prediction, Unanswerable> {
    let part = question.threads.fract();
    let whole = Question { threads: question.threads.floor(), ..*question };
    let idle = predict_whole(profile, &whole)?;
    if part == 0.0 {
        return Ok(idle);
    }
    let busy = predict_whole(profile, &Question { threads: whole.threads + 1.0, ..whole })?;
    let mix = |of: fn(&Prediction) -> Predicted| {
        plus(scaled(of(&idle), 1.0 - part), scaled(of(&busy), part), 1.0)
    };
    Ok(Prediction {
        elapsed_ns: mix(|of| of.elapsed_ns),
        fork_ns: mix(|of| of.fork_ns),
        write_ns: mix(|of| of.write_ns),
        rest_ns: mix(|of| of.rest_ns),
        ..busy
    })
}

/// Of a whole number of threads.
fn predict_whole(
    profile: &MachineProfile,
    question: &Question,
) -> Result<Prediction, Unanswerable> {
    let Question { pages, written, .. } = *question;
    if written > pages || question.written_before > pages {
        return Err(Unanswerable::TooManyWritten {
            written: written.max(question.written_before),
            pages,
        });
    }
    let mut notes = Vec::new();
    let curve = curve_for(profile, question, &mut notes)?;
    let no_heap = curve.points.first().filter(|point| point.pages == 0);
    let no_heap = no_heap.ok_or_else(|| Unanswerable::NotCalibrated("an empty process".into()))?;
    let largest = curve.points.last().map_or(0, |point| point.pages);
    if pages > largest {
        notes.push(format!(
            "extrapolated: the profile was measured up to {largest} pages, costs per page are taken \
             to stay the same beyond"
        ));
    }
    let huge = question.page_size_bytes != profile.page_size_bytes;
    let terms = if huge {
        huge_terms(profile, question, curve, &mut notes)?
    } else {
        base_terms(profile, question, curve)?
    };
    if question.among_work && written > 0 && !profile.costs.contains_key(AMONG_WORK) {
        notes.push(format!(
            "the machine profile has no {AMONG_WORK}: copies are priced as those of a loop that does \
             nothing else, and cost a program some more; `{}` measures it",
            Command::Calibrate
        ));
    }
    let (seen, priced) = (question.cpu_ns_per_copy.is_some(), !profile.copies_by_pace.is_empty());
    if question.among_work && written > 0 && seen && !priced {
        notes.push(format!(
            "the machine profile has no copies_by_pace: copies are priced as if the program did much \
             between two, and cost a quick one less; `{}` measures it",
            Command::Calibrate
        ));
    }
    if question.among_work && seen && priced && written > 0 {
        if profile.copies_in_order.is_empty() {
            notes.push(format!(
                "the machine profile has no copies_in_order: copies are priced as if the writes were \
                 scattered; `{}` measures it",
                Command::Calibrate
            ));
        } else if question.nearby_share.is_none() {
            notes.push(
                "the order of the writes is unknown, and changes the price of a copy: `cowlab footprint \
                 --method faults` sees it"
                    .to_owned(),
            );
        }
    }
    let beside = beside_the_pages(profile, question, &mut notes);
    let constant = |m: Measured| Term { ns: m.ns, deviation_ns: m.ns * m.log_spread };
    let fork = Term::sum(&[constant(no_heap.fork), terms.fork, beside]);
    let rest = Term::sum(&[constant(no_heap.rest), terms.rest]);
    let write = match question.among_work {
        true => Term {
            deviation_ns: terms.write.deviation_ns.hypot(terms.write.ns * PROGRAMS_MISFIT),
            ..terms.write
        },
        false => terms.write,
    };
    let elapsed = Term::sum(&[fork, write, rest]);

    // The spreads are pooled over the sizes of the curve.
    let freedom = f64::from(curve.rounds.max(2) - 1) * curve.points.len() as f64;
    let t = StudentsT::new(0.0, 1.0, freedom).map_or(1.96, |t| t.inverse_cdf(0.975));
    let misfit = curve.misfit.unwrap_or(USUAL_MISFIT);
    let predicted =
        |term: Term| within(profile, term.ns, t * term.deviation_ns.hypot(term.ns * misfit));
    let table_bytes = profile.cost("page_table_bytes_per_page").unwrap_or(8.0) * pages as f64;
    Ok(Prediction {
        elapsed_ns: predicted(elapsed),
        fork_ns: predicted(fork),
        write_ns: predicted(write),
        rest_ns: predicted(rest),
        // Also for huge pages: fork deposits a page table for each, for a later split (copy_huge_pmd of
        // mm/huge_memory.c).
        extra_bytes: written * profile.page_size_bytes + table_bytes as u64,
        reasons: reasons(profile, question, curve.rounds, terms.flush_ns),
        notes,
    })
}

/// A figure with half its interval's width, or with the wide interval of usual costs.
fn within(profile: &MachineProfile, value: f64, half: f64) -> Predicted {
    match profile.is_usual {
        true => Predicted { value, low: value / USUAL_FACTOR, high: value * USUAL_FACTOR },
        false => Predicted { value, low: (value - half).max(0.0), high: value + half },
    }
}

pub(crate) fn plus(base: Predicted, cost: Predicted, count: f64) -> Predicted {
    Predicted {
        value: base.value + cost.value * count,
        low: base.low + cost.low * count,
        high: base.high + cost.high * count,
    }
}

pub(crate) fn scaled(base: Predicted, share: f64) -> Predicted {
    Predicted { value: base.value * share, low: base.low * share, high: base.high * share }
}

/// A primitive cost with its interval.
pub fn primitive(profile: &MachineProfile, name: &str) -> Option<Predicted> {
    let Estimate { value, low, high, .. } = profile.costs.get(name)?.estimate;
    Some(match profile.is_usual {
        true => within(profile, value, value),
        false => Predicted { value, low, high },
    })
}

/// The stop of a fork of base pages, as in `question`, and of huge pages beside them.
pub fn fork_with_huge_pages(
    profile: &MachineProfile,
    question: &Question,
    huge_pages: u64,
) -> Result<Predicted, Unanswerable> {
    let base = predict(profile, question)?.fork_ns;
    if huge_pages == 0 {
        return Ok(base);
    }
    let huge = huge_pages as f64;
    let entry = profile.costs.get(HUGE_ENTRY).map(|cost| cost.estimate);
    let entry = entry.ok_or_else(|| Unanswerable::NotCalibrated("huge pages".into()))?;
    let value = base.value + huge * entry.value;
    // Both are of single forks and independent.
    let half = (1.96 * huge * entry.deviation()).hypot(base.high - base.value);
    Ok(within(profile, value, half))
}

/// The fork's costs beside its pages: mappings, and caches that are cold after other work.
fn beside_the_pages(
    profile: &MachineProfile,
    question: &Question,
    notes: &mut Vec<String>,
) -> Term {
    let vmas = question.vmas.unwrap_or_default().beyond_a_probe();
    let counts = [
        (FORK_AMONG_WORK, u64::from(question.among_work)),
        (VMA_ANON, vmas.anon),
        (VMA, vmas.others),
    ];
    let mut terms = Vec::new();
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        match times(profile, name, count) {
            Some(term) => terms.push(term),
            None => notes.push(format!(
                "the machine profile has no {name}: the fork is priced without it; `{}` \
                 measures it",
                Command::Calibrate
            )),
        }
    }
    Term::sum(&terms)
}

fn times(profile: &MachineProfile, name: &str, count: u64) -> Option<Term> {
    let (cost, count) = (profile.costs.get(name)?.estimate, count as f64);
    Some(Term { ns: cost.value * count, deviation_ns: cost.deviation() * count })
}

struct Terms {
    fork: Term,
    write: Term,
    rest: Term,
    /// Of a copy, what another running thread adds.
    flush_ns: f64,
}

fn base_terms(
    profile: &MachineProfile,
    question: &Question,
    curve: &CycleCurve,
) -> Result<Terms, Unanswerable> {
    let base = &curve.points[0];
    let missing = || Unanswerable::NotCalibrated("copied pages".into());
    let entries = PerPage::above(curve, |p| Some(p.fork), base.fork.ns);
    let teardown = PerPage::above(curve, |p| Some(p.rest), base.rest.ns);
    let writes = PerPage::above(curve, |p| p.written.map(|w| w.write), 0.0);
    // The cost per page of a cycle with every page written beyond one with none.
    let beyond = |pair: fn(&CyclePoint) -> Option<(Measured, Measured)>| {
        let points = curve.points.iter().filter(|p| p.pages > 0).filter_map(|p| {
            let (with, without) = pair(p)?;
            let ns = ((with.ns - without.ns) / p.pages as f64).max(0.0);
            Some((p.pages as f64, Measured { ns, log_spread: with.log_spread }))
        });
        PerPage::pooled(points, curve.rounds)
    };
    let protects = beyond(|p| Some((p.written?.fork, p.fork)));
    let frees = beyond(|p| Some((p.written?.rest, p.rest)));

    let (pages, written) = (question.pages, question.written);
    let among = |cost: Option<Term>, alone: Term| match question.among_work {
        true => among_work(cost, alone),
        false => alone,
    };
    // An entry of a small heap is dearer than one of a large heap.
    let by_size = profile.entries_among_work.iter().map(|p| (p.pages as f64, p.entry));
    let entries_among = PerPage::pooled(by_size, curve.rounds)
        .term(pages, pages)
        .or_else(|| times(profile, PTE_AMONG_WORK, pages));
    // In a loop the writes before a fork also empty its caches; work has done that already.
    let before = match question.among_work {
        true => question.written_before,
        false => question.written_before.max(written),
    };
    let protect_among = times(profile, PTE_WRITTEN_AMONG_WORK, before)
        .filter(|_| question.among_work)
        .map(|term| Term { ns: term.ns.max(0.0), ..term });
    let protect = protect_among.or_else(|| protects.term(before, before)).ok_or_else(missing)?;
    let fork = [among(entries_among, entries.term(pages, pages).ok_or_else(missing)?), protect];
    let rest = [
        teardown.term(pages, pages).ok_or_else(missing)?,
        frees.term(written, written).ok_or_else(missing)?,
    ];
    let alone = writes.term(written, written).ok_or_else(missing)?;
    let with_threads = with_threads(profile, question, curve);
    let (without, flushes) = with_threads.unzip();
    let flush_ns = per(flushes, written);
    let write = match copy_at_pace(profile, question, curve.rounds, flush_ns) {
        Some(CopyAtPace { copy, .. }) => {
            PerPage(vec![(1.0, copy)]).term(written, 1).ok_or_else(missing)?
        }
        None => among(times(profile, AMONG_WORK, written), without.unwrap_or(alone)),
    };
    let write = Term::sum(&[write, flushes.unwrap_or_default()]);
    Ok(Terms { fork: Term::sum(&fork), write, rest: Term::sum(&rest), flush_ns })
}

/// Among work, what a loop's copies cost without another running thread, and what they cost more with it: each
/// interrupts the CPU that runs it. `None` without threads.
fn with_threads(
    profile: &MachineProfile,
    question: &Question,
    curve: &CycleCurve,
) -> Option<(Term, Term)> {
    let mut of_writer = profile.curves.iter().filter(|of| of.writer == question.writer);
    let alone = of_writer.find(|of| of.threads == 0 && question.among_work && curve.threads > 0)?;
    let copies = |of| {
        let writes = PerPage::above(of, |p| p.written.map(|w| w.write), 0.0);
        writes.term(question.written, question.written)
    };
    let (alone, beside) = (copies(alone)?, copies(curve)?);
    let ns = (beside.ns - alone.ns).max(0.0);
    let rounds = f64::from(curve.rounds.max(1)).sqrt();
    let of_median = alone.deviation_ns.hypot(beside.deviation_ns) / rounds;
    Some((alone, Term { ns, deviation_ns: of_median.hypot(ns * THREADS_MISFIT) }))
}

fn per(term: Option<Term>, count: u64) -> f64 {
    term.map_or(0.0, |term| term.ns / count.max(1) as f64)
}

/// The price in a program that works between copies: other data fills the caches there, so the heap's
/// size does not matter, and a program's heap is more scattered than a probe's. `alone` is a loop that
/// does nothing else.
fn among_work(cost: Option<Term>, alone: Term) -> Term {
    cost.filter(|term| term.ns > alone.ns).unwrap_or(alone)
}

/// Huge pages: an entry each at fork, a split at each first write, then base pages.
fn huge_terms(
    profile: &MachineProfile,
    question: &Question,
    curve: &CycleCurve,
    notes: &mut Vec<String>,
) -> Result<Terms, Unanswerable> {
    let size = question.page_size_bytes;
    let missing = || Unanswerable::NotCalibrated(format!("pages of {size} bytes"));
    if profile.huge_page_bytes != Some(size) {
        return Err(missing());
    }
    let with_threads = question.threads > 0.0 && question.writer == Writer::Parent;
    let split = if with_threads { "thp_split_threads_ns" } else { "thp_split_ns" };
    let cost = |name: &str| profile.costs.get(name).map(|cost| cost.estimate).ok_or_else(missing);
    let (entry, split) = (cost(HUGE_ENTRY)?, cost(split)?);
    let per_huge = size / profile.page_size_bytes;
    let huge_pages = question.pages.div_ceil(per_huge);
    let packed = question.written.div_ceil(per_huge);
    let split_pages =
        question.split_pages.map_or(packed, |split| split.clamp(packed, question.written));
    let term = |estimate: Estimate, count: u64| Term {
        ns: estimate.value * count as f64,
        deviation_ns: estimate.deviation() * count as f64,
    };
    // The first write to a huge page also copies its page; others follow as base pages.
    let others =
        Question { pages: question.written, written: question.written - split_pages, ..*question };
    let base = base_terms(profile, &others, curve)?;
    notes.push(
        "huge pages: a write splits its huge page and copies one base page (Linux 5.8 and later); \
         the pages after it are priced as base pages"
            .to_owned(),
    );
    Ok(Terms {
        fork: term(entry, huge_pages),
        write: Term::sum(&[term(split, split_pages), base.write]),
        rest: Term::sum(&[term(entry, huge_pages), base.rest]),
        flush_ns: base.flush_ns,
    })
}

fn curve_for<'a>(
    profile: &'a MachineProfile,
    question: &Question,
    notes: &mut Vec<String>,
) -> Result<&'a CycleCurve, Unanswerable> {
    let of_writer = || profile.curves.iter().filter(|curve| curve.writer == question.writer);
    if let Some(curve) = of_writer().find(|curve| f64::from(curve.threads) == question.threads) {
        return Ok(curve);
    }
    // Beyond the most measured threads: no more CPUs can cache the address space than exist.
    let most = of_writer().max_by_key(|curve| curve.threads);
    match most.filter(|most| most.threads > 0 && f64::from(most.threads) < question.threads) {
        Some(most) => {
            notes.push(format!(
                "priced with {} other running thread(s), the most that were calibrated",
                most.threads
            ));
            Ok(most)
        }
        None => Err(Unanswerable::NotCalibrated(format!(
            "a writing {} with {} other threads",
            if question.writer == Writer::Child { "child" } else { "parent" },
            question.threads
        ))),
    }
}

#[cfg(test)]
mod tests;
