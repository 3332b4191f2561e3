// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run on disk: written under a temporary name and renamed, so that what looks whole is whole.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cowlab_schema::running;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::file::damaged;
use crate::{Environment, Missing, Sample, TEXT_BYTES, read_text, redacted, samples};

/// The version of the run format that this program writes and reads.
pub const FORMAT: u32 = 1;

/// The host's name in a run that is given away.
pub const WITHHELD: &str = "withheld";

/// What `run.json` holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Version of the format: [`FORMAT`].
    pub format: u32,
    /// The verb, or verb and bench: `study`, `bench-cow-faults`.
    pub name: String,
    /// The command line, without secrets as far as they can be told.
    pub command: Vec<String>,
    pub version: String,
    /// Seed of every random choice in the run.
    pub seed: u64,
    /// When the run began (RFC 3339, UTC).
    pub started: Timestamp,
    /// How long it took, in seconds; absent while it runs.
    pub duration_s: Option<f64>,
    /// The machines and kernels that samples refer to.
    pub environments: Vec<Environment>,
    /// What could not be measured, and why.
    #[serde(default)]
    pub missing: Vec<Missing>,
}

impl RunInfo {
    pub fn begin(name: &str, seed: u64, environment: Environment) -> Self {
        RunInfo {
            format: FORMAT,
            name: name.to_owned(),
            command: redacted(std::env::args()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed,
            started: Timestamp::now(),
            duration_s: None,
            environments: vec![environment],
            missing: Vec::new(),
        }
    }
}

/// Parse the JSON `text` of the file `path`, whose `format` must be [`FORMAT`].
pub fn parse<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T> {
    #[derive(Deserialize)]
    struct Versioned {
        format: u32,
    }
    let foreign = || damaged(path);
    let versioned: Versioned = serde_json::from_str(text).with_context(foreign)?;
    if versioned.format != FORMAT {
        bail!(
            "{} has format {}, this cowlab reads format {FORMAT}: use the cowlab that wrote it",
            path.display(),
            versioned.format
        );
    }
    serde_json::from_str(text).with_context(foreign)
}

#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Everything but the samples.
    pub info: RunInfo,
    pub samples: Vec<Sample>,
}

impl Run {
    /// Read the run in `folder`. Errors name the file at fault and what is wrong with it.
    pub fn read(folder: &Path) -> Result<Run> {
        if !folder.exists() {
            let folder = folder.display();
            bail!("there is no {folder}: runs are below runs/, or where --output said");
        }
        let path = folder.join("run.json");
        let text = read_text(&path, TEXT_BYTES).with_context(|| {
            format!(
                "{} is not a run of cowlab (a folder below runs/): cannot read its run.json",
                folder.display()
            )
        })?;
        let info: RunInfo = parse(&text, &path)?;
        // Figures are divided by it.
        if let Some(of) = info.environments.iter().find(|of| !of.page_size_bytes.is_power_of_two())
        {
            let size = of.page_size_bytes;
            bail!("{} is damaged: pages of {size} bytes, which is no power of two", path.display());
        }
        let samples = samples::read(folder)?;
        Ok(Run { info, samples })
    }

    /// The same without the host's name, the command line and the names of programs that ran beside, to be
    /// given away.
    pub fn without_names(mut self) -> Run {
        self.info.command.clear();
        for environment in &mut self.info.environments {
            environment.host = WITHHELD.to_owned();
        }
        for beside in self.samples.iter_mut().filter(|of| of.bench == running::BENCH.name) {
            running::NAME.put(&mut beside.params, WITHHELD);
        }
        self
    }
}

/// A run folder that is being written. Dropped before [`RunFolder::commit`], it leaves nothing.
pub struct RunFolder {
    parent: PathBuf,
    name: String,
    temporary: TempDir,
    /// Locked as long as its writer lives.
    _is_written: File,
}

const UNFINISHED: &str = ".unfinished-";
/// A younger one may be about to be locked.
const LEAST_AGE: Duration = Duration::from_secs(60);

/// Removes what runs left in `parent` that were killed before they had kept anything; one with samples stays.
fn remove_abandoned(parent: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_old = |facts: &fs::Metadata| {
            facts.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > LEAST_AGE))
        };
        let is_its = entry.file_name().to_string_lossy().starts_with(UNFINISHED)
            && entry.metadata().is_ok_and(|of| of.is_dir() && of.uid() == own && is_old(&of))
            && !path.join("run.json").exists();
        let is_abandoned = || File::open(&path).is_ok_and(|folder| folder.try_lock().is_ok());
        if is_its && is_abandoned() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

