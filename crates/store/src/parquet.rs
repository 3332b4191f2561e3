// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples as Parquet: one row a measurement, the parameters as one map of strings.

use std::cell::Cell;
use std::fs::File;
use std::panic;
use std::path::Path;
use std::sync::{Arc, Once};

use anyhow::{Context, Result, anyhow};
use arrow_array::builder::{
    BinaryBuilder, Float64Builder, MapBuilder, MapFieldNames, StringBuilder,
    TimestampNanosecondBuilder, UInt32Builder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampNanosecondType, UInt32Type};
use arrow_array::{Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::{Params, Sample};

fn schema() -> Schema {
    let entries = Field::new_struct(
        "entries",
        vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)],
        false,
    );
    Schema::new(vec![
        Field::new("environment", DataType::UInt32, false),
        Field::new("bench", DataType::Utf8, false),
        Field::new("params", DataType::Map(Arc::new(entries), false), false),
        Field::new("metric", DataType::Utf8, false),
        Field::new("unit", DataType::Utf8, false),
        Field::new("value", DataType::Float64, false),
        Field::new("rep", DataType::UInt32, false),
        Field::new("start", DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), false),
        Field::new("histogram", DataType::Binary, true),
    ])
}

fn batch_of(samples: &[Sample]) -> Result<RecordBatch> {
    let names = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
    let mut environment = UInt32Builder::new();
    let mut bench = StringBuilder::new();
    let mut params = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
    let mut metric = StringBuilder::new();
    let mut unit = StringBuilder::new();
    let mut value = Float64Builder::new();
    let mut rep = UInt32Builder::new();
    let mut start = TimestampNanosecondBuilder::new().with_timezone("UTC");
    let mut histogram = BinaryBuilder::new();
    for sample in samples {
        environment.append_value(sample.environment);
        bench.append_value(&sample.bench);
        for (key, text) in &sample.params {
            params.keys().append_value(key);
            params.values().append_value(text);
        }
        params.append(true)?;
        metric.append_value(&sample.metric);
        unit.append_value(&sample.unit);
        value.append_value(sample.value);
        rep.append_value(sample.rep);
        start.append_value(sample.start_unix_ns);
        histogram.append_option(sample.histogram.as_deref());
    }
    Ok(RecordBatch::try_new(
        Arc::new(schema()),
        vec![
            Arc::new(environment.finish()),
            Arc::new(bench.finish()),
            Arc::new(params.finish()),
            Arc::new(metric.finish()),
            Arc::new(unit.finish()),
            Arc::new(value.finish()),
            Arc::new(rep.finish()),
            Arc::new(start.finish()),
            Arc::new(histogram.finish()),
        ],
    )?)
}

/// The bytes of a Parquet file that holds `samples`.
pub(crate) fn encode(samples: &[Sample]) -> Result<Vec<u8>> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, Arc::new(schema()), Some(properties))?;
    writer.write(&batch_of(samples)?)?;
    writer.close()?;
    Ok(bytes)
}

thread_local! {
    /// Whether a panic of this thread is an error that somebody else tells.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// The samples in the Parquet file at `path`.
///
/// The library panics at some damaged files (a column at a negative offset, values of no length): that
/// is their damage as well, and not worth a backtrace.
pub(crate) fn read(path: &Path) -> Result<Vec<Sample>> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            if !QUIET.get() {
                others(what);
            }
        }));
    });
    QUIET.set(true);
    let samples = panic::catch_unwind(|| decode(path));
    QUIET.set(false);
    samples.unwrap_or_else(|_| Err(anyhow!("{} is damaged", path.display())))
}

fn decode(path: &Path) -> Result<Vec<Sample>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .and_then(|builder| builder.build())
        .with_context(|| format!("{} is cut, damaged or not Parquet", path.display()))?;
    let mut samples = Vec::new();
    for batch in reader {
        let batch = batch.with_context(|| format!("{} is damaged", path.display()))?;
        append_batch(&batch, &mut samples)
            .with_context(|| format!("{} does not hold cowlab's samples", path.display()))?;
    }
    Ok(samples)
}

