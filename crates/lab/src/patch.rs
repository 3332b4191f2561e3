// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One hooks.patch: which files it changes, and applying it with offsets but without fuzz. A hunk
//! that is placed by fuzz may land in another function of mm/memory.c and still compile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// A hunk that was found at another line than its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    /// The step.
    pub step: String,
    /// The file of the kernel.
    pub file: String,
    /// Number of the hunk in this file, from 1.
    pub hunk: u32,
    /// By how many lines it moved.
    pub lines: i64,
}

/// The files that a patch changes, in its order. Fails if it makes a new file, or is no unified
/// diff.
pub fn files(text: &str, name: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((_, line)) = lines.next() {
        let Some(old) = line.strip_prefix("--- ") else { continue };
        let Some((at, next)) = lines.peek() else { break };
        let Some(new) = next.strip_prefix("+++ ") else { continue };
        // A removed line that begins with "-- ", followed by an added one with "++ ".
        if !old.starts_with("a/") && old != "/dev/null" {
            continue;
        }
        if old == "/dev/null" {
            bail!("{}:{at}: {new} is new: it belongs into tree/", name.display());
        }
        let path = old.split('\t').next().unwrap_or(old).trim_start_matches("a/");
        found.push(PathBuf::from(path));
    }
    if found.is_empty() {
        bail!("{}: no '--- a/FILE' line: not a patch of git diff's form", name.display());
    }
    Ok(found)
}

/// Apply the patch of `step` to the files in `folder`.
pub fn apply(folder: &Path, patch: &Path, step: &str) -> Result<Vec<Offset>> {
    let output = Command::new("patch")
        .args(["-F0", "-p1", "--no-backup-if-mismatch", "--force", "--unified", "-i"])
        .arg(patch)
        .current_dir(folder)
        // Its messages are read.
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run patch: {}", crate::tools::HELP))?;
    // A damaged patch is complained about on standard error.
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let messages = read_messages(&said, step);
    if !output.status.success() {
        let reject = messages.failed.first().map(|(file, _)| reject_of(folder, file));
        bail!("{}", failure(&messages, step, patch, &said, reject.as_deref()));
    }
    Ok(messages.offsets)
}

#[derive(Debug, Default, PartialEq)]
struct PatchMessages {
    offsets: Vec<Offset>,
    /// File and hunk.
    failed: Vec<(String, u32)>,
}

/// What GNU patch says, line by line.
fn read_messages(said: &str, step: &str) -> PatchMessages {
    let mut messages = PatchMessages::default();
    let mut file = String::new();
    for line in said.lines() {
        if let Some(name) = line.strip_prefix("patching file ") {
            file = name.trim_matches('\'').to_owned();
        }
        let Some(rest) = line.strip_prefix("Hunk #") else { continue };
        let Some((number, rest)) = rest.split_once(' ') else { continue };
        let Ok(hunk) = number.parse() else { continue };
        if rest.starts_with("FAILED") {
            messages.failed.push((file.clone(), hunk));
        } else if let Some((_, offset)) = rest.split_once("(offset ")
            && let Some(Ok(lines)) = offset.split(' ').next().map(str::parse)
        {
            messages.offsets.push(Offset {
                step: step.to_owned(),
                file: file.clone(),
                hunk,
                lines,
            });
        }
    }
    messages
}

fn failure(
    messages: &PatchMessages,
    step: &str,
    patch: &Path,
    said: &str,
    reject: Option<&str>,
) -> String {
    if messages.failed.is_empty() {
        return format!("step {step}: {} does not apply: {}", patch.display(), said.trim());
    }
    let hunks: Vec<String> =
        messages.failed.iter().map(|(file, hunk)| format!("{file} hunk {hunk}")).collect();
    let mut text = format!(
        "step {step}: {} of {} {} not fit this source (offsets are allowed, fuzz is not)",
        hunks.join(", "),
        patch.display(),
        if hunks.len() == 1 { "does" } else { "do" },
    );
    if let Some(reject) = reject {
        text += &format!("; the first:\n{}", reject.trim_end());
    }
    text
}

/// What patch could not place, at most 40 lines of it.
fn reject_of(folder: &Path, file: &str) -> String {
    let text = fs::read(folder.join(format!("{file}.rej"))).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().take(40).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "patching file mm/memory.c\nHunk #1 succeeded at 25 (offset 3 lines).\n\
                        Hunk #2 FAILED at 40.\nHunk #3 succeeded at 90 (offset -1 line).\n\
                        1 out of 3 hunks FAILED -- saving rejects to file mm/memory.c.rej\n\
                        patching file 'mm/Makefile'\nHunk #1 FAILED at 1.\n";

    #[test]
    fn offsets_and_failures_are_understood() {
        let messages = read_messages(SAID, "0001-x");
        let offset =
            |hunk, lines| Offset { step: "0001-x".into(), file: "mm/memory.c".into(), hunk, lines };
        assert_eq!(messages.offsets, [offset(1, 3), offset(3, -1)]);
        assert_eq!(messages.failed, [("mm/memory.c".to_owned(), 2), ("mm/Makefile".to_owned(), 1)]);
        let text = failure(&messages, "0001-x", Path::new("hooks.patch"), SAID, Some("@@ -1 @@"));
        assert!(text.contains("step 0001-x: mm/memory.c hunk 2, mm/Makefile hunk 1"), "{text}");
        assert!(text.ends_with("@@ -1 @@"), "{text}");
    }

    #[test]
    fn the_files_of_a_patch() {
        let text = "diff --git a/mm/x.c b/mm/x.c\n--- a/mm/x.c\n+++ b/mm/x.c\n@@ -1,2 +1,2 @@\n \
                    a\n--- not a file\n+++ nor this\n--- a/mm/y.c\t2026\n+++ /dev/null\n";
        let name = Path::new("hooks.patch");
        assert_eq!(files(text, name).unwrap(), [Path::new("mm/x.c"), Path::new("mm/y.c")]);
        assert!(files("nothing\n", name).unwrap_err().to_string().contains("not a patch"));
        let new = "--- /dev/null\n+++ b/mm/z.c\n@@ -0,0 +1 @@\n+x\n";
        let error = files(new, name).unwrap_err().to_string();
        assert_eq!(error, "hooks.patch:1: b/mm/z.c is new: it belongs into tree/");
    }
}
