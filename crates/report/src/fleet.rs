// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups of a fleet's hosts side by side, the outliers first.

use std::collections::{BTreeMap, BTreeSet};

use cowlab_analysis::Verdict;
use cowlab_analysis::figures::Key;
use cowlab_analysis::fleet::{Against, DEVIATIONS, FEWEST_HOSTS, FleetComparison, Outlier, Panel};
use cowlab_model::Estimate;

use crate::{Axis, Block, Cell, Document, Plot, Rows, Section, Series, Table, cells};

/// What bars show of hosts of several types.
const RELATIVE: &str =
    " Each host is shown relative to the median of those that it is compared with.";
/// Rows of a table that does not show everything.
const ROWS: usize = 40;

/// What differs; with `all` every row of each table.
pub fn document(summary: &FleetComparison, damaged: usize, all: bool) -> Document {
    let by = summary.by.join(", ");
    let within = match &summary.within[..] {
        [] => String::new(),
        keys => format!(", within {}", keys.join(", ")),
    };
    let subtitle = format!("{} runs of {} hosts by {by}{within}", summary.runs, summary.hosts);
    let mut document = Document::new("Fleet", subtitle);
    let mut blocks = vec![Block::Text(in_short(summary))];
    for (count, why) in [
        (damaged, "are damaged and left out: standard error named each".to_owned()),
        (summary.without_key, format!("are left out: {by}{within} is not known of them")),
    ] {
        if count > 0 {
            blocks.push(Block::Note(format!("{count} runs {why}.")));
        }
    }
    if !summary.environments_differ.is_empty() {
        blocks.push(Block::Note(format!(
            "The groups do not have the same {} either: a difference may come from that. `--within KEY` compares \
             hosts that have the same.",
            summary.environments_differ.join(", ")
        )));
    }
    let figures = summary.figures.iter().map(|of| &of.key);
    let common = Common::of(figures.chain(summary.panels.iter().map(|of| &of.key)));
    let rows = |count: usize| if all { count } else { count.min(ROWS) };
    let shown = &summary.figures[..rows(summary.figures.len())];
    if !shown.is_empty() {
        blocks.push(Block::Table(outliers(shown, &common)));
        blocks.extend(common.notes());
    }
    let left_out = summary.figures.len() - shown.len();
    if left_out > 0 {
        blocks.push(Block::Note(format!("{left_out} more differ less: `--all` shows them.")));
    }
    blocks.push(Block::Text(meaning(summary)));
    document.sections.push(Section::new("outliers", "Outliers", blocks));
    if !summary.panels.is_empty() {
        let mut blocks = vec![Block::Text(
            "The figures that differ most. A bar is the median of a group's hosts, its line the range of 95% of \
             them; of a group of one host, of its own runs. Groups that differ most stand first."
                .to_owned()
                + if summary.within.is_empty() { "" } else { RELATIVE },
        )];
        blocks.extend(
            summary.panels.iter().enumerate().map(|(at, of)| Block::Plot(plot(at, of, &common))),
        );
        document.sections.push(Section::new("figures", "Figure by figure", blocks));
    }
    let groups = &summary.groups[..rows(summary.groups.len())];
    let mut blocks = vec![Block::Table(
        Rows::of("groups", "Groups", groups)
            .text(&by, |of| &of.name)
            .count("hosts", |of| of.hosts as u64)
            .count("runs", |of| of.runs as u64)
            .count("figures that differ", |of| of.different as u64)
            .table(),
    )];
    if groups.len() < summary.groups.len() {
        let more = summary.groups.len() - groups.len();
        blocks.push(Block::Note(format!("{more} more groups: `--all` shows them.")));
    }
    document.sections.push(Section::new("groups", "Groups", blocks));
    document
}

fn in_short(summary: &FleetComparison) -> String {
    let FleetComparison { compared, different, too_few_hosts, .. } = summary;
    let chance = match summary.different_by_chance {
        Some(chance) => format!(" ({chance} would differ if hosts were grouped at random)"),
        None => String::new(),
    };
    format!(
        "{} groups, {compared} comparisons of a group in a figure: {different} differ{chance}, {} show no \
         difference, {too_few_hosts} have too few hosts to tell.",
        summary.groups.len(),
        compared - different - too_few_hosts,
    )
}

