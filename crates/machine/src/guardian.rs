// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A shell that puts settings back when this process has gone, however it went.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::record::Held;

/// What it runs: say that the signals are ignored, wait until nobody holds the other end of the
/// pipe, put the old values back and empty their records. `read` is the shell's own, so it needs no
/// other program.
const SCRIPT: &str = r#"trap '' HUP INT QUIT TERM PIPE
echo ready
while read -r _; do :; done
while [ $# -gt 2 ]; do
	if printf '%s\n' "$1" >"$2"; then : >"$3"; else failed=1; fi
	shift 3
done
exit ${failed:-0}"#;

/// Waits for a pipe to close, which SIGKILL closes as well, and then writes the old values. What kills
/// both (a whole control group) leaves them changed until the next guard finds their records.
#[derive(Debug)]
pub(crate) struct Guardian(Option<Child>);

impl Guardian {
    /// Starts it, and waits until it ignores signals. It will write each value into its file, in
    /// that order. It holds `lock` as its stderr, which is open for reading only, so that nothing
    /// it could print reaches a setting.
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
            // It writes only what the files hold already, so ending it here changes nothing.
            let status = child.wait().map_err(|error| error.to_string())?;
            return Err(format!("did not start ({status})"));
        }
        Ok(Guardian(Some(child)))
    }

    /// Kills it, as the kernel kills a control group.
    #[cfg(test)]
    pub(crate) fn kill(mut self) {
        let mut child = self.0.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Lets it put the values back and waits until they are there. A second call does nothing.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        let Some(mut child) = self.0.take() else { return Ok(()) };
        // `wait` closes the pipe first, which is what the guardian waits for.
        match child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("did not put the old setting back ({status})")),
            Err(error) => Err(error.to_string()),
        }
    }
}
