// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole programs under each kernel and policy, against the plain kernel or, without one, `off`.

use cowlab_analysis::names::COMMAND as BENCH;
use cowlab_store::Run;

use super::cases::{OFF, change};
use super::depth::signed;
use crate::cells;
use crate::document::{Block, Cell, Column, Table};
use crate::emulated;
use cowlab_analysis::picked::Picked;

pub(super) fn blocks(run: &Run) -> Vec<Block> {
    let all = Picked::of(&run.samples, BENCH);
    let mut blocks = Vec::new();
    for (index, metric, how) in
        [("times", "elapsed_ns", "ns"), ("instructions", "cpu_instructions", "instructions")]
    {
        let mut table = Table::new(
            format!("pre-copy-commands-{index}"),
            format!("Whole programs, by kernel and policy: {index}"),
            vec![
                Column::text("Program"),
                Column::text("Kernel"),
                Column::text("Policy"),
                Column::number(if how == "ns" { "Elapsed" } else { "Instructions" }),
                Column::unit("Change", "fraction"),
                Column::number("Faults that copied"),
                Column::number("pages copied ahead"),
            ],
        );
        let label = emulated::label_of(
            &(0u32..)
                .zip(&run.info.environments)
                .filter(|(i, _)| !all.in_environment(*i).by_round(metric).is_empty())
                .map(|(_, environment)| environment.clone())
                .collect::<Vec<_>>(),
        );
        for command in all.words("command") {
            let command_samples = all.with("command", command);
            let base = base(&command_samples);
            for variant in command_samples.words("variant") {
                let of_variant = command_samples.with("variant", variant);
                for policy in of_variant.words("policy") {
                    let case = of_variant.with("policy", policy);
                    if case.estimate(metric).is_none() {
                        continue;
                    }
                    let changed = match change(&base, &case, metric) {
                        Some(e) => Cell::Estimate {
                            value: e.value,
                            low: e.low,
                            high: e.high,
                            text: format!(
                                "{} ({} to {})",
                                signed(e.value),
                                signed(e.low),
                                signed(e.high)
                            ),
                        },
                        None => Cell::Missing("nothing to compare with".into()),
                    };
                    let count = |metric| match case.estimate(metric) {
                        Some(e) => Cell::count(e.value.max(0.0).round() as u64),
                        None => Cell::Missing("this kernel does not tell".into()),
                    };
                    table.push(vec![
                        Cell::text(command),
                        Cell::text(variant),
                        Cell::text(format!("`{policy}`")),
                        cells::estimate(case.estimate(metric), how, "was not measured"),
                        changed,
                        count("cow_faults"),
                        count("precopy_success"),
                    ]);
                }
            }
        }
        if !table.rows.is_empty() {
            table.caption.insert_str(0, label);
            blocks.push(Block::Table(table));
        }
    }
    blocks
}

/// What the others are compared with.
fn base<'a>(samples: &Picked<'a>) -> Picked<'a> {
    let plain = samples.with("variant", "plain").with("policy", OFF);
    if !plain.is_empty() { plain } else { samples.with("policy", OFF) }
}
