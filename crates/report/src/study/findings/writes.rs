// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What writes cost after a fork, and where the time goes.

use cowlab_analysis::study::Study;
use cowlab_analysis::study::cow_faults::{plain, workloads};
use cowlab_model::Estimate;
use cowlab_schema::Pattern;

use crate::cells;
use crate::document::Block;
use crate::fmt::{self, percent, time};
use crate::machine_profile;
use crate::papers::COW_STUDY;
use crate::study::faults;
use crate::study::not_available;

pub(super) fn blocks(study: &Study) -> Vec<Block> {
    [first_write(study), Some(parts(study)), order(study), cold_memory(study)]
        .into_iter()
        .flatten()
        .collect()
}

fn first_write(study: &Study) -> Option<Block> {
    let costs = &study.profile.costs;
    let Some(alone) = costs.get("cow_fault_ns").map(|cost| cost.estimate) else {
        let needs = "a calibration with copy-on-write faults";
        return Some(not_available(study, "What a write costs", &["cow_fault"], needs));
    };
    let page = fmt::tick(study.profile.page_size_bytes as f64, "bytes");
    let mut detail = format!(
        "The first write to each page of {page} that is still shared makes the kernel copy it: {}.",
        cells::words(alone, "ns")
    );
    let mut headline =
        format!("Each first write to a page after a fork costs {}", time(alone.value));
    match costs.get("cow_fault_threads_ns").map(|cost| cost.estimate) {
        Some(threads) if cells::apart(alone, threads) => {
            headline.push_str(&format!(
                "; {} while another thread of the process runs.",
                time(threads.value)
            ));
            detail.push_str(&format!(
                " With another running thread it is {}, {} times as much: the other CPU has to be \
                 interrupted to forget where the page was.",
                cells::words(threads, "ns"),
                fmt::number(threads.value / alone.value)
            ));
        }
        Some(threads) => {
            headline.push_str("; another running thread makes no difference.");
            detail.push_str(&format!(
                " With another running thread {}: no difference was seen.",
                cells::words(threads, "ns")
            ));
        }
        None => {
            headline.push('.');
            detail.push_str(" With another running thread: not available: needs a second CPU.");
        }
    }
    if let Some(reuse) = costs.get("reuse_fault_ns").map(|cost| cost.estimate) {
        detail.push_str(&format!(
            " Once nobody shares the page any more, the first write costs {}.",
            cells::words(reuse, "ns")
        ));
    }
    Some(Block::finding(headline, detail, machine_profile::TABLE))
}

fn parts(study: &Study) -> Block {
    let costs = &study.profile.costs;
    let figures = || {
        let of = |name: &str| costs.get(name).map(|cost| cost.estimate);
        Some((of("cow_fault_ns")?, of("trap_ns")?, of("copy_ns_per_page")?, of("fault_rest_ns")?))
    };
    let Some((fault, trap, copy, rest)) = figures() else {
        let needs = "a kernel with MADV_POPULATE_WRITE (Linux 5.14), to tell trap from rest";
        return not_available(study, "Where a fault's time goes", &["trap"], needs);
    };
    // A part is a difference of two figures, and may come out below 0.
    let share = |part: Estimate| match part.value > 0.0 {
        true => percent(part.value / fault.value),
        false => "too little to tell".to_owned(),
    };
    let headline = format!(
        "Such a write spends {} entering and leaving the kernel, {} copying the page, and {} on the rest.",
        share(trap),
        share(copy),
        share(rest)
    );
    let mut detail = format!(
        "Trap {}, copy {}, the rest (finding a new page, accounting for it, mapping it) {}.",
        cells::words(trap, "ns"),
        cells::words(copy, "ns"),
        cells::words(rest, "ns")
    );
    let published = |quantity| COW_STUDY.value("breakdown", quantity).map(percent);
    if let (Some(copy), Some(rest)) = (published("copy_share_ratio"), published("rest_share_ratio"))
    {
        detail.push_str(&format!(
            " The next-page study measured {copy} for the copy and took the other {rest} for the \
             trap and what belongs to it."
        ));
    }
    detail.push_str(if rest.value > trap.value.max(copy.value) {
        " Here most of it is work inside the kernel for every page: copying a page ahead of its \
         write saves the trap and pays all the rest."
    } else if trap.value > rest.value.max(copy.value) {
        " Here the trap is the largest part: copying pages ahead of their writes can save it."
    } else {
        " Here the copy itself is the largest part: only copying less would help."
    });
    Block::finding(headline, detail, faults::PARTS_PLOT)
}

/// Random against sequential writes at the largest size that has both.
fn order(study: &Study) -> Option<Block> {
    let page = study.profile.page_size_bytes;
    let workloads = workloads(study);
    let both = |bytes: u64| {
        let of = |pattern| plain(&workloads, pattern, bytes, page)?.ns_per_page();
        Some((bytes, of(Pattern::Sequential)?, of(Pattern::Random)?))
    };
    let (bytes, sequential, random) = both(64 << 20).or_else(|| both(16 << 20))?;
    let change = random.value / sequential.value - 1.0;
    let size = fmt::size(bytes);
    let headline = if !cells::apart(sequential, random) {
        format!("Writing {size} in a random order costs no more than in order, as far as was seen.")
    } else if change > 0.0 {
        format!("Writing {size} in a random order costs {} more than in order.", percent(change))
    } else {
        format!("Writing {size} in a random order costs {} less than in order.", percent(-change))
    };
    let published = |quantity| {
        COW_STUDY.recomputed("random-over-sequential", quantity).map(percent).unwrap_or_default()
    };
    let detail = format!(
        "A page: {} at random, {} in order, one child writing. By the next-page study's run times \
         it was {} to {} more there.",
        cells::words(random, "ns"),
        cells::words(sequential, "ns"),
        published("random_over_sequential_low_ratio"),
        published("random_over_sequential_high_ratio"),
    );
    Some(Block::finding(headline, detail, faults::RUNS_TABLE))
}

fn cold_memory(study: &Study) -> Option<Block> {
    let costs = &study.profile.costs;
    let cold = costs.get("cold_touch_ns_per_page")?.estimate;
    let warm = costs.get("first_touch_ns_per_page")?.estimate;
    if !cells::apart(cold, warm) || cold.value < 1.5 * warm.value {
        return None;
    }
    let hypervisor = study.environment().and_then(|e| e.hypervisor.as_deref());
    let why = match hypervisor {
        Some(_) => "the machine is a hypervisor's guest, and a hypervisor may take back memory \
                    that lies idle and then has to find it again"
            .to_owned(),
        None => "the CPU names no hypervisor that would explain it".to_owned(),
    };
    let headline = format!(
        "Memory that was not used lately costs {} a page at its first touch, against {}.",
        time(cold.value),
        time(warm.value)
    );
    let detail = format!(
        "First touch in a program's life {}, later in it {}: {why}. After a quiet hour the copies \
         of the first snapshot may each cost that much more; this report's other figures were \
         measured on warm memory.",
        cells::words(cold, "ns"),
        cells::words(warm, "ns")
    );
    Some(Block::finding(headline, detail, machine_profile::TABLE))
}
