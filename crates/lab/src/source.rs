// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's source: Debian's package, or a tarball, unpacked once into the cache.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Error, Result, bail};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::cache::Cache;
use crate::key::hash_of_file;
use crate::tools;
use crate::watch::Interrupted;

/// Debian's package of the source.
pub const PACKAGE: &str = "linux-source-6.12";

/// The file in it.
const TARBALL: &str = "usr/src/linux-source-6.12.tar.xz";

/// What a source takes unpacked, and while it is unpacked.
const NEEDED_BYTES: u64 = 2 << 30;

/// What the folder of a source is called until it is whole.
const UNPACKING: &str = ".unpacking-";

/// A source in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its name in the cache: version and beginning of the tarball's hash.
    pub id: String,
    /// The version that its Makefile gives: `6.12.117`.
    pub version: String,
    /// Debian's version of the package, where it came as one.
    pub package: Option<String>,
    /// SHA-256 of the tarball.
    pub sha256: String,
}

/// How [`fetch`] got a source, for people.
#[derive(Debug)]
pub struct Fetched {
    /// The source.
    pub source: Source,
    /// What was done, one sentence.
    pub how: String,
}

impl Source {
    /// The unpacked source, which nobody writes to.
    pub fn tree(&self, cache: &Cache) -> PathBuf {
        cache.root().join("source").join(&self.id).join("tree")
    }

    /// The source that was fetched last.
    pub fn current(cache: &Cache) -> Option<Source> {
        let id = fs::read_to_string(cache.root().join("source/current")).ok()?;
        Source::read(cache, id.trim())
    }

    fn read(cache: &Cache, id: &str) -> Option<Source> {
        let folder = cache.root().join("source").join(id);
        let text = fs::read(folder.join("source.json")).ok()?;
        let source: Source = serde_json::from_slice(&text).ok()?;
        // One that was never named is not where its tree is looked for.
        (source.id == id && folder.join("tree/Makefile").is_file()).then_some(source)
    }
}

/// Get Debian's newest source, or unpack `tarball`. `say` is told what takes time.
pub fn fetch(cache: &Cache, tarball: Option<&Path>, say: &dyn Fn(&str)) -> Result<Fetched> {
    let _lock = cache.lock("source", || say("another cowlab fetches a source: waiting"))?;
    if let Some(tarball) = tarball {
        let source = unpack(cache, tarball, None, say)?;
        return Ok(Fetched { how: format!("unpacked {}", tarball.display()), source });
    }
    let current = Source::current(cache).filter(|source| source.package.is_some());
    match newest(cache, current.as_ref(), say) {
        Ok(fetched) => Ok(fetched),
        Err(error) => fall_back(error, current),
    }
}

/// The cached source, where no newer one could be had; not where somebody wanted an end.
fn fall_back(error: Error, current: Option<Source>) -> Result<Fetched> {
    match current {
        Some(source) if !error.is::<Interrupted>() => {
            let how = format!("{error:#}; the cached {} is used", source.id);
            Ok(Fetched { source, how })
        }
        _ => Err(error),
    }
}

fn newest(cache: &Cache, current: Option<&Source>, say: &dyn Fn(&str)) -> Result<Fetched> {
    let candidate = candidate()?;
    if let Some(source) = current.filter(|source| source.package.as_ref() == Some(&candidate)) {
        let how = format!("{PACKAGE} {candidate} is the newest, and cached");
        return Ok(Fetched { source: source.clone(), how });
    }
    if installed().as_ref() == Some(&candidate) {
        let source = unpack(cache, &Path::new("/").join(TARBALL), Some(candidate), say)?;
        return Ok(Fetched { source, how: format!("unpacked the installed {PACKAGE}") });
    }
    let scratch = tempfile::tempdir_in(cache.root()).context("cannot write to the cache")?;
    say(&format!("downloading {PACKAGE} {candidate}"));
    let name = format!("{PACKAGE}={candidate}");
    // As root, apt would download as a user who may not write here.
    let as_self = ["-o", "APT::Sandbox::User="];
    run(Command::new("apt-get").arg("download").args(as_self).arg(name).current_dir(&scratch))?;
    let packages = fs::read_dir(&scratch)?.filter_map(|entry| Some(entry.ok()?.path()));
    let package = packages
        .into_iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no package")?;
    let content = scratch.path().join("content");
    run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&content))?;
    let source = unpack(cache, &content.join(TARBALL), Some(candidate), say)?;
    Ok(Fetched { source, how: format!("downloaded {PACKAGE}") })
}

