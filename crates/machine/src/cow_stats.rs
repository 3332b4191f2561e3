// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A patched kernel's counts and times of copy-on-write faults: `/proc/cow_stats` of the system, and
//! `/proc/PID/cow_stats` of one address space. An absent line is `None`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cowlab_schema::{Policy, Quantile};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::policy::settings_now;
use crate::root::{ReadError, Root};

pub const SYSTEM: &str = "/proc/cow_stats";
pub const PROCESS: &str = "/proc/PID/cow_stats";

/// In ns; quantiles are from the kernel's histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Times {
    pub total_ns: Option<u64>,
    pub avg_ns: Option<u64>,
    pub p50_ns: Option<u64>,
    pub p90_ns: Option<u64>,
    pub p95_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub max_ns: Option<u64>,
}

impl Times {
    pub fn quantiles(&self) -> impl Iterator<Item = (Quantile, u64)> {
        [
            (Quantile::Mean, self.avg_ns),
            (Quantile::P50, self.p50_ns),
            (Quantile::P90, self.p90_ns),
            (Quantile::P95, self.p95_ns),
            (Quantile::P99, self.p99_ns),
            (Quantile::Max, self.max_ns),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }
}

/// Counted since it was reset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CowStats {
    pub faults: Option<u64>,
    pub timed_faults: Option<u64>,
    /// Copying the faulting page alone.
    #[serde(skip)]
    pub copy: Times,
    /// From entering the fault handler to setting the new entry.
    #[serde(skip)]
    pub fault: Times,
    pub precopy_attempts: Option<u64>,
    pub precopy_success: Option<u64>,
    /// Copied ahead, and written before they were unmapped or forked again.
    pub precopy_written: Option<u64>,
    pub precopy_wasted: Option<u64>,
    /// Copied ahead, then swapped out or moved.
    pub precopy_unknown: Option<u64>,
    pub flushes: Option<u64>,
    pub ptl_holds: Option<u64>,
    pub allocations: Option<u64>,
    /// Neighbours that were not copied, by reason.
    #[serde(skip)]
    pub precopy_refused: BTreeMap<String, u64>,
}

/// Counted since the address space's exec or fork.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ProcessCowStats {
    pub faults: Option<u64>,
    pub precopied: Option<u64>,
    /// Of those that were unmapped or forked again.
    pub precopy_written: Option<u64>,
    pub precopy_wasted: Option<u64>,
    pub precopy_unknown: Option<u64>,
}

impl CowStats {
    /// `None` on a kernel without the file, or while nothing is counted.
    pub fn read(root: &Root) -> Result<Option<CowStats>, ReadError> {
        if !settings_now(root).counted(Policy::Stock) {
            return Ok(None);
        }
        let text = root.read(SYSTEM)?;
        text.map(|text| CowStats::decode(&text, &root.path(SYSTEM))).transpose()
    }

    /// Decodes the file's text. `path` is for messages.
    pub fn decode(text: &str, path: &Path) -> Result<CowStats, ReadError> {
        let figures = figures(text, path)?;
        let document: Times = fields(&figures, "");
        let mut stats = CowStats {
            copy: Times {
                total_ns: document.total_ns,
                max_ns: document.max_ns,
                ..fields(&figures, "copy_")
            },
            fault: fields(&figures, "fault_"),
            precopy_refused: fields(&figures, "precopy_refused_"),
            ..fields(&figures, "")
        };
        if stats.timed_faults.or(stats.copy.total_ns) == Some(0) {
            // The first line always has times: 0 if nothing was timed.
            (stats.copy, stats.fault) = Default::default();
        }
        Ok(stats)
    }
}

impl ProcessCowStats {
    /// Reads the file of `pid` (a number, or `self`); `None` on a kernel without it, without such a
    /// process, or while nothing is counted.
    pub fn read(root: &Root, pid: &str) -> Result<Option<ProcessCowStats>, ReadError> {
        if !settings_now(root).counted(Policy::Stock) {
            return Ok(None);
        }
        let file = format!("proc/{pid}/cow_stats");
        let text = root.read(&file)?;
        text.map(|text| ProcessCowStats::decode(&text, &root.path(&file))).transpose()
    }

    /// Decodes the file's text. `path` is for messages.
    pub fn decode(text: &str, path: &Path) -> Result<ProcessCowStats, ReadError> {
        Ok(fields(&figures(text, path)?, ""))
    }
}

/// The fields of `T` from the figures whose key begins with `prefix`; a later kernel's other keys are
/// ignored.
fn fields<T: DeserializeOwned>(figures: &[(&str, u64)], prefix: &str) -> T {
    let named = |(key, value): &(&str, u64)| {
        Some((key.strip_prefix(prefix)?.to_owned(), serde_json::Value::from(*value)))
    };
    let map = figures.iter().filter_map(named).collect();
    serde_json::from_value(serde_json::Value::Object(map)).expect("each field is a number")
}