fn append_batch(batch: &RecordBatch, samples: &mut Vec<Sample>) -> Result<()> {
    let column = |name: &str| {
        batch.column_by_name(name).ok_or_else(|| anyhow!("column '{name}' is missing"))
    };
    let wrong = |name: &str| anyhow!("column '{name}' has another type");
    let text = |name: &str| -> Result<StringArray> {
        Ok(column(name)?.as_string_opt::<i32>().ok_or_else(|| wrong(name))?.clone())
    };
    let number = |name: &str| -> Result<_> {
        Ok(column(name)?.as_primitive_opt::<UInt32Type>().ok_or_else(|| wrong(name))?.clone())
    };
    let (environment, rep) = (number("environment")?, number("rep")?);
    let (bench, metric, unit) = (text("bench")?, text("metric")?, text("unit")?);
    let params = column("params")?.as_map_opt().ok_or_else(|| wrong("params"))?;
    let value = column("value")?;
    let value = value.as_primitive_opt::<Float64Type>().ok_or_else(|| wrong("value"))?;
    let start = column("start")?;
    let start =
        start.as_primitive_opt::<TimestampNanosecondType>().ok_or_else(|| wrong("start"))?;
    let histogram = column("histogram")?;
    let histogram = histogram.as_binary_opt::<i32>().ok_or_else(|| wrong("histogram"))?;
    for row in 0..batch.num_rows() {
        samples.push(Sample {
            environment: environment.value(row),
            bench: bench.value(row).to_owned(),
            params: params_of(&params.value(row)).ok_or_else(|| wrong("params"))?,
            metric: metric.value(row).to_owned(),
            unit: unit.value(row).to_owned(),
            value: value.value(row),
            rep: rep.value(row),
            start_unix_ns: start.value(row),
            histogram: histogram.is_valid(row).then(|| histogram.value(row).to_vec()),
        });
    }
    Ok(())
}

fn params_of(entries: &arrow_array::StructArray) -> Option<Params> {
    let keys = entries.column(0).as_string_opt::<i32>()?;
    let values = entries.column(1).as_string_opt::<i32>()?;
    Some(
        keys.iter()
            .flatten()
            .zip(values.iter().flatten())
            .map(|(k, v)| (k.into(), v.into()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rep: u32) -> Sample {
        Sample {
            environment: 0,
            bench: "fork-sweep".into(),
            params: [("heap_bytes".into(), "1000".into()), ("writer".into(), "child".into())]
                .into(),
            metric: "real_ns".into(),
            unit: "ns".into(),
            value: 1.5 + f64::from(rep),
            rep,
            start_unix_ns: 1_700_000_000_000_000_000,
            histogram: (rep == 1).then(|| vec![1, 2, 3]),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("samples.parquet");
        let samples: Vec<_> = (0..3).map(sample).collect();
        std::fs::write(&path, encode(&samples).unwrap()).unwrap();
        assert_eq!(read(&path).unwrap(), samples);
    }

    #[test]
    fn a_file_cut_anywhere_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("samples.parquet");
        let whole = encode(&[sample(0)]).unwrap();
        for length in (0..whole.len()).step_by(97) {
            std::fs::write(&path, &whole[..length]).unwrap();
            let error = read(&path).unwrap_err();
            assert!(format!("{error:#}").contains("samples.parquet"), "{error:#}");
        }
    }
    #[test]
    fn a_changed_byte_is_an_error_or_not_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("samples.parquet");
        let whole = encode(&[sample(0), sample(1)]).unwrap();
        for at in 0..whole.len() {
            for byte in [0, 0x7f, 0xff, whole[at] ^ 1] {
                let mut changed = whole.clone();
                changed[at] = byte;
                std::fs::write(&path, &changed).unwrap();
                if let Err(error) = read(&path) {
                    assert!(format!("{error:#}").contains("samples.parquet"), "{error:#}");
                }
            }
        }
    }
}
