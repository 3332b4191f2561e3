// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the pointer shows at a point, written by the same rules as the tables.

use serde_json::{Value, json};

use super::axis::{Prepared, escape};

/// A series longer than this shows bare values: the text would outweigh the data.
const MAX_TEXTS: usize = 2000;

/// The figures of a point: its axis values, the interval of the last one, and a label.
pub(super) struct Point<'a> {
    pub(super) at: &'a [(&'a Prepared, f64)],
    pub(super) interval: Option<(f64, f64)>,
    pub(super) label: Option<&'a str>,
}

impl Point<'_> {
    /// `<b>name</b><br>Heap: 4.00 MiB<br>Time: 2.13 µs (2.05 to 2.21)<br>label`.
    pub(super) fn text(&self, name: &str) -> String {
        let mut lines = vec![format!("<b>{}</b>", escape(name))];
        for (index, (axis, value)) in self.at.iter().enumerate() {
            let last = index + 1 == self.at.len();
            lines.push(axis.named(&match self.interval {
                Some((low, high)) if last => crate::fmt::estimate(*value, low, high, &axis.unit),
                _ => axis.text(*value),
            }));
        }
        lines.extend(self.label.map(escape));
        lines.join("<br>")
    }
}

/// Gives `trace` its texts, unless there are too many.
pub(super) fn attach(trace: &mut Value, texts: Vec<String>) {
    if texts.len() > MAX_TEXTS {
        return;
    }
    trace["hovertext"] = json!(texts);
    trace["hoverinfo"] = json!("text");
}