/// The version that apt would take.
fn candidate() -> Result<String> {
    let said = run(Command::new("apt-cache").args(["policy", PACKAGE]).env("LC_ALL", "C"))?;
    let version = said.lines().find_map(|line| line.trim().strip_prefix("Candidate: "));
    version.filter(|version| *version != "(none)").map(str::to_owned).with_context(|| {
        format!(
            "apt knows no {PACKAGE}: {}, or give a kernel's tarball with --source FILE",
            tools::HELP
        )
    })
}

/// The version that is installed on this machine.
fn installed() -> Option<String> {
    let format = "-f=${db:Status-Status} ${Version}";
    let said = run(Command::new("dpkg-query").args(["-W", format, PACKAGE])).ok()?;
    let version = said.strip_prefix("installed ")?;
    Path::new("/").join(TARBALL).is_file().then(|| version.trim().to_owned())
}

fn unpack(
    cache: &Cache,
    tarball: &Path,
    package: Option<String>,
    say: &dyn Fn(&str),
) -> Result<Source> {
    let sha256 = hash_of_file(tarball)?;
    let all = cache.folder("source")?;
    for entry in fs::read_dir(&all)? {
        let entry = entry?;
        let name = entry.file_name().into_string();
        // Left by a cowlab that was killed: the lock is ours.
        if name.as_ref().is_ok_and(|name| name.starts_with(UNPACKING)) {
            fs::remove_dir_all(entry.path())
                .with_context(|| format!("cannot remove {}", entry.path().display()))?;
            continue;
        }
        let known = name.ok().and_then(|id| Source::read(cache, &id));
        if let Some(source) = known.filter(|source| source.sha256 == sha256) {
            fs::write(all.join("current"), &source.id)?;
            return Ok(source);
        }
    }
    cache.check_space(NEEDED_BYTES, "a kernel's source")?;
    say(&format!("unpacking {}", tarball.display()));
    // Renamed when whole.
    let making = tempfile::Builder::new().prefix(UNPACKING).tempdir_in(&all)?;
    let tree = making.path().join("tree");
    fs::create_dir(&tree)?;
    let mut tar = Command::new("tar");
    tar.args(["--strip-components=1", "--no-same-owner", "-xf"]).arg(tarball).arg("-C").arg(&tree);
    run(&mut tar).with_context(|| format!("cannot unpack {}", tarball.display()))?;
    let version = version_of(&tree)
        .with_context(|| format!("{} holds no kernel's source", tarball.display()))?;
    let id = format!("{version}-{}", &sha256[..8]);
    let source = Source { id, version, package, sha256 };
    fs::write(making.path().join("source.json"), serde_json::to_vec_pretty(&source)?)?;
    let folder = all.join(&source.id);
    if folder.exists() {
        // Damaged, as it was not found above.
        fs::remove_dir_all(&folder)?;
    }
    fs::rename(making.keep(), &folder)?;
    fs::write(all.join("current"), &source.id)?;
    Ok(source)
}

/// The version in the Makefile of `tree`.
fn version_of(tree: &Path) -> Result<String> {
    let text = fs::read_to_string(tree.join("Makefile")).context("no Makefile")?;
    let value = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    let part = |name| value(name).with_context(|| format!("no {name} in its Makefile"));
    let (version, patch, sub) = (part("VERSION")?, part("PATCHLEVEL")?, part("SUBLEVEL")?);
    Ok(format!("{version}.{patch}.{sub}{}", value("EXTRAVERSION").unwrap_or_default()))
}