/// Every `key: value` of the text; a line may have several.
fn figures<'a>(text: &'a str, path: &Path) -> Result<Vec<(&'a str, u64)>, ReadError> {
    if !text.ends_with('\n') {
        return Err(ReadError::Cut { path: path.to_owned() });
    }
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let malformed = || ReadError::Malformed {
            path: PathBuf::from(path),
            reason: format!("line {}: expected `key: number`, found {line:?}", number + 1),
        };
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            let key = word.strip_suffix(':').ok_or_else(malformed)?;
            let value = words.next().and_then(|value| value.parse().ok()).ok_or_else(malformed)?;
            found.push((key, value));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Copy-on-Write Optimization Study's example (section III.A.3), whose kernel timed every
    /// fault.
    const DOCUMENT: &str = "faults: 49242 total_ns: 16543417 max_ns: 12924\n\
                            precopy_attempts: 26580 precopy_success: 24580\n";

    const WHOLE: &str = "faults: 4101 total_ns: 6561600 max_ns: 54012\n\
        precopy_attempts: 2050 precopy_success: 2047\n\
        timed_faults: 4101\ncopy_avg_ns: 1600\ncopy_p50_ns: 1504\ncopy_p90_ns: 1824\n\
        copy_p95_ns: 1984\ncopy_p99_ns: 3264\nfault_total_ns: 14763600\nfault_max_ns: 90112\n\
        fault_avg_ns: 3600\nfault_p50_ns: 3392\nfault_p90_ns: 4096\nfault_p95_ns: 4608\n\
        fault_p99_ns: 9216\nprecopy_written: 2040\nprecopy_wasted: 7\nprecopy_unknown: 0\n\
        flushes: 4101\nptl_holds: 8202\nallocations: 4101\nprecopy_refused_absent: 3\n\
        something_newer: 5\n";

    fn decode(text: &str) -> Result<CowStats, String> {
        CowStats::decode(text, Path::new(SYSTEM)).map_err(|error| error.to_string())
    }

    #[test]
    fn every_line_is_decoded() {
        let stats = decode(WHOLE).unwrap();
        assert_eq!((stats.faults, stats.timed_faults), (Some(4101), Some(4101)));
        assert_eq!(stats.copy.total_ns, Some(6561600));
        let copy: Vec<_> = stats.copy.quantiles().collect();
        let expected = [
            (Quantile::Mean, 1600),
            (Quantile::P50, 1504),
            (Quantile::P90, 1824),
            (Quantile::P95, 1984),
            (Quantile::P99, 3264),
            (Quantile::Max, 54012),
        ];
        assert_eq!(copy, expected);
        assert_eq!(stats.fault.quantiles().last(), Some((Quantile::Max, 90112)));
        assert_eq!(
            (stats.precopy_attempts, stats.precopy_success, stats.precopy_written),
            (Some(2050), Some(2047), Some(2040))
        );
        assert_eq!(
            (stats.flushes, stats.ptl_holds, stats.allocations),
            (Some(4101), Some(8202), Some(4101))
        );
        assert_eq!(stats.precopy_refused, [("absent".to_owned(), 3)].into());
    }

    #[test]
    fn absent_lines_are_absent_and_untimed_faults_have_no_times() {
        let stats = decode("faults: 7 total_ns: 0 max_ns: 0\n").unwrap();
        assert_eq!((stats.faults, stats.flushes, stats.copy), (Some(7), None, Times::default()));
        let old = decode(DOCUMENT).unwrap();
        assert_eq!((old.faults, old.precopy_success), (Some(49242), Some(24580)));
        assert_eq!((old.copy.max_ns, old.timed_faults), (Some(12924), None));
    }

    #[test]
    fn what_is_not_understood_names_its_line() {
        for (text, expected) in [
            ("faults: 1", "cut short"),
            ("", "cut short"),
            ("faults: 1\nflushes 2\n", "/proc/cow_stats: line 2: expected `key: number`"),
            ("faults: -1\n", "line 1"),
            ("faults:\n", "line 1"),
        ] {
            assert!(decode(text).unwrap_err().contains(expected), "{text:?}");
        }
    }

    #[test]
    fn a_process_has_its_own() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root::new(tree.path());
        assert_eq!(ProcessCowStats::read(&root, "42").unwrap(), None);
        assert_eq!(CowStats::read(&root).unwrap(), None);
        for folder in ["42", "self", "sys/vm"] {
            std::fs::create_dir_all(tree.path().join("proc").join(folder)).unwrap();
        }
        let write = |name: &str, text: &str| {
            std::fs::write(tree.path().join("proc").join(name), text).unwrap();
        };
        let file = tree.path().join("proc/42/cow_stats");
        for name in ["cow_stats", "self/cow_stats", "42/cow_stats"] {
            write(name, "faults: 12\nprecopied: 4\nprecopy_written: 3\n");
        }
        write("sys/vm/cow_precopy", "0\n");
        write("sys/vm/cow_stats", "0\n");
        // Nothing is counted now: the files hold old counts.
        assert_eq!(ProcessCowStats::read(&root, "42").unwrap(), None);
        assert_eq!(CowStats::read(&root).unwrap(), None);
        write("sys/vm/cow_precopy", "2\n");
        assert!(CowStats::read(&root).unwrap().is_some());
        let stats = ProcessCowStats::read(&root, "42").unwrap().unwrap();
        assert_eq!(
            (stats.faults, stats.precopied, stats.precopy_wasted),
            (Some(12), Some(4), None)
        );
        std::fs::write(&file, "faults: 12\nprecopied: many\n").unwrap();
        let error = ProcessCowStats::read(&root, "42").unwrap_err().to_string();
        assert!(error.contains("42/cow_stats: line 2"), "{error}");
    }
}
