// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the shown process and its workers share, looked at beside the frames: walking their page tables
//! takes long, and events are not to wait for it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cowlab_observe::sharing::{Figures, Sharing};
use cowlab_observe::watch::{Budget, Process, Wanted};
use cowlab_tend::act::thread_cpu_ns;

/// From one look to the next.
const INTERVAL: Duration = Duration::from_secs(2);
/// The part of a CPU that looks may take.
const CPU_SHARE: f64 = 0.01;

/// Looks at one family at a time: the one that was asked for last.
pub struct Family {
    wanted: SyncSender<u32>,
    newest: Arc<Mutex<Option<Figures>>>,
}

impl Family {
    /// Begins to wait for the first question. Ends with it.
    pub fn begin() -> Family {
        let (wanted, questions) = sync_channel(1);
        let newest = Arc::default();
        let answers = Arc::clone(&newest);
        std::thread::spawn(move || {
            // Behind what is watched.
            let _ = rustix::process::nice(10);
            answer(&questions, &answers);
        });
        Family { wanted, newest }
    }

    /// What was last seen of a process's family; `None` where nothing was, or it has none.
    pub fn of(&self, process: &Process) -> Option<Figures> {
        if process.children.is_empty() || process.ended {
            return None;
        }
        // One that is asked already is answered soon.
        let _ = self.wanted.try_send(process.pid);
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.clone().filter(|of| of.pid.cast_unsigned() == process.pid)
    }
}

/// Looks while questions come: a view that is narrow or paused asks none.
fn answer(questions: &Receiver<u32>, newest: &Mutex<Option<Figures>>) {
    let mut family: Option<Sharing> = None;
    let mut asked = None;
    let mut budget = Budget::new(CPU_SHARE, 0.0);
    let (mut paid, mut looked) = (Instant::now(), None);
    loop {
        let pid = match questions.recv_timeout(INTERVAL) {
            Ok(pid) => pid,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        budget.pass(paid.elapsed().as_nanos() as u64);
        paid = Instant::now();
        let is_due = looked.is_none_or(|at: Instant| at.elapsed() >= INTERVAL);
        let is_new = asked != Some(pid);
        if !budget.allows() || !(is_due || is_new) {
            continue;
        }
        let cpu_ns = thread_cpu_ns();
        if is_new {
            (family, asked) = (Sharing::begin(&Wanted::Pid(pid)).ok(), Some(pid));
        } else if let Some(of) = &mut family {
            let has_changed = of.may_have_changed();
            if !has_changed {
                of.repeat();
            } else if of.look().is_err() {
                // It ended.
                family = None;
            }
        }
        budget.spend(thread_cpu_ns() - cpu_ns);
        looked = Some(Instant::now());
        let figures = family.as_ref().map(Sharing::figures);
        *newest.lock().unwrap_or_else(PoisonError::into_inner) = figures;
    }
}
