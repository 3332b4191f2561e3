// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the measurements are worth: the model's error, counted faults, isolation.

use cowlab_analysis::study::Study;
use cowlab_analysis::study::cow_faults::workloads;
use cowlab_schema::{Pattern, cow_check};

use crate::document::Block;
use crate::fmt::{self, percent};
use crate::study::not_available;
use crate::study::{check, faults};

pub(super) fn blocks(study: &Study) -> Vec<Block> {
    let all = [Some(model(study)), counted(study), Some(isolation(study))];
    all.into_iter().flatten().collect()
}

fn model(study: &Study) -> Block {
    let Some(check) = study.check.as_ref().filter(|check| !check.points.is_empty()) else {
        let needs = "random points that the study of this machine measures and predicts";
        return not_available(study, "How good predictions are", &["predict-check"], needs);
    };
    let noise = check.repeat_noise();
    let detail = format!(
        "Checked on {} random points that it was not fitted to: {} of them lie in their 95% \
         prediction interval, whose half width is {} (median). The measurements' own intervals \
         have a half width of {} (median): {}.",
        fmt::count(check.points.len() as u64),
        percent(check.coverage),
        percent(check.interval_half_width),
        percent(noise),
        if check.median_error <= noise {
            "most of what the model misses cannot be told from noise"
        } else {
            "what the model misses beyond that is its own error"
        },
    );
    Block::finding(check::sentence(check), detail, check::PLOT)
}

/// Faults that the kernel counted against pages that were written.
fn counted(study: &Study) -> Option<Block> {
    let page = study.profile.page_size_bytes;
    let ratios: Vec<f64> = workloads(study)
        .iter()
        .filter(|w| w.cell.page_size_bytes == page && w.cell.pattern != Pattern::Single)
        .filter_map(|w| Some(w.faults_per_page()?.value))
        .collect();
    let off = ratios.iter().map(|ratio| (ratio - 1.0).abs()).reduce(f64::max)?;
    let headline = if off == 0.0 {
        "Each page written was one fault: the kernel's count agrees exactly.".to_owned()
    } else if off <= 0.005 {
        format!(
            "Each page written was one fault: the kernel's count agrees within {}.",
            percent(off)
        )
    } else {
        format!(
            "The kernel counted up to {} more or fewer faults than pages were written: read the \
             times of single writes with care.",
            percent(off)
        )
    };
    let detail = format!(
        "Over {} workloads with sequential and random writes to base pages.",
        fmt::count(ratios.len() as u64)
    );
    Some(Block::finding(headline, detail, faults::RUNS_TABLE))
}

fn isolation(study: &Study) -> Block {
    let samples = study.samples(cow_check::BENCH);
    let checked =
        [cow_check::PAGES_CHECKED, cow_check::CHECKED_PAGES].map(|of| samples.values(of)).concat();
    if checked.is_empty() {
        let needs = "its samples (bench cow-check)";
        return not_available(study, "The isolation check", &[cow_check::BENCH.name], needs);
    }
    let pages: f64 = checked.iter().sum();
    let children = samples.numbers(cow_check::CHILDREN);
    let with = match (children.first(), children.last()) {
        (Some(least), Some(most)) if least < most => {
            format!(" with {least} to {most} children at once")
        }
        (Some(1), _) => " with 1 child".to_owned(),
        (Some(one), _) => format!(" with {one} children at once"),
        _ => String::new(),
    };
    let kinds: Vec<String> =
        samples.numbers(cow_check::PAGE_SIZE_BYTES).into_iter().map(fmt::size).collect();
    let mut detail =
        "Parent and children changed alternating pages and then looked at every byte: \
                      their own changes were there, and nobody else's."
            .to_owned();
    if !kinds.is_empty() {
        detail.push_str(&format!(" Pages of {}.", kinds.join(" and ")));
    }
    let headline = format!(
        "No process saw another's writes: {} pages were checked{with}.",
        fmt::number(pages)
    );
    Block::finding(headline, detail, "rounds")
}
