// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples as gzip'd lines of JSON: one object a measurement, with the keys of `--json`.

use std::io::{BufRead, BufReader, BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::file::{damaged, lines};
use crate::{Sample, open_regular};

pub(crate) const SAMPLES_FILE: &str = "samples.ndjson.gz";

/// What a file may hold once it is unpacked: a few bytes of gzip can stand for many.
struct Limits {
    bytes: u64,
    rows: usize,
}

/// More than twice the largest runs.
const LIMITS: Limits = Limits { bytes: 1 << 30, rows: 4_000_000 };

/// Of a line. The largest histogram needs three quarters of it.
const MOST_LINE_BYTES: u64 = 1 << 20;

/// The bytes of a file that holds `samples`. JSON has neither NaN nor infinity: what is no number was not measured.
pub(crate) fn encode(samples: &[Sample]) -> Result<Vec<u8>> {
    // Compressing each piece of JSON by itself takes forty times as long.
    let mut out = BufWriter::new(GzEncoder::new(Vec::new(), Compression::default()));
    for sample in samples.iter().filter(|sample| sample.value.is_finite()) {
        serde_json::to_writer(&mut out, sample)?;
        out.write_all(b"\n")?;
    }
    Ok(out.into_inner()?.finish()?)
}

/// The samples of the run in `folder`.
pub(crate) fn read(folder: &Path) -> Result<Vec<Sample>> {
    let path = folder.join(SAMPLES_FILE);
    let old = folder.join("samples.parquet");
    if old.exists() && !path.exists() {
        bail!("{} was written by cowlab 0.2 or older: read it with cowlab 0.2.0", old.display());
    }
    parse(BufReader::new(GzDecoder::new(open_regular(&path)?)), &path)
}

/// The samples in the unpacked lines of the file at `path`.
pub fn parse(unpacked: impl BufRead, path: &Path) -> Result<Vec<Sample>> {
    within(unpacked, path, &LIMITS)
}

fn within(unpacked: impl BufRead, path: &Path, limits: &Limits) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    let mut bytes = 0;
    for (number, line) in lines(unpacked, MOST_LINE_BYTES).enumerate() {
        let line =
            line.with_context(|| format!("line {}", number + 1)).with_context(|| damaged(path))?;
        bytes += line.len() as u64;
        if bytes > limits.bytes || samples.len() == limits.rows {
            bail!("{} is larger than a run's samples may be", path.display());
        }
        let line = line.trim_end();
        let sample = serde_json::from_str(line);
        samples.push(sample.or_else(|_| named(line)).with_context(|| {
            format!("{}, line {}, is damaged or foreign", path.display(), number + 1)
        })?);
    }
    Ok(samples)
}

/// Reads a line again, slower, for an error that names its key.
fn named(line: &str) -> Result<Sample> {
    Ok(serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(line))?)
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
            value: 0.1 + f64::from(rep) / 3.0,
            rep,
            start_unix_ns: 1_700_000_000_000_000_001,
            histogram: (rep == 1).then(|| vec![0, 1, 255]),
        }
    }

    /// What reading a folder with such a file says.
    fn read_bytes(bytes: &[u8]) -> Result<Vec<Sample>> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(SAMPLES_FILE), bytes).unwrap();
        read(folder.path())
    }

    fn error(result: Result<Vec<Sample>>) -> String {
        format!("{:#}", result.unwrap_err())
    }

    #[test]
    fn what_is_written_is_read_to_the_last_bit() {
        let samples: Vec<_> = (0..3).map(sample).collect();
        assert_eq!(read_bytes(&encode(&samples).unwrap()).unwrap(), samples);
        let not_measured = Sample { value: f64::NAN, ..sample(0) };
        assert_eq!(read_bytes(&encode(&[not_measured]).unwrap()).unwrap(), []);
    }

    #[test]
    fn a_file_cut_or_changed_anywhere_is_an_error_that_names_it() {
        let whole = encode(&[sample(0), sample(1)]).unwrap();
        for length in 0..whole.len() {
            let said = error(read_bytes(&whole[..length]));
            assert!(said.contains(SAMPLES_FILE) && said.contains("cut, damaged"), "{said}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x55;
            match read_bytes(&changed) {
                Err(error) => assert!(format!("{error:#}").contains(SAMPLES_FILE), "{error:#}"),
                // Time, flags and system in gzip's head are nobody's figures.
                Ok(samples) => assert!(samples.len() == 2 && at < 10, "byte {at}"),
            }
        }
    }

    #[test]
    fn a_foreign_line_is_named_with_its_number_and_key() {
        let good = serde_json::to_string(&sample(1)).unwrap();
        for (bad, said) in [
            (good.replace("\"metric\"", "\"metrics\""), "missing field `metric`"),
            (good.replace("\"rep\":1", "\"rep\":-1"), "rep: invalid value"),
            (good.replace("\"1000\"", "1000"), "params.heap_bytes: invalid type"),
            (good.replace("AAH/", "?"), "histogram: Invalid symbol"),
            (good[..20].to_owned(), "EOF"),
            ("[]".to_owned(), "invalid"),
        ] {
            let text = format!("{good}\n{bad}\n{good}\n");
            let error = error(parse(text.as_bytes(), Path::new("a/b.gz")));
            assert!(
                error.starts_with("a/b.gz, line 2, is damaged") && error.contains(said),
                "{error}"
            );
        }
    }

    #[test]
    fn few_bytes_that_stand_for_many_are_refused() {
        let text = serde_json::to_string(&sample(0)).unwrap() + "\n";
        let all = text.repeat(200);
        let read = |bytes, rows| within(all.as_bytes(), Path::new("x"), &Limits { bytes, rows });
        assert_eq!(read(all.len() as u64, 200).unwrap().len(), 200);
        for (bytes, rows) in [(all.len() as u64 - 1, 200), (1 << 30, 199)] {
            assert!(error(read(bytes, rows)).contains("larger than"), "{bytes}, {rows}");
        }
        let long = vec![b' '; MOST_LINE_BYTES as usize + 1];
        assert!(error(parse(&long[..], Path::new("x"))).contains("1 MiB"));
    }

    #[test]
    fn an_older_run_names_the_version_that_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("samples.parquet"), "PAR1").unwrap();
        assert!(error(read(folder.path())).contains("read it with cowlab 0.2.0"));
    }
}
