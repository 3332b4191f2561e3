// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rows that every probe prints: one JSON object a line, the last one `end`.

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// One row: raw values of one metric.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Row {
    /// The metric's name; its last word is the unit.
    pub metric: String,
    /// Which child recorded it, from 1; 0 is the program itself.
    pub child: u32,
    /// The values, in the order in which they were measured.
    pub values: Vec<u64>,
    /// A file's text, where the row carries one in the place of values.
    #[serde(default)]
    pub text: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Rows(Vec<Row>);

impl Rows {
    /// Decode what a probe printed. Output without its `end` row was cut.
    pub fn decode(text: &str) -> Result<Rows> {
        let mut rows = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let row: Row = serde_json::from_str(line)
                .with_context(|| format!("row {} is not a probe's: {line:.80}", number + 1))?;
            if row.metric == "end" {
                return Ok(Rows(rows));
            }
            rows.push(row);
        }
        bail!("the rows were cut after {}: the last row, 'end', is missing", rows.len())
    }

    /// Every row in order.
    pub fn iter(&self) -> impl Iterator<Item = &Row> {
        self.0.iter()
    }

    /// All values of `metric`, over all its rows; empty if it was not measured.
    pub fn values(&self, metric: &str) -> Vec<u64> {
        self.0
            .iter()
            .filter(|row| row.metric == metric)
            .flat_map(|row| &row.values)
            .copied()
            .collect()
    }

    /// The texts of `metric` by the child that read them, each child's in their order.
    pub fn texts(&self, metric: &str) -> Vec<(u32, &str)> {
        let of = |row: &'_ Row| row.metric == metric;
        let rows = self.0.iter().filter(|row| of(row));
        rows.filter_map(|row| Some((row.child, row.text.as_deref()?))).collect()
    }

    /// The one value of `metric`.
    pub fn value(&self, metric: &str) -> Result<u64> {
        match self.values(metric)[..] {
            [value] => Ok(value),
            ref values => bail!("expected one value of {metric}, got {}", values.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "{\"metric\":\"loop_ns\",\"child\":0,\"values\":[5]}\n\
                         {\"metric\":\"write_ns\",\"child\":2,\"values\":[1,2]}\n\
                         {\"metric\":\"write_ns\",\"child\":3,\"values\":[3]}\n\
                         {\"metric\":\"end\",\"child\":0,\"values\":[]}\n";

    #[test]
    fn values_are_gathered_by_metric() {
        let rows = Rows::decode(WHOLE).unwrap();
        assert_eq!(rows.value("loop_ns").unwrap(), 5);
        assert_eq!(rows.values("write_ns"), [1, 2, 3]);
        assert!(rows.values("absent").is_empty());
        assert!(rows.value("write_ns").is_err());
    }

    #[test]
    fn texts_keep_their_lines() {
        let printed = "{\"metric\":\"a_text\",\"child\":2,\"values\":[],\"text\":\"b: 1\\nc: 2\\n\"}\n\
                       {\"metric\":\"end\",\"child\":0,\"values\":[]}\n";
        let rows = Rows::decode(printed).unwrap();
        assert_eq!(rows.texts("a_text"), [(2, "b: 1\nc: 2\n")]);
        assert!(rows.values("a_text").is_empty());
    }

    #[test]
    fn output_cut_at_any_byte_is_an_error() {
        let end = WHOLE.rfind("]}").unwrap() + 1;
        for length in 0..end {
            assert!(Rows::decode(&WHOLE[..length]).is_err(), "cut at {length}");
        }
    }
}
