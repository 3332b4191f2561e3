// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs and headers that the lab needs: what is missing is said at once, not one by one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// What installs all of it, in a clone of cowlab and elsewhere.
pub const HELP: &str = "run scripts/install kernel, or apt install make gcc flex bison bc git xz-utils \
                        perl libelf-dev qemu-system-x86";

pub const BUILD: &[&str] =
    &["make", "gcc", "ld", "flex", "bison", "bc", "git", "tar", "xz", "perl", "awk", "gzip"];

/// Headers of the host that kernel builds compile against (objtool reads ELF).
const HEADERS: &[&str] = &["libelf.h"];

pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Fail with all that a build lacks.
pub fn check_build() -> Result<()> {
    let mut missing: Vec<String> =
        BUILD.iter().filter(|name| find(name).is_none()).map(|name| (*name).to_owned()).collect();
    if find("gcc").is_some() {
        missing.extend(HEADERS.iter().filter(|name| !has_header(name)).map(|n| (*n).to_owned()));
    }
    if !missing.is_empty() {
        bail!("a kernel cannot be built without {}: {HELP}", missing.join(", "));
    }
    Ok(())
}

/// Whether programs of this machine can include it.
pub fn has_header(name: &str) -> bool {
    let mut check = Command::new("gcc");
    check.args(["-E", "-include", name, "-xc", "/dev/null", "-o", "/dev/null"]);
    check.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    check.status().is_ok_and(|status| status.success())
}

/// The first line of what `program --version` prints.
pub fn version(program: &str) -> Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {program}: {HELP}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or("").to_owned())
}
