// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where frames come from: a thread that watches, or a file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use cowlab_observe::watch::{Frame, Gatherer, Options, Wanted, WantedError};
use cowlab_store::read_lines;

use super::stream;

/// The longest pause of a replay: a recording may have been stopped and gone on with.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Within this time a pause ends where it is stopped.
const SLICE: Duration = Duration::from_millis(50);

/// Frames, as they come.
pub struct Source {
    frames: Receiver<Frame>,
    thread: Option<JoinHandle<Result<()>>>,
    missing: Vec<String>,
}

impl Source {
    /// Watch. Everything that belongs to the kernel stays in one thread, so that a slow terminal
    /// delays no event.
    pub fn live(
        wanted: Wanted,
        options: Options,
        interval: Duration,
        stop: &Arc<AtomicBool>,
    ) -> Result<Source> {
        let (sender, frames) = sync_channel(4);
        let (began, begun) = sync_channel(1);
        let stop = Arc::clone(stop);
        let thread = std::thread::spawn(move || {
            // Behind what is watched, where there is not enough of a CPU for both.
            let _ = rustix::process::nice(10);
            let mut gatherer = match Gatherer::begin(wanted, &options) {
                Ok(gatherer) => gatherer,
                Err(error) => {
                    let _ = began.send(Err(error));
                    return Ok(());
                }
            };
            let _ = began.send(Ok(gatherer.sees().missing.clone()));
            let stopped = move || stop.load(Ordering::Relaxed);
            let mut next = Instant::now();
            while !stopped() {
                let frame = gatherer.frame();
                let is_over = gatherer.is_over();
                if sender.send(frame).is_err() || is_over {
                    break;
                }
                // A steady refresh: late ones are left out, not made up for.
                while next <= Instant::now() {
                    next += interval;
                }
                gatherer.until(next, &stopped);
            }
            Ok(())
        });
        let missing = begun.recv().map_err(|_| anyhow!("watching ended before it began"))?;
        let missing = missing.map_err(|error: WantedError| anyhow!(error))?;
        Ok(Source { frames, thread: Some(thread), missing })
    }

    /// A recording, at its own pace.
    pub fn replay(path: &Path, stop: &Arc<AtomicBool>) -> Result<Source> {
        let name = path.display().to_string();
        let mut lines = read_lines(path, stream::MOST_LINE_BYTES)?.enumerate();
        // What is no recording is told at once.
        let mut first = None;
        if let Some((_, line)) = lines.next() {
            first = Some(Frame::parse(&line?).with_context(|| format!("{name}, line 1"))?);
        }
        let first = first.with_context(|| format!("{name} is empty: no recording"))?;
        let missing = Vec::new();
        let stop = Arc::clone(stop);
        let (sender, frames) = sync_channel(4);
        let thread = std::thread::spawn(move || {
            let mut before = first.time_unix_ns;
            if sender.send(first).is_err() {
                return Ok(());
            }
            for (number, line) in lines {
                let frame = match line.and_then(|line| Frame::parse(&line)) {
                    Ok(frame) => frame,
                    Err(error) => {
                        let place = format!("{name}, line {}: cut short?", number + 1);
                        return Err(error.context(place));
                    }
                };
                let pause = frame.time_unix_ns.saturating_sub(before).max(0).cast_unsigned();
                before = frame.time_unix_ns;
                let pause = Duration::from_nanos(pause).min(LONGEST_PAUSE);
                if !has_passed(pause, &stop) || sender.send(frame).is_err() {
                    break;
                }
            }
            Ok(())
        });
        Ok(Source { frames, thread: Some(thread), missing })
    }

    /// What cannot be seen, one sentence each.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// The next frame, if it comes in time.
    pub fn next(&self, at_most: Duration) -> Option<Frame> {
        self.frames.recv_timeout(at_most).ok()
    }

    /// Whether no more will come.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it; what went wrong in it.
    pub fn finish(mut self) -> Result<()> {
        // A thread that waits to send must not wait for ever.
        drop(self.frames);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(anyhow!("the thread that watches failed")),
            None => Ok(()),
        }
    }
}

/// Waits for so long; whether `stop` did not end it.
fn has_passed(pause: Duration, stop: &AtomicBool) -> bool {
    let until = Instant::now() + pause;
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(SLICE));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::stream::tests::example;
    use super::*;

    #[test]
    fn a_pause_ends_where_it_is_stopped() {
        let stop = Arc::new(AtomicBool::new(false));
        assert!(has_passed(Duration::ZERO, &stop) && has_passed(SLICE, &stop));
        let stopped = Arc::clone(&stop);
        let other = std::thread::spawn(move || stopped.store(true, Ordering::Relaxed));
        // Longer than any test may take.
        assert!(!has_passed(Duration::from_secs(86_400), &stop));
        other.join().unwrap();
    }

    #[test]
    fn a_replay_shows_what_was_recorded_and_ends_when_it_is_told_to() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recorded");
        let mut first = example();
        let mut second = example();
        // A clock that was never set: what lies between is more than a number of ns can say.
        (first.time_unix_ns, second.time_unix_ns) = (i64::MIN, i64::MAX);
        let text = [&first, &second].map(|frame| stream::line(frame).unwrap()).concat();
        std::fs::write(&file, text).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let source = Source::replay(&file, &stop).unwrap();
        assert_eq!(source.next(Duration::from_secs(60)), Some(first));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(source.next(Duration::from_secs(60)), None, "the second is not due");
        source.finish().unwrap();
    }
}