/// What the intervals mean: only of the kinds that there are.
fn meaning(summary: &FleetComparison) -> String {
    let mut text = String::from("What the interval means. ");
    if summary.different_by_chance.is_some() {
        text += "Of a group of hosts: how far the ratio would move with other hosts of the same kinds (Mann-Whitney, \
                 95%). Each host counts once, by the median of its runs, so that its own noise is in the interval only \
                 as far as it moves that median. Hosts with runs in another group as well are compared with \
                 themselves, from six on (`same hosts`). ";
    }
    if !summary.within.is_empty() {
        let within = summary.within.join(", ");
        text += &format!(
            "Each host counts relative to the median of the others with its own {within}; the medians in the table \
             are of all. "
        );
    }
    text += &format!(
        "Of a group of one host: what its own runs range over, or the rounds of its only run. It differs where all of \
         that lies outside of what hosts differ by ({DEVIATIONS} robust deviations), which takes more than \
         {FEWEST_HOSTS} hosts. Both are widened by {}%, which two runs of the same thing differ by anyway. Rows are \
         in the order of the least that each may differ by.",
        summary.drift_percent
    );
    text
}

/// The parameters that all figures of a bench have in common, if there are several: they are told once.
struct Common<'a>(BTreeMap<&'a str, BTreeSet<(&'a str, &'a str)>>);

