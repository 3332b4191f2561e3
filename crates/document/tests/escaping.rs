// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A hostile string in every place that takes one runs nothing, breaks out of nothing.

use cowlab_document::{
    Axis, Block, Cell, Column, Document, Finding, Plot, Section, Series, Table, csv, html, terminal,
};

const EVIL: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`\u{2028}\u{2029}\x1b[31m&<!--";

fn evil() -> String {
    EVIL.into()
}

fn document() -> Document {
    let axis = || Axis { title: evil(), unit: Some(evil()), log: false };
    let values = || vec![1.0, 2.0];
    let grid = || vec![values(), values()];
    let names = || vec![evil(), evil()];
    let points = [(1.0, 1.0), (2.0, 2.0)];
    let series = [
        Series::points(EVIL, points).labelled(names()),
        Series::line(EVIL, points, true),
        Series::diagonal(EVIL),
        Series::cdf(EVIL, [(1.0, 0.5), (2.0, 1.0)]),
        Series::bars(EVIL, names(), values()),
        Series::map(EVIL, [values(), values()], grid()),
        Series {
            y_labels: names(),
            ..Series::map(EVIL, [values(), values()], grid()).labelled(names())
        },
    ];
    let mut table = Table::new(EVIL, EVIL, vec![Column::unit(EVIL, EVIL), Column::text(EVIL)]);
    table.push(vec![Cell::Missing(evil()), Cell::Text(evil())]);
    table.push(vec![Cell::Number { value: 1.0, text: evil() }, Cell::Missing("other".into())]);
    table.push(vec![
        Cell::Estimate { value: 1.0, low: 1.0, high: 1.0, text: format!("1 ({EVIL}") },
        Cell::text(""),
    ]);
    let finding =
        |samples: &str| Finding { headline: evil(), detail: evil(), samples: Some(samples.into()) };
    let mut blocks = vec![
        Block::Text(evil()),
        Block::Text("[x](javascript:alert(1)) `</code><script>`".into()),
        Block::Note(evil()),
        Block::Finding(finding(EVIL)),
        Block::Finding(finding("javascript:alert(1)//")),
        Block::Table(table),
    ];
    for series in series {
        let plot = Plot::new(EVIL, EVIL, axis(), axis()).caption(EVIL).z(axis()).with(series);
        blocks.push(Block::Plot(plot));
    }
    Document {
        title: evil(),
        subtitle: evil(),
        facts: vec![(evil(), evil())],
        sections: vec![Section::new(EVIL, EVIL, blocks)],
    }
}

#[test]
fn html_holds_no_foreign_markup() {
    let body = html::render_body(&document());
    assert!(!body.contains("<script>") && !body.contains("<img") && !body.contains("<!--"));
    assert!(!body.contains("href=\"javascript:"));
    assert!(!body.contains("<script"));
    assert!(body.contains("data-t=\"&lt;/script&gt;"), "the marks of plots carry names");
    // The page's own; the head has none.
    assert_eq!(html::render(&document()).matches("<script").count(), 1);
}

#[test]
fn terminal_text_holds_no_control_characters() {
    let text = terminal::render(&document(), Some(80), false);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn file_names_stay_in_their_folder() {
    for (name, _) in csv::tables(&document()) {
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)), "{name}");
    }
}
