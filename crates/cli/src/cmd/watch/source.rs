// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where frames come from: a thread that watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use cowlab_observe::watch::{Frame, Gatherer, Options, Wanted, WantedError};

pub struct Source {
    frames: Receiver<Frame>,
    thread: Option<JoinHandle<Result<()>>>,
    missing: Vec<String>,
}

impl Source {
    /// Watch. Everything that belongs to the kernel stays in one thread, so that a slow terminal
    /// delays no event.
    pub fn begin(
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
