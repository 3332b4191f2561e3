// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the patches cost while they are switched off: instructions, counted by an emulated clock
//! that ticks once an instruction, on kernels booted in turn.

use cowlab_analysis::compared::{change, ratio};
use cowlab_analysis::samples::Samples;
use cowlab_model::Estimate;
use cowlab_schema::cow_faults::{self, PATTERN, POLICY, QUANTILE, SIZE_BYTES, THREADS};
use cowlab_schema::fork_sweep::{self, HEAP_BYTES};
use cowlab_schema::{Bench, Metric, Pattern, Policy, Quantile, VARIANT};
use cowlab_store::{Accelerator, Run};

use super::cases::OFF;
use crate::Rows;
use crate::cells::{self, signed};
use crate::document::{Block, Table};
use crate::emulated;
use crate::fmt;

const TABLE: &str = "pre-copy-instructions";

/// Of the table of deferred page tables.
const DEFERRED: &str = "deferred-instructions";

/// More than that is not switched off.
const MOST_RATIO: f64 = 0.01;

/// One operation: its samples by variant.
struct Operation<'a> {
    name: String,
    samples: Samples<'a>,
    metric: Metric,
    each: Option<Metric>,
}

/// It, and what it executes before a change, after it, and the change.
type Counted<'a> = (Operation<'a>, [Option<Estimate>; 3]);

/// A kernel beside the plain one.
struct Beside {
    variant: &'static str,
    table: &'static str,
    column: &'static str,
    subject: &'static str,
}

const BESIDE: [Beside; 2] = [
    Beside {
        variant: "upstream",
        table: "candidate-instructions",
        column: "upstream series",
        subject: "The kernel with the upstream series",
    },
    Beside {
        variant: "patched",
        table: TABLE,
        column: "patched, switched off",
        subject: "Switched off, the patched kernel",
    },
];

pub(super) fn blocks(run: &Run) -> Vec<Block> {
    let mut blocks: Vec<Block> =
        BESIDE.iter().flat_map(|of| beside_plain(run, of, |of| of[1].is_some())).collect();
    if blocks.is_empty() {
        // Of the plain kernel alone.
        blocks = beside_plain(run, &BESIDE[1], |of| of[0].is_some());
    }
    if !blocks.is_empty() {
        blocks.extend(deferred(run));
    }
    emulated::label_blocks(&mut blocks, emulated::label(Accelerator::Icount));
    blocks
}

fn beside_plain(
    run: &Run,
    beside: &Beside,
    is_told: impl Fn(&[Option<Estimate>; 3]) -> bool,
) -> Vec<Block> {
    let rows: Vec<Counted> = operations(run)
        .into_iter()
        .map(|operation| {
            let of = |variant: &str| operation.samples.with(VARIANT, variant);
            let (plain, other) = (of("plain"), of(beside.variant));
            let each = |samples: &Samples| match operation.each {
                None => samples.estimate(operation.metric),
                Some(each) => ratio(samples, operation.metric, each),
            };
            let figures = [each(&plain), each(&other), change(&plain, &other, operation.metric)];
            (operation, figures)
        })
        .filter(|(_, figures)| is_told(figures))
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let caption = "Instructions of the guest, by a clock that ticks once an instruction; medians \
                   over the boots, which alternate between the kernels";
    let table = table(beside.table, caption, ["plain kernel", beside.column], &rows);
    let worst = rows.iter().filter_map(|(operation, figures)| Some((figures[2]?, operation)));
    let worst = worst.max_by(|a, b| a.0.value.total_cmp(&b.0.value));
    let mut blocks = Vec::new();
    if let Some((change, operation)) = worst {
        let within = if change.value <= MOST_RATIO { "at most" } else { "MORE than" };
        let headline = format!(
            "{} executes {within} 1% more instructions: {} at worst.",
            beside.subject,
            signed(change.value)
        );
        let detail = format!(
            "{}: {} ({} to {}); every operation is in the table.",
            operation.name,
            signed(change.value),
            signed(change.low),
            signed(change.high)
        );
        blocks.push(Block::finding(headline, detail, beside.table));
    }
    blocks.push(Block::Table(table));
    blocks
}

