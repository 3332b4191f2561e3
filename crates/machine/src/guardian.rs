// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A shell that restores settings after this process has ended, however it ended.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::record::Held;

/// Says that it ignores signals, waits until the pipe's other end is closed, restores the old values
/// and empties their records. `read` is a shell builtin, so no other program is needed.
const SCRIPT: &str = r#"trap '' HUP INT QUIT TERM PIPE
echo ready
while read -r _; do :; done
while [ $# -gt 2 ]; do
	if printf '%s\n' "$1" >"$2"; then : >"$3"; else failed=1; fi
	shift 3
done
exit ${failed:-0}"#;

/// Waits for a pipe to close, which SIGKILL does too, then writes the old values. If both processes are
/// killed (a whole control group), the next guard finds the records.
#[derive(Debug)]
pub(crate) struct Guardian(Option<Child>);

impl Guardian {
    /// Starts it and waits until it ignores signals. It will write each value into its file, in order.
    /// It holds `lock` as its stderr, open for reading only, so that nothing it prints reaches a
    /// setting.
    pub(crate) fn start(values: &[Held], lock: File) -> Result<Guardian, String> {
        let words = values
            .iter()
            .flat_map(|held| [Path::new(&held.value), held.path.as_path(), held.record.path()]);
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "cowlab-guardian"])
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(lock)
            .process_group(0)
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
        }
        if line != "ready\n" {
            // It only writes what the files hold already, so ending it here changes nothing.
            let status = child.wait().map_err(|error| error.to_string())?;
            return Err(format!("did not start ({status})"));
        }
        Ok(Guardian(Some(child)))
    }

    /// As when the kernel kills a control group.
    #[cfg(test)]
    pub(crate) fn kill(mut self) {
        let mut child = self.0.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Lets it restore the values and waits for that. A second call does nothing.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        let Some(mut child) = self.0.take() else { return Ok(()) };
        // `wait` closes the pipe first.
        match child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("did not put the old setting back ({status})")),
            Err(error) => Err(error.to_string()),
        }
    }
}
