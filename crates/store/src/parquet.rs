// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples as Parquet: one row a measurement, the parameters as one map of strings.

use std::cell::Cell;
use std::panic;
use std::path::Path;
use std::sync::{Arc, Once};

use anyhow::{Context, Result, anyhow};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize, Serializer};

use crate::file::damaged;
use crate::{Params, Sample, open_regular, pages};

/// What a file, and what is in it, may have.
struct Limits {
    bytes: usize,
    rows: i64,
}

/// Of a batch.
const MOST_ROWS: u64 = 1024;

/// Some ten times the largest runs.
const LIMITS: Limits = Limits { bytes: 1 << 30, rows: 20_000_000 };

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

/// A [`Sample`] with the names of the file's columns.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Sample")]
struct Columns {
    environment: u32,
    bench: String,
    params: Params,
    metric: String,
    unit: String,
    value: f64,
    rep: u32,
    #[serde(rename = "start")]
    start_unix_ns: i64,
    histogram: Option<Vec<u8>>,
}

#[derive(Serialize)]
#[serde(transparent)]
struct Written<'a>(#[serde(serialize_with = "write_columns")] &'a Sample);

fn write_columns<S: Serializer>(sample: &&Sample, serializer: S) -> Result<S::Ok, S::Error> {
    Columns::serialize(sample, serializer)
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Read(#[serde(with = "Columns")] Sample);

/// The bytes of a Parquet file that holds `samples`.
pub(crate) fn encode(samples: &[Sample]) -> Result<Vec<u8>> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, Arc::new(schema()), Some(properties))?;
    let rows: Vec<_> = samples.iter().map(Written).collect();
    writer.write(&serde_arrow::to_record_batch(schema().fields(), &rows)?)?;
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
    let samples = panic::catch_unwind(|| decode(path, &LIMITS));
    QUIET.set(false);
    samples.unwrap_or_else(|_| Err(anyhow!("{} is damaged", path.display())))
}

fn decode(path: &Path, limits: &Limits) -> Result<Vec<Sample>> {
    let file = open_regular(path)?;
    let too_large = || anyhow!("{} is larger than a run's samples may be", path.display());
    if file.metadata()?.len() > limits.bytes as u64 {
        return Err(too_large());
    }
    let broken = || damaged(path);
    let metadata = ArrowReaderMetadata::load(&file, Default::default()).with_context(broken)?;
    if metadata.metadata().file_metadata().num_rows() > limits.rows {
        return Err(too_large());
    }
    let largest = pages::largest(&file, metadata.metadata()).with_context(broken)?;
    // A page may be one long name, which every row has.
    let rows = (limits.bytes as u64 / largest.max(1)).clamp(1, MOST_ROWS) as usize;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
    let builder = builder.with_batch_size(rows);
    let mut samples = Vec::new();
    let mut bytes = 0;
    for batch in builder.build().with_context(broken)? {
        let batch = batch.with_context(|| format!("{} is damaged", path.display()))?;
        // A few bytes of a file can stand for many in memory.
        bytes += batch.get_array_memory_size();
        if bytes > limits.bytes {
            return Err(too_large());
        }
        let rows: Vec<Read> = serde_arrow::from_record_batch(&batch)
            .with_context(|| format!("{} does not hold cowlab's samples", path.display()))?;
        samples.extend(rows.into_iter().map(|Read(sample)| sample));
    }
    Ok(samples)
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
    fn few_bytes_that_stand_for_many_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("samples.parquet");
        let name = "x".repeat(10_000);
        let samples: Vec<_> =
            (0..200).map(|rep| Sample { bench: name.clone(), ..sample(rep) }).collect();
        let bytes = encode(&samples).unwrap();
        let all = bytes.len() * 10;
        std::fs::write(&path, bytes).unwrap();
        let read = |bytes, rows| decode(&path, &Limits { bytes, rows }).map_err(|e| e.to_string());
        assert_eq!(read(1 << 24, 200).unwrap().len(), 200);
        for (bytes, rows) in [(all, 200), (10, 200), (1 << 30, 199)] {
            assert!(read(bytes, rows).unwrap_err().contains("larger than"), "{bytes}, {rows}");
        }
    }

    #[test]
    fn pages_are_looked_at_before_they_are_unpacked() {
        let corpus = Path::new("../../fuzz/corpus/samples");
        let error = read(&corpus.join("found-page-of-2-gib")).unwrap_err();
        assert!(format!("{error:#}").contains("a page "), "{error:#}");
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
