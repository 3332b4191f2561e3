// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables as Parquet: each column of the type that the field has in the traced program.

use std::fs::File;
use std::sync::Arc;

use anyhow::{Context, Result};
use arrow_schema::{DataType, Field as ArrowField, Schema};
use cowlab_casper::meta::FieldKind as Kind;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::Value;
use crate::table::{Column, Opener, TableWriter};

/// Parquet.
pub const PARQUET: Opener = Opener { ending: ".parquet", open };

/// Rows that are kept before they are encoded, and rows of a row group, which is kept encoded.
const BATCH_ROWS: usize = 8192;
const GROUP_ROWS: usize = 1 << 17;

const FAILED: &str = "cannot write the export: nothing was kept";

struct Parquet {
    writer: ArrowWriter<File>,
    schema: Arc<Schema>,
    rows: Vec<Vec<Option<Value>>>,
}

fn element_type(column: &Column) -> DataType {
    match (column.kind, column.size) {
        (Kind::Text, _) => DataType::Utf8,
        (Kind::Float, 4) => DataType::Float32,
        (Kind::Float, _) => DataType::Float64,
        (Kind::Signed, 1) => DataType::Int8,
        (Kind::Signed, 2) => DataType::Int16,
        (Kind::Signed, 4) => DataType::Int32,
        (Kind::Signed, _) => DataType::Int64,
        (_, 1) => DataType::UInt8,
        (_, 2) => DataType::UInt16,
        (_, 4) => DataType::UInt32,
        (_, _) => DataType::UInt64,
    }
}

fn open(file: File, columns: &[Column]) -> Result<Box<dyn TableWriter>> {
    let field = |column: &Column| {
        let element = element_type(column);
        let data_type = if column.list { DataType::new_list(element, true) } else { element };
        ArrowField::new(&column.name, data_type, true)
    };
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let writer =
        ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties)).context(FAILED)?;
    Ok(Box::new(Parquet { writer, schema, rows: Vec::new() }))
}

impl Parquet {
    fn encode(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let batch = serde_arrow::to_record_batch(self.schema.fields(), &self.rows)?;
        self.rows.clear();
        self.writer.write(&batch).context(FAILED)?;
        if self.writer.in_progress_rows() >= GROUP_ROWS {
            self.writer.flush().context(FAILED)?;
        }
        Ok(())
    }
}

impl TableWriter for Parquet {
    fn row(&mut self, row: Vec<Option<Value>>) -> Result<()> {
        self.rows.push(row);
        if self.rows.len() >= BATCH_ROWS { self.encode() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.encode()?;
        self.writer.close().context(FAILED)?;
        Ok(())
    }
}
