// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Advice as a table, and as samples.

use cowlab_bench::advice::BENCH;
use cowlab_model::advice::{Advice, Choice, Forecast};
use cowlab_model::cost::Predicted;
use cowlab_model::stats::estimate;
use cowlab_report::{Block, Cell, Column, Finding, Section, Table};
use cowlab_schema::{Metric, advise};
use cowlab_store::{Params, Sample};

use crate::application::Application;

/// A figure of a forecast, and its name.
type Figure = (Metric, fn(&Forecast) -> Predicted);

/// The figures of a forecast: as samples have them.
const FIGURES: [Figure; 3] = [
    (advise::STOP_NS, |f| f.stop_ns),
    (advise::WRITES_NS, |f| f.writes_ns),
    (advise::EXTRA_BYTES, |f| f.extra_bytes),
];

/// What was measured, of a run's samples.
fn measured(samples: &[Sample]) -> impl Iterator<Item = &Sample> {
    samples
        .iter()
        .filter(|s| s.bench == BENCH && s.params.get("figure").is_some_and(|f| f == "measured"))
}

/// A short name of a choice, as samples have it.
pub fn name_of(choice: &Choice) -> String {
    match choice {
        Choice::AsItIs => "as-it-is".into(),
        Choice::Thp => "thp".into(),
        Choice::Mthp(bytes) => format!("mthp:{bytes}"),
        Choice::Hugetlb => "hugetlb".into(),
        Choice::Tend => "tend".into(),
        Choice::Freeze => "freeze".into(),
        Choice::DontFork(mapping) => format!("dontfork:{mapping}"),
        Choice::FewerThreads => "fewer-threads".into(),
        Choice::Spawn => "posix-spawn".into(),
        Choice::Policy(policy) => format!("policy:{policy}"),
    }
}

/// The forecasts as samples, with the parameters `choice` and `figure` (value, low, high).
pub fn forecast_samples(advice: &[Advice]) -> Vec<Sample> {
    let mut samples = Vec::new();
    for one in advice {
        let Ok(forecast) = &one.forecast else { continue };
        for (metric, of) in FIGURES {
            let p = of(forecast);
            for (figure, value) in [("predicted", p.value), ("low", p.low), ("high", p.high)] {
                let mut params = Params::new();
                advise::CHOICE.put(&mut params, &name_of(&one.choice));
                advise::FIGURE.put(&mut params, figure);
                samples.push(Sample::new(BENCH, params, metric, value));
            }
        }
    }
    samples
}

/// The page: the sentence, the table, and what it rests on.
pub fn page(
    sentence: &str,
    application: &Application,
    advice: &[Advice],
    trials: &[Sample],
) -> Vec<Section> {
    let mut blocks = vec![
        Block::Finding(Finding {
            headline: sentence.to_owned(),
            detail: application.notes.join("; ") + ".",
            samples: None,
        }),
        Block::Table(table(advice, trials)),
    ];
    let priced = advice.iter().filter(|one| one.forecast.is_ok());
    let mut notes: Vec<&String> = priced.flat_map(|one| &one.notes).collect();
    notes.sort();
    notes.dedup();
    blocks.extend(notes.into_iter().map(|note| Block::Note(note.clone())));
    let unpriced = advice.iter().filter_map(|one| Some((&one.what, one.forecast.as_ref().err()?)));
    let unpriced: Vec<String> = unpriced.map(|(what, why)| format!("{what} ({why})")).collect();
    if !unpriced.is_empty() {
        blocks.push(Block::Note(format!("No figure for {}", unpriced.join("; "))));
    }
    if !trials.is_empty() {
        for one in advice {
            if let Err(why) = &one.shape {
                blocks.push(Block::Note(format!("{} was not tried: {why}", one.what)));
            }
        }
    }
    vec![Section::new("advice", heading(application), blocks)]
}

fn table(advice: &[Advice], trials: &[Sample]) -> Table {
    let verified = !trials.is_empty();
    let mut columns = vec![Column::text("choice")];
    for (figure, name) in [
        (advise::STOP_NS, "stop at fork"),
        (advise::WRITES_NS, "writes after it"),
        (advise::EXTRA_BYTES, "extra memory"),
    ] {
        columns.push(Column::number(format!("{name}, predicted")));
        if verified {
            columns.push(Column::number(match figure == advise::EXTRA_BYTES {
                true => "copies, measured".to_owned(),
                false => format!("{name}, measured"),
            }));
        }
    }
    columns.push(Column::text("takes"));
    columns.push(Column::text("how"));
    let mut table = Table::new("advice", "What each choice would change", columns);
    for one in advice.iter().filter(|one| one.forecast.is_ok()) {
        let mut row = vec![Cell::text(&one.what)];
        for (metric, of) in FIGURES {
            row.push(match &one.forecast {
                Ok(forecast) => predicted(of(forecast), metric.unit),
                Err(why) => Cell::Missing(why.clone()),
            });
            if verified {
                row.push(tried(one, trials, metric));
            }
        }
        row.push(Cell::text(match one.choice {
            Choice::AsItIs => "",
            _ => one.choice.means().name(),
        }));
        row.push(Cell::text(&one.step));
        table.push(row);
    }
    table
}

fn predicted(p: Predicted, unit: &str) -> Cell {
    if p.low == p.high {
        Cell::number(p.value, unit)
    } else {
        Cell::estimate(p.value, p.low, p.high, unit)
    }
}

fn tried(one: &Advice, trials: &[Sample], metric: Metric) -> Cell {
    if let Err(why) = &one.shape {
        return Cell::Missing(why.clone());
    }
    let metric = if metric == advise::EXTRA_BYTES { advise::COPIED_BYTES } else { metric };
    let values: Vec<f64> =
        trials_of(trials, &one.choice, metric).into_iter().map(|s| s.value).collect();
    match estimate(&values) {
        Some(e) if metric.unit == "bytes" => Cell::number(e.value, metric.unit),
        Some(e) => Cell::estimate(e.value, e.low, e.high, metric.unit),
        None => Cell::Missing("it was not measured".to_owned()),
    }
}

/// The trials of one choice.
fn trials_of<'a>(trials: &'a [Sample], choice: &Choice, metric: Metric) -> Vec<&'a Sample> {
    let name = name_of(choice);
    measured(trials).filter(|s| s.params["choice"] == name && s.metric == metric.name).collect()
}

/// The name of an application, for a heading.
fn heading(application: &Application) -> String {
    format!("What a fork costs {}, and what each choice would change", application.name)
}
