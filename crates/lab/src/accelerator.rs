// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who executes a guest's instructions: KVM where it does so, else QEMU's TCG.
//!
//! That /dev/kvm opens says little: in some virtual machines it opens, makes a machine, and then never gets anywhere;
//! in others the firmware runs, and Linux does not. So a kernel is booted, on the CPU that guests get, until it finds
//! no root file system.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cowlab_store::Accelerator;

use crate::cache::Cache;
use crate::qemu;
use crate::tools;

/// Linux takes one to two seconds to find that it has no root file system.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AcceleratorChoice {
    /// KVM where it runs a guest, else TCG.
    #[default]
    Auto,
    Kvm,
    /// TCG, also where KVM would work.
    Tcg,
    /// TCG on one CPU, with a clock that ticks once an instruction.
    Icount,
}

/// What became of a guest under KVM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    Ran,
    /// There is no KVM for this user, and why.
    Unusable(String),
}

/// The accelerator, and for people why it is that one. Fails if KVM is asked for where it does not
/// run a guest.
pub fn decide(
    wanted: AcceleratorChoice,
    trial: impl FnOnce() -> Result<Trial>,
) -> Result<(Accelerator, String)> {
    match wanted {
        AcceleratorChoice::Tcg => return Ok((Accelerator::Tcg, "TCG, as asked".to_owned())),
        AcceleratorChoice::Icount => {
            let why = "TCG, with a clock that ticks once an instruction (icount), as asked";
            return Ok((Accelerator::Icount, why.to_owned()));
        }
        AcceleratorChoice::Auto | AcceleratorChoice::Kvm => {}
    }
    let why_not = match trial()? {
        Trial::Ran => return Ok((Accelerator::Kvm, "KVM".to_owned())),
        Trial::Unusable(why) => why,
    };
    if wanted == AcceleratorChoice::Kvm {
        bail!("KVM runs no guest here: {why_not}; --guest accelerator=tcg emulates");
    }
    Ok((Accelerator::Tcg, format!("TCG, emulated: KVM runs no guest here ({why_not})")))
}

/// Try KVM with an `image` of Linux, once in the life of this process. That it does not run is kept in `cache` until
/// the machine boots: it takes long to see.
pub fn try_kvm(cache: &Cache, image: impl FnOnce() -> Result<PathBuf>) -> Result<Trial> {
    static TRIED: OnceLock<Trial> = OnceLock::new();
    if let Some(trial) = TRIED.get() {
        return Ok(trial.clone());
    }
    if let Err(error) = File::options().read(true).write(true).open("/dev/kvm") {
        return Ok(Trial::Unusable(format!("/dev/kvm: {error}")));
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let known = cache.folder("kvm")?.join(format!("fails-{}", boot.trim()));
    let trial = match fs::read_to_string(&known) {
        Ok(why) => Trial::Unusable(why),
        Err(_) => run_linux(qemu::KVM, &image()?)?,
    };
    if let Trial::Unusable(why) = &trial {
        fs::write(&known, why).context("cannot keep that KVM runs no Linux")?;
    }
    Ok(TRIED.get_or_init(|| trial).clone())
}

/// Boot Linux without a root file system.
fn run_linux(how: &str, image: &Path) -> Result<Trial> {
    let folder = tempfile::tempdir().context("cannot make a folder for the guest")?;
    let log = folder.path().join("log");
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", qemu::PROGRAM, "-nodefaults", "-no-user-config"])
        .args(how.split_whitespace())
        .args(["-display", "none", "-m", "256M", "-smp", "2", "-no-reboot"])
        .args(["-append", "console=ttyS0 panic=-1 reboot=t", "-kernel"])
        .arg(image)
        .args(["-serial", &format!("file:{}", log.display())]);
    run(command, folder.path(), LIMIT, || {
        let log = fs::read(&log).unwrap_or_default();
        String::from_utf8_lossy(&log).contains("Unable to mount root fs")
    })
}

/// Run a guest; `ran` says whether it did what it should, when QEMU has ended.
fn run(
    mut command: Command,
    folder: &Path,
    limit: Duration,
    ran: impl Fn() -> bool,
) -> Result<Trial> {
    let said = folder.join("said");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&said).context("cannot write what QEMU says")?)
        .spawn()
        .with_context(|| format!("cannot run setpriv and QEMU: {}", tools::HELP))?;
    let began = Instant::now();
    while began.elapsed() < limit {
        let ended = child.try_wait()?;
        let said = fs::read_to_string(&said).unwrap_or_default();
        match ended {
            Some(_) if ran() => return Ok(Trial::Ran),
            Some(status) => return Ok(unusable(&said, &status.to_string())),
            // QEMU pauses the guest and never ends.
            None if said.contains("KVM internal error") => {
                child.kill()?;
                child.wait()?;
                return Ok(unusable(&said, "while Linux booted"));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    // A QEMU that hangs in the kernel takes KILL alone.
    child.kill()?;
    child.wait()?;
    Ok(Trial::Unusable(format!("a guest did not end within {} s", limit.as_secs())))
}

fn unusable(said: &str, how: &str) -> Trial {
    let first = said.lines().find(|line| !line.contains("warning:")).unwrap_or("it said nothing");
    let prefix = format!("{}: ", qemu::PROGRAM);
    let first = first.trim_start_matches(&prefix).trim_start_matches("error: ");
    Trial::Unusable(format!("QEMU: {first}, {how}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kvm_is_taken_only_where_a_guest_ran() {
        let decide = |wanted, trial: Trial| decide(wanted, || Ok(trial));
        assert_eq!(decide(AcceleratorChoice::Auto, Trial::Ran).unwrap().0, Accelerator::Kvm);
        let trial = Trial::Unusable("/dev/kvm: no such file".into());
        let (accelerator, why) = decide(AcceleratorChoice::Auto, trial.clone()).unwrap();
        assert_eq!(accelerator, Accelerator::Tcg);
        assert!(why.contains("no such file"), "{why}");
        let error = decide(AcceleratorChoice::Kvm, trial).unwrap_err().to_string();
        assert!(error.contains("--guest accelerator=tcg"), "{error}");
    }

    #[test]
    fn tcg_is_not_tried() {
        let (accelerator, _) = decide(AcceleratorChoice::Tcg, || panic!("nobody asked")).unwrap();
        assert_eq!(accelerator, Accelerator::Tcg);
        let (accelerator, _) =
            decide(AcceleratorChoice::Icount, || panic!("nobody asked")).unwrap();
        assert_eq!(accelerator, Accelerator::Icount);
    }

    #[test]
    fn only_a_guest_that_did_what_it_should_ran() {
        let folder = tempfile::tempdir().unwrap();
        let of = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).current_dir(folder.path());
            let limit = Duration::from_millis(500);
            run(command, folder.path(), limit, || folder.path().join("ran").exists()).unwrap()
        };
        let refused = |why: &str| Trial::Unusable(why.to_owned());
        assert_eq!(of("exit 0"), refused("QEMU: it said nothing, exit status: 0"));
        let told = of("echo warning: x >&2; echo no KVM >&2; exit 1");
        assert_eq!(told, refused("QEMU: no KVM, exit status: 1"));
        let stopped = of("echo KVM internal error. Suberror: 1 >&2; exec sleep 9");
        assert_eq!(stopped, refused("QEMU: KVM internal error. Suberror: 1, while Linux booted"));
        assert_eq!(of("exec sleep 9"), refused("a guest did not end within 0 s"));
        assert_eq!(of("touch ran"), Trial::Ran);
    }
}
