// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's source: a package of Debian's, or a tarball, unpacked once into the cache.

use std::convert::Infallible;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::cache::{Cache, Lock};
use crate::key::hash_of_file;
use crate::tools;
use crate::watch::Interrupted;

/// The release that is built where none is named.
pub const BASE: &str = "6.12";

/// Debian's suite with newer releases than a machine's own suites have.
const BACKPORTS: &str = "trixie-backports";

/// What that suite is signed with.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// What a source takes unpacked, and while it is unpacked.
const NEEDED_BYTES: u64 = 2 << 30;

/// What the folder of a source is called until it is whole.
const UNPACKING: &str = ".unpacking-";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceChoice {
    /// Debian's package of a release, as `6.12`.
    Release(String),
    Tarball(PathBuf),
}

impl FromStr for SourceChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<SourceChoice, Infallible> {
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let is_release =
            text.split_once('.').is_some_and(|(one, two)| is_number(one) && is_number(two));
        Ok(match is_release {
            true => SourceChoice::Release(text.to_owned()),
            false => SourceChoice::Tarball(text.into()),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its name in the cache: version and beginning of the tarball's hash.
    pub id: String,
    /// The version that its Makefile gives: `6.12.117`.
    pub version: String,
    /// Debian's version of the package, where it came as one.
    pub package: Option<String>,
    pub sha256: String,
}

impl Source {
    /// The unpacked source, which nobody writes to.
    pub fn tree(&self, cache: &Cache) -> PathBuf {
        cache.root().join("source").join(&self.id).join("tree")
    }

    /// Its release: `6.12` of `6.12.117`.
    pub fn release(&self) -> &str {
        let end = self.version.match_indices('.').nth(1).map(|(at, _)| at);
        &self.version[..end.unwrap_or(self.version.len())]
    }

    /// The source of `release` that was fetched last.
    pub fn current(cache: &Cache, release: &str) -> Option<Source> {
        let id =
            fs::read_to_string(cache.root().join("source").join(current_name(release))).ok()?;
        Source::read(cache, id.trim()).filter(|source| source.release() == release)
    }

    /// The source that is meant, got into the cache if need be: [`BASE`] if none is named.
    pub fn find(
        cache: &Cache,
        choice: Option<&SourceChoice>,
        say: &dyn Fn(&str),
    ) -> Result<Source> {
        let release = match choice {
            None => BASE,
            Some(SourceChoice::Release(release)) => release,
            Some(SourceChoice::Tarball(tarball)) => {
                let _lock = lock(cache, say)?;
                return unpack(cache, tarball, None, say);
            }
        };
        match Source::current(cache, release) {
            Some(source) => Ok(source),
            None => fetch(cache, release, say),
        }
    }

    fn read(cache: &Cache, id: &str) -> Option<Source> {
        let folder = cache.root().join("source").join(id);
        let text = fs::read(folder.join("source.json")).ok()?;
        let source: Source = serde_json::from_slice(&text).ok()?;
        // One that was never named is not where its tree is looked for.
        (source.id == id && folder.join("tree/Makefile").is_file()).then_some(source)
    }
}

/// The file that names the source of `release` that was fetched last.
fn current_name(release: &str) -> String {
    if release == BASE { "current".to_owned() } else { format!("current-{release}") }
}

fn lock(cache: &Cache, say: &dyn Fn(&str)) -> Result<Lock> {
    cache.lock("source", || say("another cowlab fetches a source: waiting"))
}

/// Get Debian's newest source of a release, or where that cannot be had, the cached one.
pub fn fetch(cache: &Cache, release: &str, say: &dyn Fn(&str)) -> Result<Source> {
    let _lock = lock(cache, say)?;
    let known = Source::current(cache, release);
    let source = match newest(cache, release, known.as_ref(), say) {
        Ok(source) => source,
        Err(error) => return fall_back(error, known, say),
    };
    let current = cache.root().join("source").join(current_name(release));
    fs::write(&current, &source.id)
        .with_context(|| format!("cannot write {}", current.display()))?;
    Ok(source)
}

/// The cached source, where no newer one could be had; not where somebody wanted an end.
fn fall_back(error: Error, known: Option<Source>, say: &dyn Fn(&str)) -> Result<Source> {
    match known {
        Some(source) if !error.is::<Interrupted>() => {
            say(&format!("{error:#}; the cached {} is used", source.id));
            Ok(source)
        }
        _ => Err(error),
    }
}

fn newest(
    cache: &Cache,
    release: &str,
    known: Option<&Source>,
    say: &dyn Fn(&str),
) -> Result<Source> {
    let name = format!("linux-source-{release}");
    let scratch = tempfile::tempdir_in(cache.root()).context("cannot write to the cache")?;
    let (candidate, apt) = candidate(&name, scratch.path())?;
    if let Some(source) = known.filter(|source| source.package.as_ref() == Some(&candidate)) {
        return Ok(source.clone());
    }
    say(&format!("downloading {name} {candidate}"));
    let package = format!("{name}={candidate}");
    run(apt.command("apt-get").arg("download").arg(package).current_dir(&scratch))?;
    let packages = fs::read_dir(&scratch)?.filter_map(|entry| Some(entry.ok()?.path()));
    let package = packages
        .into_iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no package")?;
    let content = scratch.path().join("content");
    run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&content))?;
    unpack(cache, &content.join(format!("usr/src/{name}.tar.xz")), Some(candidate), say)
}

