// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stop of a fork by the size of the process, and where the machine's own programs are.

use cowlab_analysis::samples::Samples;
use cowlab_analysis::study::Study;
use cowlab_analysis::study::variants::{FOLIO_BYTES, stops};
use cowlab_model::cost::{Predicted, Question, fork_with_huge_pages};
use cowlab_model::profile::Writer;
use cowlab_schema::{fork_sweep, running};

use super::curves::curve;
use super::question;
use crate::cells;
use crate::document::{Axis, Block, Plot, Series};
use crate::fmt::{size, time};

const STOPS: &str = "stop-by-size";
/// From there on the size counts.
const FROM_BYTES: u64 = 1 << 20;
/// As far as the lines go, if no program is larger.
const TO_BYTES: u64 = 16 << 30;

/// A program that ran beside the study.
struct Running<'a> {
    name: &'a str,
    bytes: u64,
    stop_ns: Predicted,
}

/// The chart, and the program that its next fork would stop longest.
pub(super) fn blocks(study: &Study) -> Vec<Block> {
    let running = running(study);
    let longest = running.iter().max_by(|a, b| a.stop_ns.value.total_cmp(&b.stop_ns.value));
    let finding = longest.map(|of| {
        let headline = format!(
            "Of the programs that run here and fork, {} ({}) would be stopped longest: for {}.",
            of.name,
            size(of.bytes),
            time(of.stop_ns.value)
        );
        let detail = format!(
            "Predicted by its page tables: 95% of such forks should take {}. `cowlab` says what runs \
             now, `cowlab explain {}` what would help.",
            cells::interval(of.stop_ns.low, of.stop_ns.high, "ns"),
            of.name
        );
        Block::finding(headline, detail, STOPS)
    });
    let chart = chart(study, &running).drawn();
    let is_drawn = chart.is_some();
    chart.map(Block::Plot).into_iter().chain(finding.filter(|_| is_drawn)).collect()
}

/// The stop at a fork of memory that was all written since the last one.
fn stop(study: &Study, small_pages: u64, huge_pages: u64, among_work: bool) -> Option<Predicted> {
    let question =
        |writer| Question { among_work, ..question(study, small_pages, small_pages, writer) };
    let fork = |writer| fork_with_huge_pages(&study.profile, &question(writer), huge_pages);
    fork(Writer::Parent).or_else(|_| fork(Writer::Child)).ok()
}

fn running<'a>(study: &Study<'a>) -> Vec<Running<'a>> {
    let of_one = |(_, of): (&str, Samples<'a>)| {
        let small = of.first(running::SMALL_PAGES)? as u64;
        let huge = of.first(running::HUGE_PAGES)? as u64;
        let huge_bytes = study.profile.huge_page_bytes.unwrap_or_default();
        Some(Running {
            name: of.words(running::NAME).first()?,
            bytes: small * study.profile.page_size_bytes + huge * huge_bytes,
            stop_ns: stop(study, small, huge, true)?,
        })
    };
    study.samples(running::BENCH).by(running::PID).into_iter().filter_map(of_one).collect()
}

fn chart(study: &Study, running: &[Running]) -> Plot {
    let page = study.profile.page_size_bytes;
    let mut plot = Plot::new(
        STOPS,
        "How long a fork stops a process, by its memory and the size of its pages",
        Axis::log("Private memory", "bytes"),
        Axis::log("The stop", "ns"),
    )
    .caption(
        "Of memory that was all written since the last fork. Points were measured here, lines are \
         predicted: for base pages of a loop of forks, for larger ones of a first fork, which finds the \
         caches cold; the programs' stops are predicted by what they had in memory when the study began.",
    );
    let to = running.iter().map(|of| of.bytes).fold(TO_BYTES, u64::max);
    let sizes: Vec<u64> =
        (0..).map(|power| FROM_BYTES << power).take_while(|of| *of <= to).collect();
    let line = |name: &str, of: &dyn Fn(u64) -> Option<Predicted>| {
        let points = sizes.iter().filter_map(|bytes| Some((*bytes as f64, of(*bytes)?.value)));
        Series::line(name, points, true)
    };
    let base = size(page);
    let parent = curve(&study.profile, Writer::Parent, 0);
    let cycle = parent.or_else(|| curve(&study.profile, Writer::Child, 0));
    let cycles = cycle.map(|curve| curve.points.as_slice()).unwrap_or_default().iter();
    let cycles = cycles.filter_map(|of| Some(((of.pages * page) as f64, of.written?.fork.ns)));
    let cycles: Vec<_> = cycles.filter(|(bytes, _)| *bytes >= FROM_BYTES as f64).collect();
    plot.draw(Series::points(&base, cycles));
    plot.draw(line(&base, &|bytes| stop(study, bytes / page, 0, false)));
    let huge = study.profile.huge_page_bytes;
    for pages in [Some(FOLIO_BYTES), huge].into_iter().flatten() {
        // First forks alone, which find the caches cold; a loop's are two to three times as short.
        let fork = |cell| {
            let samples = study.samples(fork_sweep::BENCH).of_cell(cell, &[&fork_sweep::SETTLED]);
            Some(samples.estimate(fork_sweep::FORK_NS)?.value)
        };
        let cells = stops(pages);
        let points = cells.iter().filter_map(|cell| Some((cell.heap_bytes as f64, fork(cell)?)));
        plot.draw(Series::points(size(pages), points));
        if Some(pages) == huge {
            plot.draw(line(&size(pages), &|bytes| stop(study, 0, bytes.div_ceil(pages), true)));
        }
    }
    let points = running.iter().map(|of| (of.bytes as f64, of.stop_ns.value));
    plot.draw(Series {
        labels: running.iter().map(|of| of.name.to_owned()).collect(),
        ..Series::points("programs that run here", points)
    });
    plot
}
