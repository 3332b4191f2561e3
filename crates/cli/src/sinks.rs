// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a verb that runs for long leaves what it has to say. Each fails alone: a reader that stops
//! reading, or a full disk, holds up nothing else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use cowlab_schema::Params;
use cowlab_schema::live::Figures;
use cowlab_store::{FORMAT, Missing, Sample};
use serde::Serialize;

use crate::output::{self, JsonDocument};

/// Once it was told to end, a program waits so long for its reader.
const LAST: Duration = Duration::from_millis(500);
const GLANCE: Duration = Duration::from_millis(5);

/// A document of `--json` as one line of many, with its end.
pub fn json_line(
    summary: impl Serialize,
    samples: &[Sample],
    missing: &[Missing],
) -> Result<String> {
    let document =
        JsonDocument { format: FORMAT, run: None, folder: None, samples, summary, missing };
    Ok(serde_json::to_string(&document)? + "\n")
}

/// The figures that are known, as rows.
pub fn samples<T>(
    figures: Figures<T>,
    of: &T,
    params: &Params,
    start_unix_ns: i64,
) -> impl Iterator<Item = Sample> {
    figures.iter().copied().flatten().filter_map(move |figure| {
        let sample = Sample::of(figure.sample?, params.clone(), figure.value(of)?);
        Some(Sample { start_unix_ns, ..sample })
    })
}

/// Standard output, written by a thread of its own.
pub struct Printer {
    texts: Option<SyncSender<String>>,
    thread: Option<JoinHandle<Result<()>>>,
    /// Texts that were not printed, as nobody read the ones before.
    pub skipped: u64,
}

impl Printer {
    /// Starts it. So many texts may wait for their reader.
    pub fn start(waiting: usize) -> Result<Printer> {
        let (sender, texts) = sync_channel::<String>(waiting);
        let print = move || texts.iter().try_for_each(|text| output::print(&text));
        let thread = Builder::new().name("print".into()).spawn(print)?;
        Ok(Printer { texts: Some(sender), thread: Some(thread), skipped: 0 })
    }

    /// Prints a text, or leaves it out where too many wait already; whether printing goes on.
    pub fn offer(&mut self, text: String) -> bool {
        match self.texts.as_ref().map(|texts| texts.try_send(text)) {
            Some(Err(TrySendError::Full(_))) => self.skipped += 1,
            Some(Ok(())) => {}
            _ => return false,
        }
        true
    }

    /// Waits until all is printed; once the program was told to end, not for long.
    pub fn finish(mut self, told: &AtomicBool) -> Result<()> {
        while !told.load(Ordering::Relaxed) && self.is_printing() {
            std::thread::sleep(GLANCE);
        }
        self.wait_a_little();
        match self.thread.take() {
            Some(thread) if thread.is_finished() => {
                thread.join().map_err(|_| anyhow!("the thread that prints failed"))?
            }
            _ => Ok(()),
        }
    }

    /// No more texts will come: whether some are not printed yet.
    fn is_printing(&mut self) -> bool {
        self.texts = None;
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    fn wait_a_little(&mut self) {
        let until = Instant::now() + LAST;
        while self.is_printing() && Instant::now() < until {
            std::thread::sleep(GLANCE);
        }
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        self.wait_a_little();
    }
}

/// What goes wrong again and again, and is said once, and once more when it is something else.
#[derive(Debug, Default)]
pub struct Complaint(Option<String>);

impl Complaint {
    /// It was tried once more: what there is to say now is said.
    pub fn tell(&mut self, result: Result<()>) {
        if let Some(wrong) = self.of(result) {
            output::say(&wrong);
        }
    }

    fn of(&mut self, result: Result<()>) -> Option<String> {
        let wrong = result.err().map(|error| format!("{error:#}"));
        let before = std::mem::replace(&mut self.0, wrong.clone());
        wrong.filter(|wrong| Some(wrong) != before.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_wrong_is_said_once_and_again_when_it_changes() {
        let mut complaint = Complaint::default();
        let full = || Err(anyhow::anyhow!("the disk is full"));
        let said = [
            complaint.of(Ok(())),
            complaint.of(full()),
            complaint.of(full()),
            complaint.of(Err(anyhow::anyhow!("not allowed"))),
            complaint.of(full()),
            complaint.of(Ok(())),
            complaint.of(full()),
        ];
        let said = said.map(Option::unwrap_or_default);
        let full = "the disk is full";
        assert_eq!(said, ["", full, "", "not allowed", full, "", full]);
    }
}