impl RunFolder {
    /// Begin a folder with that path, which must not be there yet.
    pub fn create_at(path: &Path) -> Result<RunFolder> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            bail!("{} cannot be the name of a new folder", path.display());
        };
        if path.symlink_metadata().is_ok() {
            bail!("{} is there already: choose a new folder", path.display());
        }
        // What has no folder is in this one.
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        RunFolder::named(parent, name.to_string_lossy().into_owned())
    }

    /// Begin a folder in `parent`, which is created if need be. Fails at once where nothing can
    /// be written, before any time is spent on measuring.
    pub fn create(parent: &Path, info: &RunInfo) -> Result<RunFolder> {
        let name = format!("{}-{}", info.started.strftime("%Y%m%dT%H%M%SZ"), info.name);
        RunFolder::named(parent, name)
    }

    fn named(parent: &Path, name: String) -> Result<RunFolder> {
        let unwritable = || {
            format!(
                "cannot write a run into {}: choose another folder with --output",
                parent.display()
            )
        };
        fs::create_dir_all(parent).with_context(unwritable)?;
        remove_abandoned(parent);
        let temporary = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(parent)
            .with_context(unwritable)?;
        let is_written = File::open(temporary.path()).with_context(unwritable)?;
        // Where the file system has no locks, nothing of it is ever removed by another run.
        let _ = is_written.try_lock();
        Ok(RunFolder { parent: parent.to_owned(), name, temporary, _is_written: is_written })
    }

    /// Write one file of the run. A full disk is an error here, never a short file.
    pub fn write(&self, file: &str, contents: &[u8]) -> Result<()> {
        let path = self.temporary.path().join(file);
        let failed = || {
            format!("cannot write {file} of the run in {}: nothing was kept", self.parent.display())
        };
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(failed)?;
        }
        // What is written again is whole at any moment: this program may be killed at any.
        let part = self.temporary.path().join(format!("{file}.part"));
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut out = options.open(&part).with_context(failed)?;
        out.write_all(contents).with_context(failed)?;
        out.sync_all().with_context(failed)?;
        fs::rename(&part, &path).with_context(failed)
    }

    /// Write `run.json` and the samples. May be called again when there are more samples.
    pub fn write_run(&self, run: &Run) -> Result<()> {
        self.write(samples::SAMPLES_FILE, &samples::encode(&run.samples)?)?;
        self.write("run.json", &serde_json::to_vec_pretty(&run.info)?)
    }

    /// Give the folder its name. It is whole from here on, also after a loss of power, and its
    /// owner's alone: it says what was run where.
    pub fn commit(self) -> Result<PathBuf> {
        self.commit_as(0o700)
    }

    /// The same, with a mode.
    pub fn commit_as(self, mode: u32) -> Result<PathBuf> {
        let mut target = self.parent.join(&self.name);
        let mut attempt = 1;
        while target.exists() {
            attempt += 1;
            target = self.parent.join(format!("{}-{attempt}", self.name));
        }
        let failed = || format!("cannot name the run {}", target.display());
        finish(self.temporary.path(), mode).with_context(failed)?;
        fs::rename(self.temporary.path(), &target).with_context(failed)?;
        let _renamed = self.temporary.keep();
        sync_folder(&self.parent).with_context(failed)?;
        Ok(target)
    }
}

