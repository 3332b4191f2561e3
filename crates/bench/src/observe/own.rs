// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Our own observer, read by a thread meanwhile as `watch` and `footprint` read it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use cowlab_observe::bpf::{FaultMode, Happening, Observer, ObserverSettings};

use super::Watcher;

/// How often faults are read: 5 ms of 500,000 faults a second are 100 KB.
const LOOK: Duration = Duration::from_millis(5);

/// An observer at work.
pub struct Watching {
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<Result<Seen>>>,
}

/// What it saw of this process's descendants.
#[derive(Debug, Default)]
pub struct Seen {
    /// Faults, however they were told.
    pub faults: u64,
    /// Of those, the ones that are only in the counts.
    pub lost: u64,
    /// Forks with their stops: who forked, and how long in ns.
    pub stops: Vec<(u32, u64)>,
}

impl Watching {
    /// Attach; from now on every process that this one starts is watched.
    pub fn begin(watcher: Watcher) -> Result<Watching> {
        let faults = match watcher {
            Watcher::Count => FaultMode::Count,
            Watcher::Regions => FaultMode::Regions,
            Watcher::Every => FaultMode::Every,
            Watcher::Counted | Watcher::Copies => FaultMode::Copies,
            _ => FaultMode::None,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, begun) = sync_channel(1);
        let stopped = Arc::clone(&stop);
        let reader = std::thread::spawn(move || {
            let observer =
                Observer::attach(ObserverSettings { faults, ..ObserverSettings::default() })
                    .and_then(|mut observer| {
                        observer.watch(std::process::id())?;
                        observer.tell_copies(u32::from(watcher == Watcher::Copies), None)?;
                        Ok(observer)
                    });
            match observer {
                Ok(observer) => {
                    let _ = sender.send(Ok(()));
                    Ok(read(observer, watcher, &stopped))
                }
                Err(error) => {
                    let _ = sender.send(Err(anyhow!(error)));
                    Ok(Seen::default())
                }
            }
        });
        let watching = Watching { stop, reader: Some(reader) };
        begun.recv().context("the observer ended before it began")??;
        Ok(watching)
    }

    /// Detach; what was seen.
    pub fn end(mut self) -> Result<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        let reader = self.reader.take().context("it was ended already")?;
        reader.join().map_err(|_| anyhow!("the observer failed"))?
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn read(mut observer: Observer, watcher: Watcher, stop: &AtomicBool) -> Seen {
    let faults = observer.settings().faults;
    let mut seen = Seen::default();
    let own = std::process::id();
    let mut told = 0;
    loop {
        let is_last = stop.load(Ordering::Relaxed);
        observer.read_events(|event| {
            if let Happening::Fork(fork) = event.what
                && let Some(stop_ns) = fork.stop_ns
            {
                seen.stops.push((event.tgid, stop_ns));
            }
        });
        told += observer.read_faults(|_| {}) as u64;
        told += observer.read_copies(usize::MAX).len() as u64;
        if is_last {
            break;
        }
        match faults {
            FaultMode::Every | FaultMode::Copies => std::thread::sleep(LOOK),
            _ => observer.wait(Duration::from_millis(100)),
        }
    }
    seen.lost = observer.lost().faults + observer.lost().copies;
    seen.faults = match faults {
        FaultMode::Every => told,
        FaultMode::Copies if watcher == Watcher::Copies => told,
        _ => {
            let counts = observer.watched().into_iter().filter(|pid| *pid != own);
            counts.filter_map(|pid| observer.counts(pid)).map(|counts| counts.faults).sum()
        }
    };
    seen
}
