// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording from its begin to its end.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result};

use crate::cost::ProbeCost;
use crate::drain::{Drain, counters};
use crate::file::{Account, TraceFile};
use crate::session::{Options, Session, WhenFull};

/// The longest sleep of a recorder whose programs do not wake it.
const NAP: Duration = Duration::from_millis(10);
/// How often the file's header is brought up to date.
const REFRESH: Duration = Duration::from_secs(1);
/// What programs are given to finish the event at hand once the recording is off.
const GRACE: Duration = Duration::from_millis(5);

/// A session and the file that it goes to.
pub struct Recording {
    /// The memory that programs record into.
    pub session: Session,
    pub file: TraceFile,
    drain: Drain,
    refreshed: Instant,
}

impl Recording {
    /// Begin to record into `path`, in place of a trace that may be there if `replace`; `command`
    /// is what the trace says was recorded.
    pub fn start(
        path: &Path,
        replace: bool,
        options: Options,
        command: &str,
        cost: Option<&ProbeCost>,
    ) -> Result<Recording> {
        let session = Session::create(options)?;
        // Not a link, nor a device.
        if replace && path.symlink_metadata().is_ok_and(|is| is.is_file()) {
            std::fs::remove_file(path)
                .with_context(|| format!("cannot replace {}", path.display()))?;
        }
        let mut file = TraceFile::create(path, &session, command)?;
        if let Some(cost) = cost {
            cost.put(file.header_mut());
        }
        session.beat();
        session.turn(true)?;
        Ok(Recording { session, file, drain: Drain::default(), refreshed: Instant::now() })
    }

    /// Take what programs recorded, and rest if there was little.
    pub fn pump(&mut self) {
        // Nobody waits for a recorder that takes nothing.
        if !self.is_closed() {
            self.session.beat();
        }
        let bytes = self.drain.round(&self.session, &mut self.file, false);
        if self.refreshed.elapsed() >= REFRESH {
            self.refreshed = Instant::now();
            self.file.refresh(&self.session);
        }
        if self.is_closed() {
            std::thread::sleep(NAP);
        } else if bytes < self.session.subbuf_bytes {
            self.session.sleep(NAP);
        }
    }

    /// Processes that have entered so far.
    pub fn processes(&self) -> u32 {
        counters(&self.session).processes
    }

    /// Whether the session was closed, so that nothing more is recorded.
    pub fn is_closed(&self) -> bool {
        self.drain.is_closed()
    }

    /// Which rule of the session's memory a program broke, if one did.
    pub fn breach(&self) -> Option<&str> {
        self.drain.breach()
    }

    /// Stop, take what is left, and end the file. Beside the account: what the trace lacks events
    /// for.
    pub fn finish(mut self) -> (Account, Option<Error>) {
        if self.session.options.when_full == WhenFull::Wait {
            // Who waits for room gets it before the end.
            self.drain.round(&self.session, &mut self.file, false);
        }
        let stopped = if self.is_closed() { Ok(()) } else { self.session.turn(false) };
        std::thread::sleep(GRACE);
        self.drain.round(&self.session, &mut self.file, true);
        let no_memory = self.drain.take_no_memory();
        let (account, trouble) = self.file.finish(&self.session, &self.drain);
        (account, trouble.map(Error::from).or(no_memory).or(stopped.err()))
    }
}
