// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables as CSV, quoted as RFC 4180 says. What is absent is an empty field.

use std::fs::File;
use std::io::{BufWriter, Write};

use anyhow::{Context, Result};
use csv::{QuoteStyle, WriterBuilder};

use crate::Value;
use crate::table::{Column, Opener, TableWriter};

/// CSV.
pub const CSV: Opener = Opener { ending: ".csv", open };

struct Csv {
    writer: csv::Writer<BufWriter<File>>,
}

fn open(file: File, columns: &[Column]) -> Result<Box<dyn TableWriter>> {
    let mut writer =
        WriterBuilder::new().quote_style(QuoteStyle::Necessary).from_writer(BufWriter::new(file));
    writer.write_record(columns.iter().map(|column| &column.name)).context(FAILED)?;
    Ok(Box::new(Csv { writer }))
}

const FAILED: &str = "cannot write the export: nothing was kept";

/// A value as text; lists as in JSON.
fn text(value: &Value) -> String {
    match value {
        Value::Unsigned(value) => value.to_string(),
        Value::Signed(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Address(value) => format!("{value:#x}"),
        Value::Text(value) => value.clone(),
        Value::List(values) => {
            let values: Vec<String> = values.iter().map(text).collect();
            format!("[{}]", values.join(","))
        }
    }
}

impl TableWriter for Csv {
    fn row(&mut self, row: Vec<Option<Value>>) -> Result<()> {
        let fields = row.iter().map(|value| value.as_ref().map_or_else(String::new, text));
        self.writer.write_record(fields).context(FAILED)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let buffer =
            self.writer.into_inner().map_err(|error| error.into_error()).context(FAILED)?;
        let mut file = buffer.into_inner().map_err(|error| error.into_error()).context(FAILED)?;
        file.flush().context(FAILED)
    }
}
