// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole programs under each kernel and policy, against the plain kernel or, without one, `off`.

use cowlab_analysis::compared::change;
use cowlab_analysis::names::COMMAND as BENCH;
use cowlab_analysis::picked::Picked;
use cowlab_store::Run;

use super::cases::OFF;
use crate::cells::{self, MISSING};
use crate::document::{Block, Cell};
use crate::emulated;
use crate::rows::Rows;

/// A program on one kernel under one policy, and what it is compared with.
struct Case<'a> {
    command: &'a str,
    variant: &'a str,
    policy: &'a str,
    base: Picked<'a>,
    case: Picked<'a>,
}

pub(super) fn blocks(run: &Run) -> Vec<Block> {
    let all = Picked::of(&run.samples, BENCH);
    let mut blocks = Vec::new();
    for (index, metric, how) in
        [("times", "elapsed_ns", "ns"), ("instructions", "cpu_instructions", "instructions")]
    {
        let label = emulated::label_of(
            &(0u32..)
                .zip(&run.info.environments)
                .filter(|(i, _)| !all.in_environment(*i).by_round(metric).is_empty())
                .map(|(_, environment)| environment.clone())
                .collect::<Vec<_>>(),
        );
        let mut each = Vec::new();
        for command in all.words("command") {
            let of_command = all.with("command", command);
            let base = base(&of_command);
            for variant in of_command.words("variant") {
                let of_variant = of_command.with("variant", variant);
                for policy in of_variant.words("policy") {
                    let case = of_variant.with("policy", policy);
                    if case.estimate(metric).is_some() {
                        each.push(Case { command, variant, policy, base: base.clone(), case });
                    }
                }
            }
        }
        let count = |metric: &'static str| {
            move |of: &Case| match of.case.estimate(metric) {
                Some(e) => Cell::count(e.value.max(0.0).round() as u64),
                None => Cell::Missing("this kernel does not tell".into()),
            }
        };
        let id = format!("pre-copy-commands-{index}");
        let caption = format!("{label}Whole programs, by kernel and policy: {index}");
        let measured = if how == "ns" { "Elapsed" } else { "Instructions" };
        let table = Rows::of(id, caption, &each)
            .text("Program", |of| of.command)
            .text("Kernel", |of| of.variant)
            .text("Policy", |of| format!("`{}`", of.policy))
            .figure(measured, |of| cells::estimate(of.case.estimate(metric), how, MISSING))
            .unit("Change", "fraction", |of| {
                cells::change(change(&of.base, &of.case, metric), "nothing to compare with")
            })
            .figure("Faults that copied", count("cow_faults"))
            .figure("pages copied ahead", count("precopy_success"));
        blocks.extend((!each.is_empty()).then(|| Block::Table(table.table())));
    }
    blocks
}

/// What the others are compared with.
fn base<'a>(samples: &Picked<'a>) -> Picked<'a> {
    let plain = samples.with("variant", "plain").with("policy", OFF);
    if !plain.is_empty() { plain } else { samples.with("policy", OFF) }
}
