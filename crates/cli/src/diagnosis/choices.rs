// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a fork costs, and what each choice would change, as tables.

use cowlab_model::advice::{Advice, Choice, Forecast};
use cowlab_model::cost::Predicted;
use cowlab_report::fmt::quantity;
use cowlab_report::{Block, Cell, Rows, Table};
use cowlab_schema::Command;
use cowlab_store::{Missing, without_user};

use super::Costs;

/// A figure of a forecast: its name, its unit, and how to get it.
type Figure = (&'static str, &'static str, fn(&Forecast) -> Predicted);

const FIGURES: [Figure; 3] = [
    ("stop at fork", "ns", |f| f.stop_ns),
    ("writes after it", "ns", |f| f.writes_ns),
    ("extra memory", "bytes", |f| f.extra_bytes),
];
/// Choices on one screen, the application as it is among them.
const ON_SCREEN: usize = 3;

/// The first choices without intervals, and how to have the best.
pub fn first(costs: &Costs, target: &str, is_run: bool) -> Vec<Block> {
    let priced = priced(costs);
    let shown = &priced[..priced.len().min(ON_SCREEN)];
    let cell = |one: &Advice, (name, unit, of): Figure| match &one.forecast {
        // Anything between nothing and a share: the middle alone would be a promise.
        Ok(then) if one.choice == Choice::Freeze && name != FIGURES[0].0 => {
            match costs.application.collector_share {
                Some(_) => Cell::text(format!("at least {}", quantity(of(then).low, unit))),
                None => Cell::text("unknown"),
            }
        }
        Ok(then) => Cell::number(of(then).value, unit),
        Err(why) => Cell::Missing(why.clone()),
    };
    let command = if is_run { Command::PredictTables } else { Command::ExplainTables };
    // Of a process the page has it already.
    let best = shown.get(1).filter(|_| is_run);
    let best = best.map_or(String::new(), |best| format!(". {}: {}", best.what, best.step));
    // First, so that a line's end does not part the command.
    let note = format!(
        "{}: all choices with intervals, and how to have each{best}",
        command.of(without_user(target))
    );
    vec![Block::Table(table(costs, shown, "", cell, false)), Block::Note(note)]
}

/// All choices with their intervals, and what they rest on.
pub fn all(costs: &Costs) -> Vec<Block> {
    let priced = priced(costs);
    let cell = |one: &Advice, (_, unit, of): Figure| match &one.forecast {
        Ok(then) if of(then).low == of(then).high => Cell::number(of(then).value, unit),
        Ok(then) => Cell::estimate(of(then).value, of(then).low, of(then).high, unit),
        Err(why) => Cell::Missing(why.clone()),
    };
    let mut blocks =
        vec![Block::Table(table(costs, &priced, "What each choice would change", cell, true))];
    let mut notes: Vec<&String> = priced.iter().flat_map(|one| &one.notes).collect();
    notes.sort();
    notes.dedup();
    blocks.extend(notes.into_iter().map(|note| Block::Note(note.clone())));
    let unpriced =
        costs.choices.iter().filter_map(|one| Some((&one.what, one.forecast.as_ref().err()?)));
    let unpriced: Vec<String> = unpriced.map(|(what, why)| format!("{what} ({why})")).collect();
    if !unpriced.is_empty() {
        blocks.push(Block::Note(format!("No figure for {}", unpriced.join("; "))));
    }
    blocks
}

/// What has no forecast, and why.
pub fn missing(costs: &Costs) -> Vec<Missing> {
    let row = |one: &Advice| {
        let reason = one.forecast.as_ref().err()?.clone();
        Some(Missing { metric: format!("forecast of {}", one.what), reason })
    };
    costs.choices.iter().filter_map(row).collect()
}

fn priced(costs: &Costs) -> Vec<&Advice> {
    costs.choices.iter().filter(|one| one.forecast.is_ok()).collect()
}

fn table<'a>(
    costs: &Costs,
    shown: &'a [&'a Advice],
    title: &str,
    cell: impl Fn(&Advice, Figure) -> Cell,
    has_steps: bool,
) -> Table {
    let cell = &cell;
    let mut rows = Rows::of("advice", title, shown).text("choice", |one| &one.what);
    for figure in FIGURES {
        rows = rows.figure(figure.0, move |one| cell(one, figure));
    }
    // How often one forks that forks all the time.
    if let (Some(per_s), Some(now)) = (costs.application.forks_per_s, costs.now()) {
        rows = rows.figure("forks a second", |one| match &one.forecast {
            Ok(then) => Cell::number(then.forks_per_s(now, per_s), "per_s"),
            Err(why) => Cell::Missing(why.clone()),
        });
    }
    rows = rows.text("takes", |one| match one.choice {
        Choice::AsItIs => "",
        _ => one.choice.means().name(),
    });
    if has_steps { rows.text("how", |one| &one.step).table() } else { rows.table() }
}
