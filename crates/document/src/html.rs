// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A document as one HTML page that needs nothing else: no network, no second file.

use base64::Engine;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::document::{Block, Cell, Column, Document, Drawing, Finding, Plot, Section, Table};
use crate::inline;
use crate::{csv, plot};

const CSS: &str = include_str!("../assets/report.css");
const JS: &str = include_str!("../assets/report.js");

/// Allows what stands in the page itself and nothing from anywhere else.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data:; base-uri 'none'; form-action 'none'";

pub fn render(document: &Document) -> String {
    let has_plots = document.plots().next().is_some();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content="cowlab";
                title { (document.title) }
                style { (PreEscaped(CSS)) }
            }
            body {
                (body(document))
                @if has_plots { script { (PreEscaped(JS)) } }
            }
        }
    };
    page.into_string()
}

/// The body without the script: what the golden files hold.
pub fn render_body(document: &Document) -> String {
    body(document).into_string()
}

fn body(document: &Document) -> Markup {
    html! {
        @if document.plots().next().is_some() { (plot::symbols()) }
        div.page {
            a.skip href="#content" { "Skip to the content" }
            header {
                h1 { (document.title) }
                @if !document.subtitle.is_empty() { p.subtitle { (document.subtitle) } }
                @if !document.facts.is_empty() {
                    dl.facts {
                        @for (name, value) in &document.facts { div { dt { (name) } dd { (value) } } }
                    }
                }
            }
            div.columns {
                nav aria-label="Contents" {
                    p { "Contents" }
                    ol {
                        @for section in &document.sections { li { a href={ "#" (section.id) } { (section.title) } } }
                    }
                }
                main id="content" tabindex="-1" {
                    @for section in &document.sections { (section_markup(section)) }
                }
            }
        }
    }
}

fn section_markup(section: &Section) -> Markup {
    // Findings that follow each other share one grid of cards.
    let is_finding = |block: &Block| matches!(block, Block::Finding(_));
    let runs = section.blocks.chunk_by(|a, b| is_finding(a) && is_finding(b));
    html! {
        section id=(section.id) aria-labelledby={ (section.id) "--title" } {
            h2 id={ (section.id) "--title" } { a.anchor href={ "#" (section.id) } { (section.title) } }
            @for run in runs {
                @if is_finding(&run[0]) {
                    div.findings { @for block in run { (block_markup(block)) } }
                } @else {
                    (block_markup(&run[0]))
                }
            }
        }
    }
}

fn block_markup(block: &Block) -> Markup {
    match block {
        Block::Text(text) => html! { p { (inline::markup(text)) } },
        Block::Note(text) => html! { p.note role="note" { (inline::markup(text)) } },
        Block::Finding(finding) => finding_markup(finding),
        Block::Table(table) => table_markup(table),
        Block::Plot(plot) => plot_markup(plot),
        Block::Drawing(drawing) => drawing_markup(drawing),
    }
}

/// In a page of its own, whose script finds its own drawing and no other.
fn drawing_markup(drawing: &Drawing) -> Markup {
    let page = format!(
        "<!DOCTYPE html><style>body{{margin:0}}svg{{display:block;width:100%}}</style>{}",
        drawing.svg
    );
    html! {
        figure.drawing id=(drawing.id) {
            figcaption { strong { a.anchor href={ "#" (drawing.id) } { (drawing.caption) } } }
            iframe title=(drawing.caption) sandbox="allow-scripts" srcdoc=(page) {}
        }
    }
}

fn finding_markup(finding: &Finding) -> Markup {
    // A bare word is the id of a table or plot.
    let target = finding.samples.as_deref().map(|samples| {
        if samples.contains(['#', '/', '.', ':']) {
            samples.to_owned()
        } else {
            format!("#{samples}")
        }
    });
    html! {
        article.finding {
            h3 { (finding.headline) }
            @if !finding.detail.is_empty() { p { (inline::markup(&finding.detail)) } }
            @if let Some(target) = target.filter(|target| inline::is_safe(target)) {
                p.samples { a href=(target) aria-label={ "Samples behind: " (finding.headline) } { "See the samples" } }
            }
        }
    }
}

fn table_markup(table: &Table) -> Markup {
    let reasons = table.missing_reasons();
    let data = base64::engine::general_purpose::STANDARD.encode(csv::table_csv(table));
    let file = csv::file_stem(&table.id) + ".csv";
    html! {
        figure.table id=(table.id) {
            figcaption {
                strong id={ (table.id) "--caption" } { a.anchor href={ "#" (table.id) } { (table.caption) } }
                a.csv href={ "data:text/csv;charset=utf-8;base64," (data) } download=(file)
                    aria-label={ "Download as CSV: " (table.caption) } { "Download CSV" }
            }
            // Focusable, so that it can be scrolled by keyboard.
            div.scroll tabindex="0" role="region" aria-labelledby={ (table.id) "--caption" } {
                table aria-labelledby={ (table.id) "--caption" } {
                    thead {
                        tr {
                            @for column in &table.columns {
                                th.numeric[column.numeric] scope="col" { (column.heading()) }
                            }
                        }
                    }
                    tbody {
                        @for row in &table.rows {
                            tr {
                                @for (index, cell) in row.iter().enumerate() {
                                    (cell_markup(cell, table.columns.get(index), index, &reasons))
                                }
                            }
                        }
                    }
                }
            }
            @if !reasons.is_empty() {
                ul.reasons {
                    @for (index, reason) in reasons.iter().enumerate() {
                        li { "–" (mark(index, reasons.len())) " not available: " (inline::markup(reason)) }
                    }
                }
            }
        }
    }
}

fn cell_markup(cell: &Cell, column: Option<&Column>, index: usize, reasons: &[&str]) -> Markup {
    let numeric = column.is_some_and(|column| column.numeric);
    let inner = match cell {
        Cell::Text(text) => inline::markup(text),
        Cell::Number { text, .. } => html! { (text) },
        Cell::Estimate { text, .. } => match text.split_once(" (") {
            Some((value, interval)) => html! { (value) " " span.interval { "(" (interval) } },
            None => html! { (text) },
        },
        Cell::Missing(reason) => {
            let at = reasons.iter().position(|known| known == reason).unwrap_or(0);
            html! { span.missing title={ "not available: " (reason) } { "–" (mark(at, reasons.len())) } }
        }
    };
    html! {
        @if index == 0 && !numeric { th scope="row" { (inner) } } @else { td.numeric[numeric] { (inner) } }
    }
}

/// The number that ties a gap to its reason, where a table has several.
fn mark(index: usize, of: usize) -> Markup {
    html! { @if of > 1 { sup { (index + 1) } } }
}

fn plot_markup(plot: &Plot) -> Markup {
    let names: Vec<&str> = plot.series.iter().map(|series| series.name.as_str()).collect();
    let label =
        format!("{}. {} Series: {}.", plot.title, inline::plain(&plot.caption), names.join(", "));
    html! {
        figure.plot id=(plot.id) aria-labelledby={ (plot.id) "--title" } {
            h3 id={ (plot.id) "--title" } { a.anchor href={ "#" (plot.id) } { (plot.title) } }
            @if !plot.caption.is_empty() { p.caption { (inline::markup(&plot.caption)) } }
            div.plot-frame { (plot::chart(plot, &label)) }
        }
    }
}
