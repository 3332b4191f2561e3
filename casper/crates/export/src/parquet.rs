// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables as Parquet: each column of the type that the field has in the traced program.

use std::fs::File;
use std::sync::Arc;

use anyhow::{Context, Result};
use arrow_array::builder::{
    ArrayBuilder, Float32Builder, Float64Builder, Int8Builder, Int16Builder, Int32Builder,
    Int64Builder, ListBuilder, StringBuilder, UInt8Builder, UInt16Builder, UInt32Builder,
    UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
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
    columns: Vec<Column>,
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
    Ok(Box::new(Parquet { writer, schema, columns: columns.to_vec(), rows: Vec::new() }))
}

/// Append to a builder of numbers; a value of another kind is none.
macro_rules! numbers {
    ($builder:ident, $column:ident, $values:ident, $from:ident) => {{
        fn append(builder: &mut $builder, value: Option<&Value>) {
            builder.append_option(value.and_then($from).map(|value| value as _));
        }
        array($column, $values, $builder::new(), append)
    }};
}

fn signed(value: &Value) -> Option<i64> {
    match value {
        Value::Signed(value) => Some(*value),
        _ => None,
    }
}

fn unsigned(value: &Value) -> Option<u64> {
    match value {
        Value::Unsigned(value) | Value::Address(value) => Some(*value),
        _ => None,
    }
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(value) => Some(*value),
        _ => None,
    }
}

fn append_text(builder: &mut StringBuilder, value: Option<&Value>) {
    match value {
        Some(Value::Text(text)) => builder.append_value(text),
        _ => builder.append_null(),
    }
}

/// An array of single values, or of lists of them.
fn array<B: ArrayBuilder>(
    column: &Column,
    values: &[Option<Value>],
    mut builder: B,
    append: fn(&mut B, Option<&Value>),
) -> ArrayRef {
    if !column.list {
        values.iter().for_each(|value| append(&mut builder, value.as_ref()));
        return builder.finish();
    }
    let mut lists = ListBuilder::new(builder);
    for value in values {
        if let Some(Value::List(elements)) = value {
            elements.iter().for_each(|element| append(lists.values(), Some(element)));
            lists.append(true);
        } else {
            lists.append(false);
        }
    }
    Arc::new(lists.finish())
}

fn array_of(column: &Column, values: &[Option<Value>]) -> ArrayRef {
    match element_type(column) {
        DataType::Utf8 => array(column, values, StringBuilder::new(), append_text),
        DataType::Float32 => numbers!(Float32Builder, column, values, float),
        DataType::Float64 => numbers!(Float64Builder, column, values, float),
        DataType::Int8 => numbers!(Int8Builder, column, values, signed),
        DataType::Int16 => numbers!(Int16Builder, column, values, signed),
        DataType::Int32 => numbers!(Int32Builder, column, values, signed),
        DataType::Int64 => numbers!(Int64Builder, column, values, signed),
        DataType::UInt8 => numbers!(UInt8Builder, column, values, unsigned),
        DataType::UInt16 => numbers!(UInt16Builder, column, values, unsigned),
        DataType::UInt32 => numbers!(UInt32Builder, column, values, unsigned),
        _ => numbers!(UInt64Builder, column, values, unsigned),
    }
}

impl Parquet {
    fn encode(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut by_column: Vec<Vec<Option<Value>>> =
            self.columns.iter().map(|_| Vec::with_capacity(self.rows.len())).collect();
        for row in self.rows.drain(..) {
            for (column, value) in by_column.iter_mut().zip(row) {
                column.push(value);
            }
        }
        let arrays =
            self.columns.iter().zip(&by_column).map(|(column, values)| array_of(column, values));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays.collect())?;
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
