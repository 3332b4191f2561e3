// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a process costs without its memory, and how the cost grows with it.

use cowlab_analysis::study::Study;
use cowlab_analysis::study::fork_table::made;
use cowlab_analysis::study::variants::untouched_forks;
use cowlab_schema::Method;

use crate::cells;
use crate::document::Block;
use crate::fmt::{self, heap_size, percent, time};
use crate::papers::SMITH;
use crate::study::not_available;
use crate::study::{shares, sweep, table, variants};

/// Up to this far off, points lie on a line.
const LARGE: f64 = 0.1;

pub(super) fn blocks(study: &Study) -> Vec<Block> {
    vec![methods(study), untouched(study), law(study)]
}

/// Methods whose cost may or may not depend on the caller's size.
fn methods(study: &Study) -> Block {
    let (small, large) = (table::SIZES[0].0, table::SIZES[2].0);
    let ends = |method: Method| {
        let made = |bytes| made(study, method, bytes, true);
        Some((made(small)?.elapsed_ns, made(large)?.elapsed_ns))
    };
    let words = |method: Method| {
        let (low, high) = ends(method)?;
        let change = high.value / low.value - 1.0;
        Some(if cells::apart(low, high) && change.abs() > 0.05 {
            format!(
                "{method} {} at {} and {} at {}",
                time(low.value),
                table::megabytes(small),
                time(high.value),
                table::megabytes(large)
            )
        } else {
            format!("{method} {} whatever the size", time(high.value))
        })
    };
    let known: Vec<String> =
        [Method::Vfork, Method::PosixSpawn, Method::Fork].into_iter().filter_map(words).collect();
    if known.is_empty() {
        let needs = "its samples (bench fork-table)";
        return not_available(study, "Ways to make a process", &["fork-table"], needs);
    }
    let intervals: Vec<String> = [Method::Vfork, Method::PosixSpawn, Method::Fork]
        .into_iter()
        .filter_map(|method| Some(format!("{method} {}", cells::words(ends(method)?.1, "ns"))))
        .collect();
    let detail = format!(
        "A process made, ended and waited for, all memory of the caller touched before; \
         posix-spawn includes starting a tiny program. At {}: {}. A program that only wants to \
         start another one does not need fork.",
        table::megabytes(large),
        intervals.join("; ")
    );
    let headline = format!("Making a process costs by {}.", known.join("; by "));
    Block::finding(headline, detail, table::TABLE)
}

fn untouched(study: &Study) -> Block {
    let Some([filled, asked_for, none]) = untouched_forks(study) else {
        let needs = "the sweep's samples with an untouched heap (bench fork-sweep)";
        return not_available(study, "Untouched memory", &["fork-sweep"], needs);
    };
    let extra = asked_for.value / none.value - 1.0;
    let headline = if !cells::apart(asked_for, none) || extra.abs() < 0.05 {
        "Memory that was asked for but never touched costs fork nothing.".to_owned()
    } else {
        format!(
            "Memory that was asked for but never touched changes fork by {} only.",
            time((asked_for.value - none.value).abs())
        )
    };
    let detail = format!(
        "malloc alone maps no pages, so there are no entries for fork to copy: the call took {} \
         with untouched memory, {} without any, and {} once every page was written.",
        cells::words(asked_for, "ns"),
        cells::words(none, "ns"),
        cells::words(filled, "ns")
    );
    Block::finding(headline, detail, variants::TABLE)
}

/// Smith & Maguire's result on this machine.
fn law(study: &Study) -> Block {
    let sweep = &study.sweep;
    let figures = || {
        let line = sweep.line(0.9)?;
        Some((line, line.service_bytes_per_s()?, sweep.worst()?))
    };
    let Some((line, service, (worst_line, residual))) = figures() else {
        let needs = "three sizes at least of the sweep (bench fork-sweep)";
        return not_available(study, "Smith & Maguire's lines", &["fork-sweep"], needs);
    };
    let headline = if residual.abs() <= LARGE {
        format!(
            "Time grows in a straight line with memory and the fraction written, as in 1988: every \
             point lies within {} of its line.",
            percent(residual.abs())
        )
    } else {
        format!(
            "Time grows with memory and the fraction written as in 1988, but not in a quite \
             straight line: one point lies {} off.",
            percent(residual.abs())
        )
    };
    let at = worst_line.relative.worst().map_or_else(String::new, |p| heap_size(p.x as u64));
    let pages = service.scaled(1.0 / study.profile.page_size_bytes as f64);
    let mut detail = format!(
        "Heaps of {} to {}; the worst point is at {at}, fraction {}. With nine tenths written {} \
         pages a second are serviced",
        heap_size(line.relative.points.first().map_or(0, |p| p.x as u64)),
        heap_size(line.relative.points.last().map_or(0, |p| p.x as u64)),
        fmt::tick(worst_line.fraction, ""),
        fmt::number(pages.value),
    );
    let published = |row: &str| SMITH.value(row, "service_rate_bytes_per_s");
    if let (Some(att), Some(hp)) = (published("3b2.frac-0.9"), published("hp.frac-0.9")) {
        detail.push_str(&format!(
            ": in bytes {} times the rate of the 3B2/310 and {} times that of the HP9000/350",
            fmt::number(service.value / att),
            fmt::number(service.value / hp)
        ));
    }
    detail.push('.');
    if let Some(share) = shares::service_to_copy(study) {
        detail.push_str(&format!(
            " That is {} of the rate at which memory is copied; it was {} on the 3B2.",
            percent(share),
            SMITH.value("3b2.ratio", "service_to_copy_ratio").map(percent).unwrap_or_default()
        ));
    }
    Block::finding(headline, detail, sweep::LINES_TABLE)
}
