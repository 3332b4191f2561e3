// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Advice as a table, and as samples.

use cowlab_analysis::samples::Samples;
use cowlab_model::advice::{Advice, Choice, Forecast};
use cowlab_model::application::ApplicationProfile;
use cowlab_model::cost::Predicted;
use cowlab_report::fmt::quantity;
use cowlab_report::{Block, Cell, Finding, Rows, Section, Table};
use cowlab_schema::{Command, Figure, Metric, advise};
use cowlab_store::{Params, Sample, without_user};

use crate::application::Application;

/// A figure of a forecast: as samples have it, and as the table names it.
type Foretold = (Metric, &'static str, fn(&Forecast) -> Predicted);

/// The figures of a forecast.
const FIGURES: [Foretold; 3] = [
    (advise::STOP_NS, "stop at fork", |f| f.stop_ns),
    (advise::WRITES_NS, "writes after it", |f| f.writes_ns),
    (advise::EXTRA_BYTES, "extra memory", |f| f.extra_bytes),
];

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
        Choice::Forkless(_) => "forkless".into(),
        Choice::Policy(policy) => format!("policy:{policy}"),
    }
}

/// The forecasts as samples, with the parameters `choice` and `figure` (value, low, high).
pub fn forecast_samples(advice: &[Advice], profile: &ApplicationProfile) -> Vec<Sample> {
    let mut samples = Vec::new();
    for one in advice {
        let Ok(forecast) = &one.forecast else { continue };
        for (metric, _, of) in FIGURES {
            let p = of(forecast);
            for (figure, value) in
                [(Figure::Predicted, p.value), (Figure::Low, p.low), (Figure::High, p.high)]
            {
                samples.push(Sample::of(metric, params(one, figure), value));
            }
        }
        let rate = rate(forecast, advice, profile);
        samples.extend(
            rate.map(|rate| Sample::of(advise::FORKS_PER_S, params(one, Figure::Predicted), rate)),
        );
    }
    samples
}

fn params(of: &Advice, figure: Figure) -> Params {
    let mut params = Params::new();
    advise::CHOICE.put(&mut params, &name_of(&of.choice));
    advise::FIGURE.put(&mut params, figure);
    params
}

/// How often one forks that forks all the time.
fn rate(then: &Forecast, advice: &[Advice], profile: &ApplicationProfile) -> Option<f64> {
    let now = advice.iter().find(|one| one.choice == Choice::AsItIs)?.forecast.as_ref().ok()?;
    Some(then.forks_per_s(now, profile.forks_per_s?))
}

/// A column of it, where it does.
fn with_rate<'a>(
    rows: Rows<'a, &'a Advice>,
    advice: &[Advice],
    profile: &ApplicationProfile,
) -> Rows<'a, &'a Advice> {
    if profile.forks_per_s.is_none() {
        return rows;
    }
    rows.figure("forks a second", |one| {
        let then = one.forecast.as_ref().ok();
        match then.and_then(|then| rate(then, advice, profile)) {
            Some(rate) => Cell::number(rate, advise::FORKS_PER_S.unit),
            None => Cell::Missing("it has no forecast".into()),
        }
    })
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
        Block::Table(table(advice, &application.profile, trials)),
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

/// Choices on one screen, the application as it is among them.
const ON_SCREEN: usize = 5;

/// One screen of it: the sentence, the first choices without intervals, and how to have the best.
pub fn screen(
    sentence: &str,
    application: &Application,
    advice: &[Advice],
    target: &str,
) -> Vec<Section> {
    let priced: Vec<&Advice> = advice.iter().filter(|one| one.forecast.is_ok()).collect();
    let shown = &priced[..priced.len().min(ON_SCREEN)];
    let mut rows = Rows::of("advice", "", shown).text("choice", |one| &one.what);
    for (metric, name, of) in FIGURES {
        rows = rows.figure(name, |one| match &one.forecast {
            // Anything between nothing and a share: the middle alone would be a promise.
            Ok(forecast) if one.choice == Choice::Freeze && metric != advise::STOP_NS => {
                match application.profile.collector_share {
                    Some(_) => {
                        Cell::text(format!("at least {}", quantity(of(forecast).low, metric.unit)))
                    }
                    None => Cell::text("unknown"),
                }
            }
            Ok(forecast) => Cell::number(of(forecast).value, metric.unit),
            Err(why) => Cell::Missing(why.clone()),
        });
    }
    let table =
        with_rate(rows, advice, &application.profile).text("takes", |one| takes(one)).table();
    let mut blocks = vec![
        Block::Finding(Finding {
            headline: sentence.to_owned(),
            detail: application.notes.join("; ") + ".",
            samples: None,
        }),
        Block::Table(table),
    ];
    let best = shown.iter().find(|one| one.choice != Choice::AsItIs);
    let best = best.map_or(String::new(), |best| format!(". {}: {}", best.what, best.step));
    // First, so that a line's end does not part the command.
    blocks.push(Block::Note(format!(
        "{}: all choices with intervals, and how to have each{best}",
        Command::AdviseTables.of(without_user(target))
    )));
    vec![Section::new("advice", "", blocks)]
}

fn takes(one: &Advice) -> &str {
    match one.choice {
        Choice::AsItIs => "",
        _ => one.choice.means().name(),
    }
}

fn table(advice: &[Advice], profile: &ApplicationProfile, trials: &[Sample]) -> Table {
    let all = Samples::of(trials, advise::BENCH).with(advise::FIGURE, Figure::Measured);
    let priced: Vec<&Advice> = advice.iter().filter(|one| one.forecast.is_ok()).collect();
    let mut rows = Rows::of("advice", "What each choice would change", &priced)
        .text("choice", |one| &one.what);
    for (metric, name, of) in FIGURES {
        rows = rows.figure(&format!("{name}, predicted"), |one| match &one.forecast {
            Ok(forecast) => predicted(of(forecast), metric.unit),
            Err(why) => Cell::Missing(why.clone()),
        });
        let (name, metric) = match metric == advise::EXTRA_BYTES {
            true => ("copies", advise::COPIED_BYTES),
            false => (name, metric),
        };
        if !trials.is_empty() {
            rows = rows.figure(&format!("{name}, measured"), |one| tried(one, &all, metric));
        }
    }
    with_rate(rows, advice, profile)
        .text("takes", |one| takes(one))
        .text("how", |one| &one.step)
        .table()
}

fn predicted(p: Predicted, unit: &str) -> Cell {
    if p.low == p.high {
        Cell::number(p.value, unit)
    } else {
        Cell::estimate(p.value, p.low, p.high, unit)
    }
}

fn tried(one: &Advice, trials: &Samples, metric: Metric) -> Cell {
    if let Err(why) = &one.shape {
        return Cell::Missing(why.clone());
    }
    match trials.with(advise::CHOICE, &name_of(&one.choice)).estimate(metric) {
        Some(e) if metric.unit == "bytes" => Cell::number(e.value, metric.unit),
        Some(e) => Cell::estimate(e.value, e.low, e.high, metric.unit),
        None => Cell::Missing("it was not measured".to_owned()),
    }
}

/// The name of an application, for a heading.
pub fn heading(application: &Application) -> String {
    format!("What a fork costs {}, and what each choice would change", application.name)
}