/// Gives a folder and all in it their mode, and has the disk know which files are there.
fn finish(folder: &Path, mode: u32) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => finish(&entry.path(), mode)?,
            false => {
                fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode & 0o666))?;
            }
        }
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(mode))?;
    sync_folder(folder)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // A file system that keeps no folders on a disk, such as one that others serve.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Accelerator;

    fn info() -> RunInfo {
        let environment = Environment {
            host: "h".into(),
            architecture: "x86_64".into(),
            cpu_model: None,
            cpus: 2,
            hypervisor: None,
            kernel: "6.12".into(),
            page_size_bytes: 4096,
            memory_bytes: None,
            thp_size_bytes: None,
            thp: None,
            mthp: Default::default(),
            mitigations: Default::default(),
            overcommit_memory: None,
            clocksource: None,
            load_average: None,
            accelerator: Accelerator::Native,
            build: None,
        };
        RunInfo::begin("study", 1, environment)
    }

    #[test]
    fn a_run_is_read_as_it_was_written() {
        let parent = tempfile::tempdir().unwrap();
        let run = Run { info: info(), samples: Vec::new() };
        let folder = RunFolder::create(parent.path(), &run.info).unwrap();
        folder.write_run(&run).unwrap();
        folder.write("tables/a.csv", b"a\n").unwrap();
        let first = folder.commit().unwrap();
        assert_eq!(Run::read(&first).unwrap(), run);
        let mode = |folder: &Path| fs::metadata(folder).unwrap().permissions().mode() & 0o777;
        let file = first.join("tables/a.csv");
        assert_eq!(
            (mode(&first), mode(&file), mode(file.parent().unwrap())),
            (0o700, 0o600, 0o700)
        );
        // A second run within the same second gets a name of its own.
        let again = RunFolder::create(parent.path(), &run.info).unwrap();
        again.write_run(&run).unwrap();
        assert_ne!(again.commit().unwrap(), first);
        // A copy to give away is where it was wanted, or nowhere.
        let given = RunFolder::create_at(&parent.path().join("given")).unwrap();
        given.write_run(&run.clone().without_names()).unwrap();
        let given = given.commit_as(0o755).unwrap();
        assert_eq!((given.file_name().unwrap(), mode(&given)), ("given".as_ref(), 0o755));
        assert_eq!(mode(&given.join("run.json")), 0o644);
        let read = Run::read(&given).unwrap().info;
        assert_eq!((read.command.len(), read.environments[0].host.as_str()), (0, WITHHELD));
        for taken in ["given", ".."] {
            assert!(RunFolder::create_at(&parent.path().join(taken)).is_err(), "{taken}");
        }
    }

    #[test]
    fn a_run_that_was_not_committed_leaves_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), &info()).unwrap();
        folder.write("run.json", b"{}").unwrap();
        drop(folder);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_run_left_is_removed_by_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let [written, killed, young, kept] =
            [(); 4].map(|()| RunFolder::create(parent.path(), &info()).unwrap());
        written.write("samples", b"1").unwrap();
        kept.write("run.json", b"{}").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(written.temporary.path()), 0o700);
        assert_eq!(mode(&written.temporary.path().join("samples")), 0o600);
        let old = std::time::SystemTime::now() - 2 * LEAST_AGE;
        let paths = [&written, &killed, &young, &kept].map(|of| of.temporary.path().to_owned());
        for path in [&paths[0], &paths[1], &paths[3]] {
            File::open(path).unwrap().set_modified(old).unwrap();
        }
        // As SIGKILL does: the lock goes, and the folder stays.
        for mut of in [killed, young, kept] {
            of.temporary.disable_cleanup(true);
        }
        RunFolder::create(parent.path(), &info()).unwrap();
        assert_eq!(paths.map(|path| path.exists()), [true, false, true, true]);
    }

    #[test]
    fn foreign_and_cut_folders_are_refused_with_a_reason() {
        let parent = tempfile::tempdir().unwrap();
        let nowhere = Run::read(&parent.path().join("nowhere")).unwrap_err().to_string();
        assert!(nowhere.starts_with("there is no ") && nowhere.contains("--output"), "{nowhere}");
        let missing = Run::read(parent.path()).unwrap_err();
        assert!(format!("{missing:#}").contains("not a run of cowlab"));
        for (text, expected) in [
            ("", "cut, damaged or foreign"),
            ("{\"format\":1", "cut, damaged or foreign"),
            ("{\"format\":2}", "has format 2"),
            ("{\"format\":1}", "cut, damaged or foreign"),
        ] {
            fs::write(parent.path().join("run.json"), text).unwrap();
            let error = format!("{:#}", Run::read(parent.path()).unwrap_err());
            assert!(error.contains(expected), "{text:?} gave {error}");
        }
        let mut info = info();
        info.environments[0].page_size_bytes = 0;
        fs::write(parent.path().join("run.json"), serde_json::to_vec(&info).unwrap()).unwrap();
        let error = Run::read(parent.path()).unwrap_err().to_string();
        assert!(error.contains("pages of 0 bytes"), "{error}");
    }
}
