// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a program's forks really cost it: the same work without a fork and beside one, in turn, by
//! the CPU time of the process that works.

use std::fs;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::{Program, Programs};

/// Pairs of marks of which the last has a child; the first settles (examples/footprints/marks.c).
pub(super) const CYCLE: u32 = 3;

/// A row that a measuring command writes.
#[derive(Debug, Clone, Deserialize)]
struct Row {
    pair: u64,
    held: u8,
    /// How long the call of fork took.
    fork_ns: Option<f64>,
    cpu_ns: f64,
    minor_faults: f64,
    child_rollup: Option<String>,
    child_status: Option<String>,
    /// 0 where the child ended before the work beside it did: that is no cycle with a fork.
    #[serde(default)]
    outlasted: Option<u8>,
}

/// What the forks cost: one figure a cycle.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cost {
    /// CPU time with a fork less CPU time without.
    pub extra_ns: Vec<f64>,
    /// Of that, how long the call of fork took.
    pub fork_ns: Vec<f64>,
    /// The rest of it: the faults, and what cold caches cost.
    pub write_ns: Vec<f64>,
    /// CPU time without one.
    pub alone_ns: Vec<f64>,
    /// Faults with a fork less faults without.
    pub extra_faults: Vec<f64>,
    /// What only the child still has at the end, and its page tables.
    pub extra_bytes: Vec<f64>,
}

/// Run the program's measuring command, `pairs` pairs of it.
pub fn measure(programs: &Programs, program: &Program, pairs: u32) -> Result<Cost> {
    let rows = tempfile::NamedTempFile::new_in(programs.scratch.path())?;
    let words = programs.words(&program.measure, rows.path(), pairs);
    programs.run(&program.name, &words)?;
    let text = fs::read_to_string(rows.path())?;
    decode(&text).with_context(|| format!("{}: the rows of its measurement", program.name))
}

fn decode(text: &str) -> Result<Cost> {
    let rows: Vec<Row> =
        text.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("no JSON")?;
    let mut cost = Cost::default();
    let mut ended_early = 0;
    for with in rows.iter().filter(|row| row.held == 1) {
        let without = rows.iter().find(|row| row.pair + 1 == with.pair && row.held == 0);
        let without = without.context("a fork without its counterpart")?;
        if with.pair % u64::from(CYCLE) != u64::from(CYCLE) - 1 {
            bail!("pair {} should have no child", with.pair);
        }
        if with.outlasted == Some(0) {
            ended_early += 1;
            continue;
        }
        let extra_ns = with.cpu_ns - without.cpu_ns;
        cost.extra_ns.push(extra_ns);
        if let Some(fork_ns) = with.fork_ns {
            cost.fork_ns.push(fork_ns);
            cost.write_ns.push(extra_ns - fork_ns);
        }
        cost.alone_ns.push(without.cpu_ns);
        cost.extra_faults.push(with.minor_faults - without.minor_faults);
        cost.extra_bytes.extend(held_bytes(with));
    }
    if cost.extra_ns.is_empty() && ended_early > 0 {
        bail!(
            "each child ({ended_early}) ended before the work beside it did: give the program less \
             work in a pair, or its child more"
        );
    }
    if cost.extra_ns.is_empty() {
        bail!("no pair had a child");
    }
    Ok(cost)
}

/// The child's memory that nobody else has, and its page tables.
fn held_bytes(row: &Row) -> Option<f64> {
    let kib = |text: &str, key: &str| -> Option<f64> {
        let line = text.split('|').find(|line| line.trim_start().starts_with(key))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    let rollup = row.child_rollup.as_deref()?;
    let private = kib(rollup, "Private_Clean:")? + kib(rollup, "Private_Dirty:")?;
    Some((private + kib(row.child_status.as_deref()?, "VmPTE:")?) * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_is_compared_with_the_work_before_it() {
        let row = |pair: u64, held: u8, cpu: u64, more: &str| {
            format!(
                "{{\"pair\":{pair},\"held\":{held},\"fork_ns\":{},\"cpu_ns\":{cpu},\"minor_faults\":{}{more}}}",
                u64::from(held) * 60,
                held * 50
            )
        };
        let child = ",\"child_rollup\":\"0-1 ---p [rollup]|Private_Clean:  4 kB|Private_Dirty:  196 kB|\",\
                     \"child_status\":\"Name: x|VmPTE:  24 kB|\"";
        let text = [
            row(0, 0, 900, ""),
            row(1, 0, 1000, ""),
            row(2, 1, 1500, child),
            row(3, 0, 1, ""),
            row(4, 0, 1100, ""),
            row(5, 1, 1400, child),
        ];
        let cost = decode(&text.join("\n")).unwrap();
        assert_eq!(cost.extra_ns, [500.0, 300.0]);
        assert_eq!((cost.fork_ns, cost.write_ns), (vec![60.0; 2], vec![440.0, 240.0]));
        assert_eq!((cost.alone_ns.len(), cost.extra_faults[0]), (2, 50.0));
        assert_eq!(cost.extra_bytes, [224.0 * 1024.0; 2]);
        assert!(decode("").unwrap_err().to_string().contains("no pair"));
        assert!(decode(&text[2]).unwrap_err().to_string().contains("counterpart"));
        assert!(decode("{").is_err());
    }

    #[test]
    fn a_child_that_ended_early_is_no_cycle() {
        let row = |pair: u64, held: u8, cpu: u64, more: &str| {
            format!(
                "{{\"pair\":{pair},\"held\":{held},\"cpu_ns\":{cpu},\
                 \"minor_faults\":{held}{more}}}"
            )
        };
        let early = [row(1, 0, 1000, ""), row(2, 1, 1100, ",\"outlasted\":0")];
        let full = [row(4, 0, 1000, ""), row(5, 1, 1500, ",\"outlasted\":1")];
        let cost = decode(&[early.join("\n"), full.join("\n")].join("\n")).unwrap();
        assert_eq!((cost.extra_ns, cost.alone_ns), (vec![500.0], vec![1000.0]));
        let error = decode(&early.join("\n")).unwrap_err().to_string();
        assert!(error.contains("(1) ended before the work"), "{error}");
    }
}
