// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long fork stops a large process, and what huge pages change.

use cowlab_analysis::study::Study;
use cowlab_model::cost::{Prediction, Question, predict};
use cowlab_model::profile::Writer;

use crate::cells;
use crate::document::Block;
use crate::fmt::{self, percent, size, time};
use crate::machine_profile;
use crate::study::{curves, not_available, question, stop_chart};

const LARGE_BYTES: u64 = 10 << 30;

pub(super) fn blocks(study: &Study) -> Vec<Block> {
    [vec![stop(study)], stop_chart::blocks(study), vec![huge_pages(study)]].concat()
}

/// A fork of the large process after `written_before` bytes of it were written.
fn ask(study: &Study, written_before: u64, threads: u32, page: u64) -> Option<Prediction> {
    let base = study.profile.page_size_bytes;
    let question = |writer| Question {
        threads: f64::from(threads),
        page_size_bytes: page,
        ..question(study, LARGE_BYTES / base, written_before / base, writer)
    };
    // The parent stands still; a profile without its curve still has the child's.
    predict(&study.profile, &question(Writer::Parent))
        .or_else(|_| predict(&study.profile, &question(Writer::Child)))
        .ok()
}

fn interval(prediction: &Prediction) -> String {
    let fork = prediction.fork_ns;
    cells::interval(fork.low, fork.high, "ns")
}

fn stop(study: &Study) -> Block {
    let page = study.profile.page_size_bytes;
    let Some(first) = ask(study, LARGE_BYTES, 0, page) else {
        let needs = "calibrated fork cycles";
        return not_available(study, "How long fork stops a process", &["calibrate"], needs);
    };
    let mut detail = format!(
        "The thread that forks stands still meanwhile, and so does every other thread that touches \
         a new page or maps memory. Predicted: 95% of such forks should take {}.",
        interval(&first)
    );
    let largest = study.profile.curves.iter().flat_map(|c| &c.points).map(|p| p.pages).max();
    if let (false, Some(largest)) = (first.notes.is_empty(), largest) {
        detail.push_str(&format!(
            " Extrapolated: up to {} was measured, and the cost of a page is taken to stay the \
             same beyond.",
            size(largest * page)
        ));
    }
    if let Some(second) = ask(study, 0, 0, page) {
        let less = 1.0 - second.fork_ns.value / first.fork_ns.value;
        let second_time = time(second.fork_ns.value);
        detail.push_str(&if less > 0.03 {
            format!(
                " That is its first fork, or one after it wrote all of its memory; with nothing \
                 written since the last fork it is {second_time}, {} less, because pages that \
                 are write-protected already need not be again.",
                percent(less)
            )
        } else {
            format!(
                " That is its first fork, or one after it wrote all of its memory; with nothing \
                 written since the last fork it is {second_time}: no less to speak of."
            )
        });
    }
    if let Some(threads) = ask(study, LARGE_BYTES, 1, page) {
        let with = time(threads.fork_ns.value);
        let apart =
            threads.fork_ns.low > first.fork_ns.high || threads.fork_ns.high < first.fork_ns.low;
        detail.push_str(&if apart {
            format!(" With another running thread of the process that first fork takes {with}.")
        } else {
            format!(
                " No difference was seen in that first fork with another running thread of the process \
                 ({with})."
            )
        });
    }
    if let Some(memory) = study.environment().and_then(|e| e.memory_bytes)
        && memory < LARGE_BYTES
    {
        detail.push_str(&format!(
            " This machine has {}: the figure is for one with more memory and otherwise the same.",
            size(memory)
        ));
    }
    let headline = format!(
        "A fork of a {} process stops it for {}.",
        size(LARGE_BYTES),
        time(first.fork_ns.value)
    );
    Block::finding(headline, detail, curves::FORK_PLOT)
}

fn huge_pages(study: &Study) -> Block {
    let profile = &study.profile;
    let figures = || {
        let page = profile.huge_page_bytes?;
        let split = profile.costs.get("thp_split_ns")?.estimate;
        Some((page, ask(study, LARGE_BYTES, 0, page)?, split))
    };
    let Some((page, with, split)) = figures() else {
        let needs = "huge pages that this program may ask for, and free memory for them";
        return not_available(study, "What huge pages would change", &["thp", "huge"], needs);
    };
    let mut detail = format!(
        "95% of such forks should take {}: one entry is copied where there were {}. The first \
         write costs {}, because the kernel splits the huge page and copies one small page of it; \
         later writes to the same {} cost what they cost without huge pages.",
        interval(&with),
        fmt::count(page / profile.page_size_bytes),
        cells::words(split, "ns"),
        size(page),
    );
    if let Some(threads) = profile.costs.get("thp_split_threads_ns") {
        detail.push_str(&if cells::apart(threads.estimate, split) {
            format!(
                " With another running thread that first write costs {}.",
                cells::words(threads.estimate, "ns")
            )
        } else {
            " Another running thread made no difference to it that was seen.".to_owned()
        });
    }
    if let Some(base) = ask(study, LARGE_BYTES, 0, profile.page_size_bytes) {
        detail.push_str(&format!(
            " Without huge pages the stop is {} times as long.",
            fmt::number(base.fork_ns.value / with.fork_ns.value)
        ));
    }
    let headline = format!(
        "With huge pages the stop of {} would be {}; the first write to each {} then costs {}.",
        size(LARGE_BYTES),
        time(with.fork_ns.value),
        size(page),
        time(split.value)
    );
    Block::finding(headline, detail, machine_profile::TABLE)
}
