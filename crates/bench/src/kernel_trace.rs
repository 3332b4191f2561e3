// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls as the kernel's own trace events see them (Documentation/trace/ftrace.rst).
//!
//! An instance of tracefs has buffers and switches of its own, so nobody else's tracing is touched.
//! A shell removes it when the pipe to it closes, however this process ends.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Waits for the end of its input, then switches the events off and removes the instance.
const GUARDIAN: &str = r#"trap '' HUP INT QUIT TERM PIPE
while read -r _; do :; done
echo 0 >"$1/events/enable"; rmdir "$1""#;

/// Kilobytes of trace buffer a CPU: some 100 bytes an event, two events a call.
const BUFFER_KIB: &str = "16384";

/// One traced system call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Call {
    /// Between its enter and its exit event, in ns (the trace has microseconds).
    pub ns: u64,
}

/// A tracing instance that records the entry and exit of some system calls.
pub struct Instance {
    path: PathBuf,
    guardian: Child,
}

impl Instance {
    /// Begin to record `calls` (`clone`, `vfork`, …) under the tracefs mounted at `mount_point`.
    pub fn begin(mount_point: &Path, calls: &[&str]) -> Result<Instance> {
        let path = mount_point.join(format!("instances/cowlab-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| {
            format!("cannot make the tracing instance {}: run as root", path.display())
        })?;
        let guardian = Command::new("/bin/sh")
            .args(["-c", GUARDIAN, "sh"])
            .arg(&path)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let guardian = match guardian {
            Ok(guardian) => guardian,
            Err(error) => {
                let _ = fs::remove_dir(&path);
                return Err(error).context("cannot start /bin/sh");
            }
        };
        let instance = Instance { path, guardian };
        instance.write("trace_clock", "mono")?;
        instance.write("buffer_size_kb", BUFFER_KIB)?;
        for call in calls {
            for side in ["enter", "exit"] {
                instance.write(&format!("events/syscalls/sys_{side}_{call}/enable"), "1")?;
            }
        }
        Ok(instance)
    }

    fn write(&self, file: &str, value: &str) -> Result<()> {
        let path = self.path.join(file);
        fs::write(&path, value).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The calls of process `pid` so far; forgets them.
    pub fn take(&self, pid: u32) -> Result<Vec<Call>> {
        let path = self.path.join("trace");
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        self.write("trace", "")?;
        Ok(calls_of(&text, pid))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        drop(self.guardian.stdin.take());
        let _ = self.guardian.wait();
    }
}

/// The calls of `pid` in a trace's text: an enter event (`sys_clone(…)`) and the exit event that
/// follows it in the same task (`sys_clone -> 0x…`).
fn calls_of(text: &str, pid: u32) -> Vec<Call> {
    let task = format!("-{pid}");
    let mut calls = Vec::new();
    let mut entered = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        // "  do_fork-1234  [000] .....  123.456789: sys_clone(…)"; a name may hold spaces.
        let Some((head, event)) = line.split_once(": sys_") else { continue };
        let Some((who, rest)) = head.split_once('[') else { continue };
        if !who.trim_end().ends_with(&task) {
            continue;
        }
        let Some(at) = rest.split_whitespace().last().and_then(microseconds) else { continue };
        if event.contains(" -> ") {
            if let Some(since) = entered.take() {
                calls.push(Call { ns: (at - since) * 1000 });
            }
        } else {
            entered = Some(at);
        }
    }
    calls
}

fn microseconds(stamp: &str) -> Option<u64> {
    let (seconds, fraction) = stamp.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000 + fraction.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
         do_fork-1234    [000] .....  5316.100010: sys_clone(clone_flags: 1200011, newsp: 0)
         do_fork-1235    [001] .....  5316.100200: sys_clone -> 0x0
         do_fork-1234    [000] .....  5316.100260: sys_clone -> 0x4d3
      odd name 1-1234    [000] .....  5316.200000: sys_vfork()
      odd name 1-1234    [000] .....  5316.200016: sys_vfork -> 0x4d4
       other-91234       [000] .....  5316.300000: sys_vfork()
         do_fork-1234    [000] .....  5316.400000: sys_clone(cut in the middle
";

    #[test]
    fn calls_are_paired_by_task() {
        assert_eq!(calls_of(TRACE, 1234), [Call { ns: 250_000 }, Call { ns: 16_000 }]);
        assert_eq!(calls_of(TRACE, 1235), []);
        assert_eq!(calls_of("", 1), []);
    }
}
