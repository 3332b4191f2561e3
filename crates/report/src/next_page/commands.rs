// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole programs under each kernel and policy, against the plain kernel or, without one, `off`.

use cowlab_analysis::compared::change;
use cowlab_analysis::samples::Samples;
use cowlab_schema::{Metric, VARIANT, command};
use cowlab_store::Run;

use super::cases::OFF;
use crate::Rows;
use crate::cells::{self, MISSING};
use crate::document::{Block, Cell};
use crate::emulated;

/// A program on one kernel under one policy, and what it is compared with.
struct Case<'a> {
    command: &'a str,
    variant: &'a str,
    policy: &'a str,
    base: Samples<'a>,
    case: Samples<'a>,
}

pub(super) fn blocks(run: &Run) -> Vec<Block> {
    let all = Samples::of(&run.samples, command::BENCH);
    let mut blocks = Vec::new();
    for (index, metric, measured) in [
        ("times", command::ELAPSED_NS, "Elapsed"),
        ("instructions", command::CPU_INSTRUCTIONS, "Instructions"),
    ] {
        let label = emulated::label_of(
            &(0u32..)
                .zip(&run.info.environments)
                .filter(|(i, _)| !all.in_environment(*i).values(metric).is_empty())
                .map(|(_, environment)| environment.clone())
                .collect::<Vec<_>>(),
        );
        let mut each = Vec::new();
        for (command, of_command) in all.by(command::COMMAND) {
            let base = base(&of_command);
            for (variant, of_variant) in of_command.by(VARIANT) {
                for (policy, case) in of_variant.by(command::POLICY) {
                    if !case.values(metric).is_empty() {
                        each.push(Case { command, variant, policy, base: base.clone(), case });
                    }
                }
            }
        }
        let count = |metric: Metric| {
            move |of: &Case| {
                let count = of.case.median(metric).map(|count| count.max(0.0).round() as u64);
                cells::or(count.map(Cell::count), "this kernel does not tell")
            }
        };
        let id = format!("pre-copy-commands-{index}");
        let caption = format!("{label}Whole programs, by kernel and policy: {index}");
        let table = Rows::of(id, caption, &each)
            .text("Program", |of| of.command)
            .text("Kernel", |of| of.variant)
            .text("Policy", |of| format!("`{}`", of.policy))
            .figure(measured, |of| cells::estimate(of.case.estimate(metric), metric.unit, MISSING))
            .unit("Change", "fraction", |of| {
                cells::change(change(&of.base, &of.case, metric), "nothing to compare with")
            })
            .figure("Faults that copied", count(command::COW_FAULTS))
            .figure("pages copied ahead", count(command::PRECOPY_SUCCESS));
        blocks.extend((!each.is_empty()).then(|| Block::Table(table.table())));
    }
    blocks
}

/// What the others are compared with.
fn base<'a>(samples: &Samples<'a>) -> Samples<'a> {
    let plain = samples.with(VARIANT, "plain").with(command::POLICY, OFF);
    if !plain.is_empty() { plain } else { samples.with(command::POLICY, OFF) }
}
