// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a patched kernel counted around a probe's writes, decoded from the texts in its rows.

use std::path::Path;

use anyhow::{Context, Result, bail};
use cowlab_machine::cow_stats::{CowStats, PROCESS, ProcessCowStats, SYSTEM};

use crate::probes::rows::Rows;

/// One file at the four moments of probes/cow_faults.c.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moments<T> {
    /// Before a loop that faults nowhere.
    pub empty: T,
    /// After it, before the writes.
    pub before: T,
    pub after: T,
    /// After the pages were given back: it is settled which of those copied ahead were written.
    pub settled: T,
}

impl<T> Moments<T> {
    /// What the writes added to a count, less what the empty loop did; `None` where the kernel
    /// does not tell.
    pub fn of_the_writes(&self, count: impl Fn(&T) -> Option<u64>) -> Option<f64> {
        let at = |moment: &T| count(moment).map(|value| value as f64);
        let (empty, before, after) = (at(&self.empty)?, at(&self.before)?, at(&self.after)?);
        Some((after - before) - (before - empty))
    }

    /// What was added to a count from before the writes until all was settled.
    pub fn when_settled(&self, count: impl Fn(&T) -> Option<u64>) -> Option<f64> {
        Some(count(&self.settled)? as f64 - count(&self.before)? as f64)
    }
}

/// What was counted around one writer's writes in one repetition.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CowCounts {
    pub process: Moments<ProcessCowStats>,
    /// Of the whole system: other processes' as well.
    pub system: Moments<CowStats>,
}

/// All counts in the rows: a repetition's writers, then the next one's.
pub(crate) fn counts_of(rows: &Rows) -> Result<Vec<CowCounts>> {
    let process = moments(&rows.texts("process_cow_stats_text"), |text| {
        Ok(ProcessCowStats::decode(text, Path::new(PROCESS))?)
    })?;
    let system = moments(&rows.texts("system_cow_stats_text"), |text| {
        Ok(CowStats::decode(text, Path::new(SYSTEM))?)
    })?;
    if process.len() != system.len() {
        bail!("the texts of {PROCESS} and {SYSTEM} are not as many");
    }
    let pairs = process.into_iter().zip(system);
    Ok(pairs.map(|(process, system)| CowCounts { process, system }).collect())
}

/// What the kernel timed in each repetition that it timed, one a writer.
pub(crate) fn times_of(rows: &Rows) -> Result<Vec<CowStats>> {
    let texts = rows.texts("timed_cow_stats_text");
    texts.iter().map(|(_, text)| Ok(CowStats::decode(text, Path::new(SYSTEM))?)).collect()
}

fn moments<T>(
    texts: &[(u32, &str)],
    decode: impl Fn(&str) -> Result<T>,
) -> Result<Vec<Moments<T>>> {
    let mut found = Vec::new();
    for four in texts.chunks(4) {
        let [empty, before, after, settled] = four else {
            bail!("{} texts of counts, not four for each writer", texts.len())
        };
        let decode = |text: &(u32, &str)| {
            decode(text.1).with_context(|| format!("as child {} read it", text.0))
        };
        found.push(Moments {
            empty: decode(empty)?,
            before: decode(before)?,
            after: decode(after)?,
            settled: decode(settled)?,
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(process: &[&str], system: &[&str]) -> Rows {
        let mut printed = String::new();
        let texts = process.iter().map(|text| ("process_cow_stats_text", text));
        for (metric, text) in texts.chain(system.iter().map(|t| ("system_cow_stats_text", t))) {
            let row = serde_json::json!({"metric": metric, "child": 1, "values": [], "text": text});
            printed.push_str(&format!("{row}\n"));
        }
        printed.push_str("{\"metric\":\"end\",\"child\":0,\"values\":[]}\n");
        Rows::decode(&printed).unwrap()
    }

    #[test]
    fn the_empty_loop_is_subtracted() {
        let process = ["faults: 10\n", "faults: 11\n", "faults: 112\n", "faults: 113\n"];
        let system = ["flushes: 0\n", "flushes: 0\n", "flushes: 50\n", "flushes: 60\n"];
        let counts = counts_of(&rows(&process, &system)).unwrap();
        assert_eq!(counts.len(), 1);
        assert_eq!(counts[0].process.of_the_writes(|p| p.faults), Some(100.0));
        assert_eq!(counts[0].process.when_settled(|p| p.faults), Some(102.0));
        assert_eq!(counts[0].process.of_the_writes(|p| p.precopied), None);
        assert_eq!(counts[0].system.of_the_writes(|s| s.flushes), Some(50.0));
    }

    #[test]
    fn texts_that_are_missing_or_damaged_are_errors() {
        assert!(counts_of(&rows(&["faults: 1\n"; 3], &["faults: 1\n"; 3])).is_err());
        assert!(counts_of(&rows(&["faults: 1\n"; 4], &[])).is_err());
        let error = counts_of(&rows(&["faults: 1\nx\n"; 4], &["faults: 1\n"; 4])).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("child 1") && error.contains("cow_stats: line 2"), "{error}");
        assert_eq!(counts_of(&rows(&[], &[])).unwrap(), []);
    }
}
