// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signals that ask this program to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_default, register_usize};

/// Set by the first one. A second one ends the program the usual way.
pub fn interrupted() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        register_conditional_default(signal, Arc::clone(&interrupted))?;
        register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

/// The number of the last one, for a command that runs for somebody.
pub fn last() -> Result<Arc<AtomicUsize>> {
    let last = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM] {
        register_usize(signal, Arc::clone(&last), signal as usize)?;
    }
    Ok(last)
}

/// Tells the command to end, as cowlab was told. Ctrl-C the terminal sends it as well.
pub fn forward(signal: i32, command: i32) {
    if signal == SIGTERM
        && let Some(pid) = Pid::from_raw(command)
    {
        // One that cannot be told, or not any more, is let go by the next signal.
        let _ = kill_process(pid, Signal::TERM);
    }
}