/// What was measured by a clock that counts instructions.
fn counted<'a>(run: &'a Run, bench: &Bench) -> Samples<'a> {
    let all = Samples::of(&run.samples, bench);
    let environments = (0u32..).zip(&run.info.environments);
    let mut found = Samples::default();
    for (index, environment) in environments {
        if environment.accelerator == Accelerator::Icount {
            found = found.and(all.in_environment(index));
        }
    }
    found
}

fn operations(run: &Run) -> Vec<Operation<'_>> {
    let off = counted(run, cow_faults::BENCH).with(POLICY, OFF).with(THREADS, 0);
    let mut operations = vec![Operation {
        name: "a single write (median)".into(),
        samples: off.with(PATTERN, Pattern::Single).with(QUANTILE, Quantile::P50),
        metric: cow_faults::FAULT_INSTRUCTIONS,
        each: None,
    }];
    for pattern in [Pattern::Sequential, Pattern::Random] {
        for bytes in off.numbers(SIZE_BYTES) {
            let samples = off.with(PATTERN, pattern).with(SIZE_BYTES, bytes);
            let name = format!("a copy-on-write fault: {pattern}, {}", fmt::size(bytes));
            let metric = cow_faults::ELAPSED_INSTRUCTIONS;
            let each = Some(cow_faults::PAGES_WRITTEN);
            operations.push(Operation { name, samples, metric, each });
        }
    }
    let forks = counted(run, fork_sweep::BENCH);
    operations.extend(fork_operations(&forks.not_with(fork_sweep::POLICY, Policy::Defer)));
    operations
}

fn fork_operations<'a>(forks: &Samples<'a>) -> Vec<Operation<'a>> {
    let mut operations = Vec::new();
    for heap in forks.numbers(HEAP_BYTES) {
        let samples = forks.with(HEAP_BYTES, heap);
        let heap = fmt::tick(heap as f64, "bytes");
        for (what, metric) in [
            // On one CPU a long fork may return after its child has run, and then counts that too.
            ("a fork, until its child runs", fork_sweep::CHILD_START_INSTRUCTIONS),
            ("a fork, its child's end and the wait", fork_sweep::CYCLE_INSTRUCTIONS),
        ] {
            let samples = samples.clone();
            let name = format!("{what}: heap of {heap}");
            operations.push(Operation { name, samples, metric, each: None });
        }
    }
    operations
}

/// Forks that copy their page tables beside forks that leave them for later.
fn deferred(run: &Run) -> Option<Block> {
    let forks = counted(run, fork_sweep::BENCH);
    let defer = forks.with(fork_sweep::POLICY, Policy::Defer);
    let rows: Vec<Counted> = fork_operations(&forks.not_with(fork_sweep::POLICY, Policy::Defer))
        .into_iter()
        .zip(fork_operations(&defer))
        .map(|(now, later)| {
            let of = |samples: &Samples| samples.estimate(now.metric);
            let change = change(&now.samples, &later.samples, now.metric);
            let figures = [of(&now.samples), of(&later.samples), change];
            (now, figures)
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let caption = "Instructions of a fork that copies its page tables, and of one that leaves them \
                   for later";
    Some(Block::Table(table(DEFERRED, caption, ["`off`", "`defer`"], &rows)))
}

/// What each operation executes of both, and the change.
fn table(id: &str, caption: &str, names: [&str; 2], rows: &[Counted]) -> Table {
    const NONE: &str = "was not counted";
    let count = |at: usize| {
        move |(_, figures): &Counted| cells::estimate(figures[at], "instructions", NONE)
    };
    Rows::of(id, caption, rows)
        .text("Operation", |(operation, _)| operation.name.clone())
        .figure(names[0], count(0))
        .figure(names[1], count(1))
        .unit("Change", "fraction", |(_, figures)| cells::change(figures[2], NONE))
        .table()
}