/// Run a program to its end; what it prints.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {name}: {}", tools::HELP))?;
    // Ctrl-C goes to all that were started: such an end is no answer.
    let ending = [Signal::INT, Signal::TERM].map(|signal| Some(signal.as_raw()));
    if ending.contains(&output.status.signal()) {
        return Err(Interrupted.into());
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(3)..].join("; ");
        bail!("{name} failed ({}): {last}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tarball(folder: &Path, makefile: &str) -> PathBuf {
        let tree = folder.join("linux-x");
        fs::create_dir_all(&tree).unwrap();
        fs::write(tree.join("Makefile"), makefile).unwrap();
        let path = folder.join("x.tar.gz");
        run(Command::new("tar").arg("-czf").arg(&path).arg("-C").arg(folder).arg("linux-x"))
            .unwrap();
        path
    }

    #[test]
    fn a_tarball_is_unpacked_once_and_its_version_known() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(&folder.path().join("cache"))).unwrap();
        let makefile = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\nEXTRAVERSION = -x\n";
        let path = tarball(folder.path(), makefile);
        let first = fetch(&cache, Some(&path), &|_| {}).unwrap().source;
        assert_eq!(first.version, "6.12.117-x");
        assert_eq!(first.id, format!("6.12.117-x-{}", &first.sha256[..8]));
        assert!(first.tree(&cache).join("Makefile").is_file());
        // The child of another test has the lock as well until it has executed its program.
        let nothing_done = |what: &str| assert!(what.contains("waiting"), "{what}");
        let again = fetch(&cache, Some(&path), &nothing_done).unwrap().source;
        assert_eq!(again, first);
        assert_eq!(Source::current(&cache), Some(first));
    }

    #[test]
    fn an_interrupted_program_is_no_reason_to_take_the_cached_source() {
        let source = Source {
            id: "6.12.1-0".to_owned(),
            version: "6.12.1".to_owned(),
            package: None,
            sha256: "0".to_owned(),
        };
        let shell = |text| run(Command::new("sh").args(["-c", text])).unwrap_err();
        let fetched = fall_back(shell("exit 100"), Some(source.clone())).unwrap();
        assert!(fetched.how.ends_with("the cached 6.12.1-0 is used"), "{}", fetched.how);
        // Not INT, which whoever runs this in the background may have ignored.
        let error = shell("kill -TERM $$").context("more");
        assert!(fall_back(error, Some(source)).unwrap_err().is::<Interrupted>());
    }

    #[test]
    fn what_was_left_while_it_was_unpacked_is_no_source() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(&folder.path().join("cache"))).unwrap();
        let makefile = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\n";
        let path = tarball(folder.path(), makefile);
        let source = fetch(&cache, Some(&path), &|_| {}).unwrap().source;
        let all = cache.root().join("source");
        let left = all.join(".unpacking-x");
        fs::rename(all.join(&source.id), &left).unwrap();
        fs::remove_file(all.join("current")).unwrap();
        assert_eq!(Source::read(&cache, ".unpacking-x"), None);
        assert_eq!(fetch(&cache, Some(&path), &|_| {}).unwrap().source, source);
        assert!(source.tree(&cache).join("Makefile").is_file() && !left.exists());
    }

    #[test]
    fn what_is_no_kernel_is_refused_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(&folder.path().join("cache"))).unwrap();
        let path = tarball(folder.path(), "all:\n");
        let error = format!("{:#}", fetch(&cache, Some(&path), &|_| {}).unwrap_err());
        assert!(error.contains("no kernel's source: no VERSION"), "{error}");
        fs::write(&path, "no archive").unwrap();
        let error = format!("{:#}", fetch(&cache, Some(&path), &|_| {}).unwrap_err());
        assert!(error.contains("cannot unpack"), "{error}");
        assert_eq!(fs::read_dir(cache.root().join("source")).unwrap().count(), 0);
        assert_eq!(Source::current(&cache), None);
    }
}
