// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests on one kernel under one policy: one guest.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use cowlab_store::Accelerator;

use super::list::{List, Test};
use super::results::{self, Outcome, Single};
use super::script::{self, script};
use crate::boot::{Guest, boot};
use crate::console::Complaint;
use crate::watch::Watch;

/// What a guest may take to boot and to end, beside its tests.
const BOOT_LIMIT_S: u64 = 300;

/// One test that was run.
#[derive(Debug)]
pub struct Done {
    /// Its name.
    pub test: String,
    /// How long it took, by the guest's clock.
    pub seconds: f64,
    /// Everything that it says about itself.
    pub singles: Vec<Single>,
    /// All that it printed.
    pub output: String,
}

/// The results of one guest.
#[derive(Debug)]
pub struct Session {
    /// Kernel and policy.
    pub label: String,
    /// Its tests, in order.
    pub done: Vec<Done>,
    /// What its log says is wrong.
    pub complaints: Vec<Complaint>,
    /// Its log.
    pub log: String,
}

impl Session {
    /// How many single results ended so.
    pub fn count(&self, outcome: Outcome) -> usize {
        let singles = self.done.iter().flat_map(|done| &done.singles);
        singles.filter(|single| single.outcome == outcome).count()
    }

    /// A line for each single result: how it ended, the test, what, and why.
    pub fn lines(&self) -> String {
        let mut lines = String::new();
        for done in &self.done {
            for Single { name, outcome, reason } in &done.singles {
                lines += &format!("{}\t{}\t{name}\t{reason}\n", outcome.name(), done.test);
            }
        }
        lines
    }
}

/// Which guest.
pub struct Order<'a> {
    /// Its kernel.
    pub image: &'a Path,
    /// Kernel and policy, for people.
    pub label: String,
    /// Who executes it.
    pub accelerator: Accelerator,
    /// What its tests are told.
    pub script: script::Order<'a>,
}

/// Boot a guest that runs `tests`.
///
/// # Errors
/// If the guest dies or hangs, or one of the tests left no result.
pub fn run(list: &List, tests: &[&Test], order: &Order<'_>, watch: &Watch<'_>) -> Result<Session> {
    let folder = order.script.folder;
    let path = folder.join("tests");
    fs::write(&path, script(&list.guest, tests, &order.script))
        .with_context(|| format!("cannot write {}", path.display()))?;
    let limits = tests.iter().map(|test| script::limit_s(test, order.script.stress_s));
    let command = [OsString::from("bash"), path.into_os_string()];
    let mut progress = Progress { watch, label: &order.label, line: Vec::new() };
    let mut messages = Vec::new();
    let ended = boot(
        Guest {
            image: order.image,
            accelerator: order.accelerator,
            memory_bytes: list.guest.memory_mib << 20,
            preallocated: false,
            cpus: list.guest.cpus,
            time_limit: Duration::from_secs(BOOT_LIMIT_S + limits.sum::<u64>()),
            folder,
            command: Some(&command),
            input: None,
            output: &mut progress,
            messages: &mut messages,
            kernel_arguments: &list.guest.kernel_arguments,
            qemu_arguments: &[],
        },
        watch,
    )
    .with_context(|| format!("the guest of {} failed", order.label))?;
    let done = tests.iter().map(|test| read(folder, test, order.script.stress_s));
    let done = done.collect::<Result<_>>().with_context(|| {
        format!("{}: {}", order.label, String::from_utf8_lossy(&messages).trim())
    })?;
    let log = fs::read(&ended.console).unwrap_or_default();
    Ok(Session {
        label: order.label.clone(),
        done,
        complaints: ended.complaints,
        log: String::from_utf8_lossy(&log).into_owned(),
    })
}

fn read(folder: &Path, test: &Test, stress_s: u64) -> Result<Done> {
    let path = folder.join(format!("{}.status", test.name));
    let text = fs::read_to_string(&path)
        .with_context(|| format!("the test {} was not run", test.name))?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let parsed = match words[..] {
        [status, began, ended] => {
            status.parse().ok().zip(began.parse::<f64>().ok().zip(ended.parse::<f64>().ok()))
        }
        _ => None,
    };
    let (status, (began, ended)) =
        parsed.with_context(|| format!("{} is cut: '{}'", path.display(), text.trim()))?;
    let output = fs::read(folder.join(format!("{}.out", test.name)))
        .with_context(|| format!("the output of the test {} is lost", test.name))?;
    let output = String::from_utf8_lossy(&output).into_owned();
    Ok(Done {
        test: test.name.clone(),
        seconds: ended - began,
        singles: results::singles(&output, status, script::limit_s(test, stress_s)),
        output,
    })
}

/// Tells people of each test when it has ended.
struct Progress<'a, 'w> {
    watch: &'a Watch<'w>,
    label: &'a str,
    line: Vec<u8>,
}

// What a watch tells people may be told from the thread that reads the guest.
impl Write for Progress<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
                continue;
            }
            let line = String::from_utf8_lossy(&self.line);
            let said = match line.rsplit_once(' ') {
                Some((test, "0")) => format!("{}: {test}", self.label),
                Some((test, "4" | "77")) => format!("{}: {test}: skipped", self.label),
                Some((test, status)) => format!("{}: {test}: status {status}", self.label),
                None => format!("{}: {line}", self.label),
            };
            self.watch.say(&said);
            self.line.clear();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
