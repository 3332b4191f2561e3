// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SIGINT and SIGTERM.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread::Builder;
use std::time::Duration;

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_default, register_usize};
use signal_hook::low_level::pipe;

use crate::output;

/// After this long a program that was asked to end exits, whatever it waits for; its guardian then
/// restores settings.
const LONGEST_END: Duration = Duration::from_millis(1500);
const GLANCE: Duration = Duration::from_millis(100);

/// Set by the first signal; a second one kills the program as usual.
pub fn interrupted() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        register_conditional_default(signal, Arc::clone(&interrupted))?;
        register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

/// For a verb that runs for long: it ends within 2 s of the first signal.
pub fn asked_to_end() -> Result<Arc<AtomicBool>> {
    let asked = interrupted()?;
    let (mut woken, wake) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        pipe::register(signal, wake.try_clone()?)?;
    }
    Builder::new().name("end".into()).spawn(move || {
        let _ = woken.read_exact(&mut [0]);
        std::thread::sleep(LONGEST_END);
        // The stuck call may be a write to standard error.
        let say = || output::say("ended in the middle: what it waited for did not come");
        let _ = Builder::new().spawn(say);
        std::thread::sleep(GLANCE);
        std::process::exit(1);
    })?;
    Ok(asked)
}

/// The last signal's number, for a verb that runs a command.
pub fn last() -> Result<Arc<AtomicUsize>> {
    let last = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM] {
        register_usize(signal, Arc::clone(&last), signal as usize)?;
    }
    Ok(last)
}

/// Passes SIGTERM on to the command; the terminal sends it Ctrl-C.
pub fn forward(signal: i32, command: i32) {
    if signal == SIGTERM
        && let Some(pid) = Pid::from_raw(command)
    {
        // If it cannot be reached, the next signal ends the recording.
        let _ = kill_process(pid, Signal::TERM);
    }
}