/// The version that apt would take, and the apt that would: this machine's, or one that reads the
/// backports, in `scratch`.
fn candidate(name: &str, scratch: &Path) -> Result<(String, Apt)> {
    let own = Apt::default();
    if let Some(version) = own.candidate(name)? {
        return Ok((version, own));
    }
    let of_backports = || -> Result<(String, Apt)> {
        let apt = Apt::of_backports(scratch)?;
        let version = apt.candidate(name)?;
        Ok((version.with_context(|| format!("nor does Debian's {BACKPORTS}"))?, apt))
    };
    of_backports().with_context(|| {
        format!(
            "apt knows no {name}: {}, or give a kernel's tarball with --source FILE",
            tools::HELP
        )
    })
}

/// apt as this user, with options.
#[derive(Default)]
struct Apt(Vec<String>);

impl Apt {
    /// One with lists of its own, in `scratch`: the machine's apt goes without this suite.
    fn of_backports(scratch: &Path) -> Result<Apt> {
        let at = |name: &str| scratch.join(name).display().to_string();
        for folder in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(scratch.join(folder))?;
        }
        let list = format!("deb [signed-by={KEYRING}] {} {BACKPORTS} main\n", archive()?);
        fs::write(scratch.join("sources.list"), list)?;
        let apt = Apt(vec![
            format!("Dir::Etc::sourcelist={}", at("sources.list")),
            "Dir::Etc::sourceparts=-".to_owned(),
            format!("Dir::State::lists={}", at("lists")),
            format!("Dir::Cache={}", at("cache")),
        ]);
        // A suite that cannot be read is an error, not a warning.
        run(apt.command("apt-get").args(["-o", "APT::Update::Error-Mode=any", "-qq", "update"]))?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        // As root, apt would download as a user who may not write here.
        command.args(["-o", "APT::Sandbox::User="]).env("LC_ALL", "C");
        for option in &self.0 {
            command.args(["-o", option]);
        }
        command
    }

    fn candidate(&self, name: &str) -> Result<Option<String>> {
        let said = run(self.command("apt-cache").args(["policy", name]))?;
        let version = said.lines().find_map(|line| line.trim().strip_prefix("Candidate: "));
        Ok(version.filter(|version| *version != "(none)").map(str::to_owned))
    }
}

