// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine profile as a file of a run, that others can share.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use cowlab_model::profile::MachineProfile;
use cowlab_schema::Command;
use cowlab_store::{Environment, FORMAT, TEXT_BYTES, read_text};
use serde::{Deserialize, Serialize};

use crate::args::{ProfileArgs, RUNS};

/// The file in a run that holds its machine profile.
pub const PROFILE_FILE: &str = "profile.json";

/// Given for a profile: usual costs, whatever is found here.
const USUAL: &str = "usual";

/// A machine profile with the machine that it is of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProfileFile {
    pub format: u32,
    pub environment: Environment,
    pub profile: MachineProfile,
}

impl ProfileFile {
    pub fn bytes(environment: &Environment, profile: &MachineProfile) -> Result<Vec<u8>> {
        let file = ProfileFile {
            format: FORMAT,
            environment: environment.clone(),
            profile: profile.clone(),
        };
        Ok(serde_json::to_vec_pretty(&file)?)
    }

    /// What the flags name, and where that is: a file, the run that holds it, or the newest run of a
    /// folder. `None` where none was named and there is none.
    pub fn find(args: &ProfileArgs) -> Result<Option<(PathBuf, ProfileFile)>> {
        let path = match &args.profile {
            Some(path) if path == Path::new(USUAL) => return Ok(None),
            Some(path) if path.is_dir() && !path.join(PROFILE_FILE).exists() => newest_run(path)?,
            Some(path) => path.clone(),
            None => match newest_run(Path::new(RUNS)) {
                Ok(run) => run,
                Err(_) => return Ok(None),
            },
        };
        let file = ProfileFile::read(&path)?;
        Ok(Some((path, file)))
    }

    /// Read `path`: the file, or the folder of a run that holds one.
    pub fn read(path: &Path) -> Result<ProfileFile> {
        let file = if path.is_dir() { path.join(PROFILE_FILE) } else { path.to_owned() };
        let text = read_text(&file, TEXT_BYTES).with_context(|| {
            format!(
                "cannot read the machine profile {}: make one with `{}`",
                file.display(),
                Command::Calibrate
            )
        })?;
        let read: ProfileFile = cowlab_store::parse(&text, &file)?;
        if !read.profile.has_page_sizes() {
            bail!("{}: a page size is no power of two: the file is damaged", file.display());
        }
        Ok(read)
    }
}

/// A machine's costs, and whose they are.
pub struct Priced {
    pub profile: MachineProfile,
    /// The machine and the file, or that they are usual costs.
    pub by: String,
}

impl Priced {
    /// By the machine profile that is found, else by usual costs.
    pub fn find(args: &ProfileArgs) -> Result<Priced> {
        Ok(match ProfileFile::find(args)? {
            Some((path, file)) => Priced {
                by: format!(
                    "{}, Linux {}, by {}",
                    file.environment.host,
                    file.environment.kernel,
                    path.display()
                ),
                profile: file.profile,
            },
            None => Priced { profile: MachineProfile::usual(), by: usual_costs() },
        })
    }
}

/// Costs that rest on no calibration.
pub const USUAL_COSTS: &str = "usual costs, within a factor of three";

/// The same, and what to do about it.
fn usual_costs() -> String {
    format!(
        "by {USUAL_COSTS}; `{}` (all CPUs for 2 minutes, at a quiet hour) measures this machine's",
        Command::Calibrate
    )
}

/// The newest run in `folder` that has a profile.
fn newest_run(folder: &Path) -> Result<PathBuf> {
    let runs = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    runs.filter(|run| run.join(PROFILE_FILE).is_file()).max().with_context(|| {
        format!(
            "no run in {} has a machine profile: run `{}`, or give --profile PATH",
            folder.display(),
            Command::Calibrate
        )
    })
}
