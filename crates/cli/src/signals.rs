// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signals that come while a command runs for somebody.

use rustix::process::{Pid, Signal, kill_process};

/// Tells the command to end, as cowlab was told. Ctrl-C the terminal sends it as well.
pub fn forward(signal: i32, command: i32) {
    if signal == signal_hook::consts::SIGTERM
        && let Some(pid) = Pid::from_raw(command)
    {
        // One that cannot be told, or not any more, is let go by the next signal.
        let _ = kill_process(pid, Signal::TERM);
    }
}
