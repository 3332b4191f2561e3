// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This machine: its facts, its profile, and what could not be measured on it.

use cowlab_analysis::study::Study;
use cowlab_store::Environment;

use super::curves;
use crate::Rows;
use crate::cells;
use crate::document::{Block, Cell, Column, Section, Table};
use crate::facts::executed;
use crate::fmt::{self, size};
use crate::machine_profile;

pub(super) fn section(study: &Study) -> Section {
    let mut blocks = Vec::new();
    match study.environment() {
        Some(environment) => blocks.push(Block::Table(facts(environment))),
        None => blocks.push(Block::Note("The run names no environment.".into())),
    }
    blocks.push(Block::Text(
        "The machine profile: what the parts of a fork cost here. A page is the unit in which the \
         kernel hands out memory; a page-table entry is its note where one page lies, and fork \
         copies every one of them; a trap is the way into the kernel and back; the TLB is the \
         CPU's memory of recent entries, which must be flushed when one changes."
            .into(),
    ));
    blocks.push(Block::Table(machine_profile::table(&study.profile)));
    blocks.extend(curves::plots(&study.profile));
    let missing = &study.run.info.missing;
    blocks.extend(
        missing.iter().map(|m| Block::Note(format!("{}: not available: {}.", m.metric, m.reason))),
    );
    Section::new("machine", "This machine", blocks)
}

fn facts(environment: &Environment) -> Table {
    let mut facts: Vec<(&str, Option<String>)> = Vec::new();
    let mut add = |name, value| facts.push((name, value));
    add("CPU", environment.cpu_model.clone());
    add("CPUs that may be used", Some(fmt::count(environment.cpus.into())));
    add("Architecture", Some(environment.architecture.clone()));
    let hypervisor = environment.hypervisor.clone();
    add("Hypervisor", Some(hypervisor.unwrap_or_else(|| "none seen".into())));
    add("Kernel", Some(environment.kernel.clone()));
    let memory = environment.memory_bytes.map(|bytes| fmt::quantity(bytes as f64, "bytes"));
    add("Memory", memory);
    add("Page", Some(size(environment.page_size_bytes)));
    let huge = environment.thp_size_bytes.map(|bytes| {
        format!("{}, setting: {}", size(bytes), environment.thp.as_deref().unwrap_or("not told"))
    });
    add("Huge page", huge);
    let switched_on: Vec<String> = environment
        .mthp
        .iter()
        .filter(|(_, setting)| *setting != "never")
        .map(|(bytes, setting)| format!("{} {setting}", size(*bytes)))
        .collect();
    if !environment.mthp.is_empty() {
        let none = || "every size is switched off".to_owned();
        let some = (!switched_on.is_empty()).then(|| switched_on.join(", "));
        add("Large pages by size (mTHP)", Some(some.unwrap_or_else(none)));
    }
    add("vm.overcommit_memory", environment.overcommit_memory.map(|v| fmt::count(v.into())));
    add("Clock", environment.clocksource.clone());
    add("Load average at the start", environment.load_average.map(fmt::number));
    let mitigations: Vec<String> = environment
        .mitigations
        .iter()
        .filter(|(_, state)| state.starts_with("Mitigation"))
        .map(|(name, _)| name.clone())
        .collect();
    if !environment.mitigations.is_empty() {
        let none = || "none is active".to_owned();
        let some = (!mitigations.is_empty()).then(|| mitigations.join(", "));
        add("Mitigations of CPU flaws, active", Some(some.unwrap_or_else(none)));
    }
    add("Measured", Some(executed(environment.accelerator).to_owned()));
    Rows::of("environment", "Where it was measured", &facts)
        .text("Fact", |(name, _)| *name)
        .column(Column::text("Value"), |(_, value)| {
            cells::or(value.as_ref().map(Cell::text), "not told by the kernel")
        })
        .table()
}