impl<'a> Common<'a> {
    fn of(keys: impl Iterator<Item = &'a Key>) -> Common<'a> {
        let mut sets: BTreeMap<&str, BTreeSet<Vec<(&str, &str)>>> = BTreeMap::new();
        for key in keys {
            let params = key.params.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            sets.entry(&key.bench).or_default().insert(params.collect());
        }
        let common = |(bench, sets): (&'a str, BTreeSet<Vec<(&'a str, &'a str)>>)| {
            let is_common = |param: &(&str, &str)| {
                sets.len() > 1 && sets.iter().all(|params| params.contains(param))
            };
            let common = sets.iter().flatten().copied().filter(is_common).collect();
            (bench, common)
        };
        Common(sets.into_iter().map(common).collect())
    }

    /// What a figure has beside them, in one line.
    fn others(&self, key: &Key) -> String {
        let is_common = |name: &str, value: &str| {
            self.0.get(key.bench.as_str()).is_some_and(|common| common.contains(&(name, value)))
        };
        let params = key.params.iter().filter(|(name, value)| !is_common(name, value));
        params.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    fn notes(&self) -> impl Iterator<Item = Block> {
        self.0.iter().filter(|(_, common)| !common.is_empty()).map(|(bench, common)| {
            let params = common.iter().map(|(name, value)| format!("{name}={value}"));
            let params = params.collect::<Vec<_>>().join(" ");
            Block::Note(format!("All of {bench} have {params}"))
        })
    }
}

fn outliers(shown: &[Outlier], common: &Common<'_>) -> Table {
    Rows::of("outliers-table", "What differs", shown)
        .text("group", |of| &of.group)
        .text("metric", |of| &of.key.metric)
        .figure("group ÷ others", |of| cells::ratio(of.ratio))
        .figure("group's median", |of| Cell::number(of.value, &of.key.unit))
        .figure("the others'", |of| Cell::number(of.others, &of.key.unit))
        .count("hosts", |of| of.hosts as u64)
        .text("bench", |of| &of.key.bench)
        .text("parameters", |of| common.others(&of.key))
        .text("compared with", |of| match of.against {
            Against::OtherHosts => "other hosts",
            Against::ThemselvesElsewhere => "same hosts",
            Against::Spread => "spread of hosts",
        })
        .text("verdict", |of| match of.verdict {
            Verdict::Different => "different",
            Verdict::NoneSeen => "no difference seen",
            Verdict::TooFew => "too few hosts",
        })
        .table()
}

fn plot(at: usize, panel: &Panel, common: &Common<'_>) -> Plot {
    let Key { bench, metric, unit, .. } = &panel.key;
    let (names, estimates): (Vec<String>, Vec<Estimate>) = panel.groups.iter().cloned().unzip();
    let bars = Series::bars("", names, Vec::new()).measured(&estimates);
    let mut caption = format!("{bench}: {}", common.others(&panel.key));
    if panel.left_out > 0 {
        caption += &format!("; {} more groups", panel.left_out);
    }
    Plot::new(format!("panel-{at}"), metric, Axis::default(), Axis::linear("", unit))
        .caption(caption)
        .with(bars)
        .small()
}

#[cfg(test)]
mod tests {
    use cowlab_analysis::fleet::Group;

    use super::*;

    fn summary() -> FleetComparison {
        let key = Key {
            bench: "calibrate".into(),
            params: [("threads".to_owned(), "0".to_owned())].into(),
            metric: "cow_fault_ns".into(),
            unit: "ns".into(),
        };
        let ratio = Estimate { value: 1.2, low: 1.1, high: 1.3, count: 9 };
        let outlier = Outlier {
            group: "<6.12>".into(),
            key: key.clone(),
            value: 1200.0,
            others: 1000.0,
            hosts: 9,
            ratio,
            against: Against::OtherHosts,
            verdict: Verdict::Different,
        };
        let group = Group { name: "<6.12>".into(), hosts: 9, runs: 18, different: 50 };
        FleetComparison {
            by: vec!["kernel".into()],
            within: vec!["instance_type".into()],
            runs: 20,
            hosts: 18,
            without_key: 2,
            drift_percent: 1.0,
            groups: vec![group; 50],
            environments_differ: vec!["cpu_model".into()],
            compared: 60,
            different: 50,
            different_by_chance: Some(3),
            too_few_hosts: 4,
            figures: vec![outlier; 50],
            panels: vec![Panel { key, groups: vec![("<6.12>".into(), ratio)], left_out: 7 }],
        }
    }

    #[test]
    fn a_page_names_what_differs_and_what_was_left_out() {
        let document = document(&summary(), 3, false);
        let text = crate::terminal::render(&document, Some(200), false);
        for expected in [
            "60 comparisons of a group in a figure: 50 differ (3 would differ if hosts were",
            "6 show no difference, 4 have too few",
            "3 runs are damaged and left out",
            "2 runs are left out: kernel, within instance_type is not known",
            "the median of the others with its own instance_type",
            "do not have the same cpu_model either",
            "10 more differ less",
            "10 more groups",
            "how far the ratio would move with other hosts",
            "1.20 (1.10 to 1.30)",
        ] {
            assert!(text.replace('\n', " ").contains(expected), "{expected}:\n{text}");
        }
        assert_eq!(
            document.tables().map(|table| table.rows.len()).collect::<Vec<_>>(),
            [ROWS, ROWS]
        );
        let html = crate::html::render_body(&document);
        assert!(html.contains("class=\"multiples\"") && html.contains("7 more groups"), "{html}");
        assert!(!html.contains("<6.12>"));
    }

    #[test]
    fn what_all_figures_have_in_common_is_told_once() {
        let key = |pages: &str| Key {
            params: [
                ("threads".to_owned(), "0".to_owned()),
                ("pages".to_owned(), pages.to_owned()),
            ]
            .into(),
            ..summary().panels[0].key.clone()
        };
        let keys = [key("1"), key("2")];
        let common = Common::of(keys.iter());
        assert_eq!(keys.each_ref().map(|key| common.others(key)), ["pages=1", "pages=2"]);
        assert_eq!(
            Vec::from_iter(common.notes()),
            [Block::Note("All of calibrate have threads=0".into())]
        );
        assert_eq!(Common::of(keys[..1].iter()).others(&keys[0]), "pages=1 threads=0");
    }

    #[test]
    fn everything_is_shown_where_it_is_wanted() {
        let document = document(&summary(), 0, true);
        assert_eq!(document.tables().map(|table| table.rows.len()).collect::<Vec<_>>(), [50, 50]);
    }
}