/// Where this machine gets Debian's packages: all suites are there.
fn archive() -> Result<String> {
    let said = run(Apt::default().command("apt-get").args([
        "indextargets",
        "--format",
        "$(LABEL)|$(REPO_URI)",
    ]))?;
    let archive = said.lines().find_map(|line| line.strip_prefix("Debian|"));
    Ok(archive.context("none of this machine's package lists is of Debian's archive")?.to_owned())
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

    fn find(cache: &Cache, choice: &SourceChoice) -> Source {
        Source::find(cache, Some(choice), &|_| {}).unwrap()
    }

    #[test]
    fn a_tarball_is_unpacked_once_and_its_version_known() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(&folder.path().join("cache"))).unwrap();
        let makefile = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\nEXTRAVERSION = -x\n";
        let path = tarball(folder.path(), makefile);
        let choice = SourceChoice::Tarball(path);
        let first = find(&cache, &choice);
        assert_eq!(first.version, "6.12.117-x");
        assert_eq!(first.id, format!("6.12.117-x-{}", &first.sha256[..8]));
        assert!(first.tree(&cache).join("Makefile").is_file());
        // The child of another test has the lock as well until it has executed its program.
        let nothing_done = |what: &str| assert!(what.contains("waiting"), "{what}");
        assert_eq!(Source::find(&cache, Some(&choice), &nothing_done).unwrap(), first);
        // A tarball that is built once is not what others get.
        assert_eq!(Source::current(&cache, "6.12"), None);
    }

    #[test]
    fn each_release_has_a_source_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(&folder.path().join("cache"))).unwrap();
        let source = |version: u32, patch: u32| {
            let makefile = format!("VERSION = {version}\nPATCHLEVEL = {patch}\nSUBLEVEL = 4\n");
            let own = folder.path().join(format!("{version}.{patch}"));
            find(&cache, &SourceChoice::Tarball(tarball(&own, &makefile)))
        };
        let (old, new) = (source(6, 12), source(7, 3));
        assert_eq!((old.release(), new.release()), ("6.12", "7.3"));
        let is_current = |name: &str, source: &Source| {
            fs::write(cache.root().join("source").join(name), &source.id).unwrap();
        };
        is_current("current", &old);
        is_current("current-7.3", &new);
        assert_eq!(Source::find(&cache, None, &|_| {}).unwrap(), old);
        assert_eq!(find(&cache, &"7.3".parse().unwrap()), new);
        assert_eq!(find(&cache, &"6.12".parse().unwrap()), old);
        is_current("current", &new);
        assert_eq!(Source::current(&cache, "6.12"), None);
    }

    #[test]
    fn a_release_is_two_numbers_and_all_else_a_file() {
        let of = |text: &str| text.parse::<SourceChoice>().unwrap();
        assert_eq!(of("7.3"), SourceChoice::Release("7.3".to_owned()));
        for file in ["./7.3", "7.3.4", "7.", "7.3-rc1", "linux.tar.xz"] {
            assert_eq!(of(file), SourceChoice::Tarball(file.into()));
        }
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
        let say = |what: &str| assert!(what.ends_with("the cached 6.12.1-0 is used"), "{what}");
        assert_eq!(fall_back(shell("exit 100"), Some(source.clone()), &say).unwrap(), source);
        // Not INT, which whoever runs this in the background may have ignored.
        let error = shell("kill -TERM $$").context("more");
        assert!(fall_back(error, Some(source), &say).unwrap_err().is::<Interrupted>());
    }

    #[test]
    fn what_was_left_while_it_was_unpacked_is_no_source() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(&folder.path().join("cache"))).unwrap();
        let makefile = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\n";
        let choice = SourceChoice::Tarball(tarball(folder.path(), makefile));
        let source = find(&cache, &choice);
        let all = cache.root().join("source");
        let left = all.join(".unpacking-x");
        fs::rename(all.join(&source.id), &left).unwrap();
        assert_eq!(Source::read(&cache, ".unpacking-x"), None);
        assert_eq!(find(&cache, &choice), source);
        assert!(source.tree(&cache).join("Makefile").is_file() && !left.exists());
    }

    #[test]
    fn what_is_no_kernel_is_refused_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(&folder.path().join("cache"))).unwrap();
        let path = tarball(folder.path(), "all:\n");
        let choice = SourceChoice::Tarball(path.clone());
        let refused = || Source::find(&cache, Some(&choice), &|_| {}).unwrap_err();
        let error = format!("{:#}", refused());
        assert!(error.contains("no kernel's source: no VERSION"), "{error}");
        fs::write(&path, "no archive").unwrap();
        let error = format!("{:#}", refused());
        assert!(error.contains("cannot unpack"), "{error}");
        assert_eq!(fs::read_dir(cache.root().join("source")).unwrap().count(), 0);
    }
}
