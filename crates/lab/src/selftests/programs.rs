// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the programs of the tests, or finds them in the cache: upstream's selftests of mm with
//! what the series adds to them, and the project's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::build::changed;
use crate::cache::Cache;
use crate::key::Key;
use crate::make::Make;
use crate::patches::{KernelFolder, Series};
use crate::source::{Source, run};
use crate::testing::compile;
use crate::tools;
use crate::watch::Watch;

const HELP: &str = "run scripts/install kernel-test";

/// Headers of the libraries that selftests use.
const HEADERS: &[&str] = &["sys/capability.h", "numa.h", "liburing.h"];

const MM: &str = "tools/testing/selftests/mm";

/// More flags for the compiler: Debian's 6.12.117 has a backport that uses KSFT_SKIP where nothing defines it.
const FLAGS: [(&str, &str); 1] = [("khugepaged", "-DKSFT_SKIP=4")];

/// What selftests of mm are built from, beside the kernel's headers.
const NEEDED: &[&str] = &[
    "tools/testing/selftests",
    "tools/include",
    "tools/arch",
    "tools/scripts",
    "mm/gup_test.h",
    "lib/test_hmm_uapi.h",
    "include/vdso/time64.h",
    "scripts",
];

/// The folder with all programs, those that `series` add among them. `own` is the repository's
/// tests/kernel.
pub fn programs(
    cache: &Cache,
    kernel: &KernelFolder,
    source: &Source,
    series: &[Series],
    own: &Path,
    watch: &Watch<'_>,
) -> Result<PathBuf> {
    let missing: Vec<&str> =
        HEADERS.iter().copied().filter(|header| !tools::has_header(header)).collect();
    if !missing.is_empty() {
        bail!("the selftests cannot be built without {}: {HELP}", missing.join(", "));
    }
    let from = source.tree(cache);
    let changes = changed(cache, &from, &kernel.patches(series, source.release())?, watch)?;
    let owned = own_sources(own)?;
    let mut key = Key::default();
    key.text("source", &source.sha256);
    key.text("compiler", &tools::version("gcc")?);
    for (name, flags) in FLAGS {
        key.text(name, flags);
    }
    changes.identify(&from, &mut key)?;
    for file in &owned {
        key.file(&file.to_string_lossy(), file)?;
    }
    let folder = cache.folder("tests")?.join(key.name());
    let waiting = || watch.say("another cowlab builds the tests: waiting");
    let _lock = cache.lock("tests", waiting)?;
    if folder.is_dir() {
        return Ok(folder);
    }
    watch.say("building the selftests");
    let work = cache.folder("work/tests")?;
    let making = tempfile::Builder::new().prefix("making-").tempdir_in(&work)?;
    let (tree, log) = (making.path().join("tree"), work.join("build.log"));
    let _ = fs::remove_file(&log);
    copy_needed(&from, &tree)?;
    for path in changes.paths().iter().filter(|path| path.starts_with("tools")) {
        if let Some(file) = changes.find(&from, path) {
            let to = tree.join(path);
            fs::create_dir_all(to.parent().context("no folder")?)?;
            fs::copy(&file, &to).with_context(|| format!("cannot write {}", to.display()))?;
        }
    }
    let make = |tree: &Path, targets: &[&str]| {
        Make { tree, log: &log, local_version: "" }.run(targets, watch)
    };
    // Of the pristine source: the series adds none for programs.
    make(&from, &[&format!("O={}", making.path().join("headers").display()), "headers"])?;
    let headers = format!("KHDR_INCLUDES=-isystem {}/headers/usr/include", making.path().display());
    let mm = tree.join(MM);
    for (name, flags) in FLAGS {
        let target = mm.join(name).display().to_string();
        make(&mm, &[&target, &headers, &format!("EXTRA_CFLAGS={flags}")])?;
    }
    make(&mm, &["all", &headers])?;
    check_liburing(&mm)?;
    let out = making.path().join("programs");
    fs::create_dir(&out)?;
    for entry in fs::read_dir(&mm)? {
        let path = entry?.path();
        let is_program =
            path.is_file() && rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).is_ok();
        if is_program {
            fs::copy(&path, out.join(path.file_name().context("no name")?))?;
        }
    }
    for file in owned.iter().filter(|file| file.extension().is_some_and(|e| e == "c")) {
        compile(file, &out.join(file.file_stem().context("no name")?))?;
    }
    fs::rename(&out, &folder).with_context(|| format!("cannot name {}", folder.display()))?;
    Ok(folder)
}

/// The project's own and the headers that they share, sorted.
fn own_sources(own: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(own).with_context(|| format!("cannot read {}", own.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c" || extension == "h") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn copy_needed(from: &Path, to: &Path) -> Result<()> {
    for path in NEEDED {
        let target = to.join(path);
        fs::create_dir_all(target.parent().context("no folder")?)?;
        let mut copy = Command::new("cp");
        run(copy.args(["-a", "--reflink=auto"]).args([from.join(path), target]))?;
    }
    Ok(())
}

/// Upstream's Makefile leaves out what uses io_uring where it does not find the library.
fn check_liburing(mm: &Path) -> Result<()> {
    let path = mm.join("local_config.mk");
    let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
    if !text.contains("-luring") {
        bail!("the selftests found no liburing that links: {HELP}");
    }
    Ok(())
}
