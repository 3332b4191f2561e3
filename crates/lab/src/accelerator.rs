// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who executes a guest's instructions: KVM where it does so, else QEMU's TCG.
//!
//! That /dev/kvm opens says little: in some virtual machines it opens, makes a machine, and then
//! never gets anywhere; in others a boot sector runs, and Linux does not. So both are tried, on the CPU
//! that guests get: a guest whose boot sector ends it, then a kernel that finds no root file system.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cowlab_store::Accelerator;

use crate::cache::Cache;
use crate::qemu;
use crate::tools;

/// A guest that runs at all ends within milliseconds.
const LIMIT: Duration = Duration::from_secs(5);

/// Linux takes one to two seconds to find that it has no root file system.
const LINUX_LIMIT: Duration = Duration::from_secs(20);

/// What the tiny guest writes to QEMU's exit device; QEMU's status is twice that and one.
const WRITTEN: u8 = 0x10;
const STATUS: i32 = (WRITTEN as i32) << 1 | 1;

/// What the caller asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AcceleratorChoice {
    /// KVM where it runs a guest, else TCG.
    #[default]
    Auto,
    /// KVM or an error.
    Kvm,
    /// TCG, also where KVM would work.
    Tcg,
    /// TCG on one CPU, with a clock that ticks once an instruction.
    Icount,
}

/// What became of a guest under KVM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// It ran and ended.
    Ran,
    /// There is no KVM for this user, and why.
    Unusable(String),
    /// It did not end in time.
    Hung(Duration),
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
    let Some(why_not) = trial()?.why_not() else {
        return Ok((Accelerator::Kvm, "KVM".to_owned()));
    };
    if wanted == AcceleratorChoice::Kvm {
        bail!("KVM runs no guest here: {why_not}; --guest accelerator=tcg emulates");
    }
    Ok((Accelerator::Tcg, format!("TCG, emulated: KVM runs no guest here ({why_not})")))
}

/// Try KVM, once in the life of this process, with an `image` of Linux if a boot sector runs. That Linux does
/// not run is kept in `cache` until the machine boots: it takes long to see.
pub fn try_kvm(cache: &Cache, image: impl FnOnce() -> Result<PathBuf>) -> Result<Trial> {
    static TRIED: OnceLock<Trial> = OnceLock::new();
    if let Some(trial) = TRIED.get() {
        return Ok(trial.clone());
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let known = cache.folder("kvm")?.join(format!("fails-{}", boot.trim()));
    let trial = match run_tiny()? {
        Trial::Ran if known.is_file() => Trial::Unusable(fs::read_to_string(&known)?),
        Trial::Ran => run_linux(qemu::KVM, &image()?, LINUX_LIMIT)?,
        trial => return Ok(TRIED.get_or_init(|| trial).clone()),
    };
    if let Some(why) = trial.why_not() {
        fs::write(&known, why).context("cannot keep that KVM runs no Linux")?;
    }
    Ok(TRIED.get_or_init(|| trial).clone())
}

impl Trial {
    fn why_not(&self) -> Option<String> {
        match self {
            Trial::Ran => None,
            Trial::Unusable(why) => Some(why.clone()),
            Trial::Hung(limit) => Some(format!("a guest did not end within {} s", limit.as_secs())),
        }
    }
}

fn run_tiny() -> Result<Trial> {
    if let Err(error) = File::options().read(true).write(true).open("/dev/kvm") {
        return Ok(Trial::Unusable(format!("/dev/kvm: {error}")));
    }
    run_sector(qemu::KVM)
}

/// Run the tiny guest on the CPU and the machine that `how` says.
fn run_sector(how: &str) -> Result<Trial> {
    let folder = tempfile::tempdir().context("cannot make a folder for the tiny guest")?;
    let disk = folder.path().join("disk");
    fs::write(&disk, tiny_disk()).context("cannot write the tiny guest")?;
    let drive = format!("if=ide,format=raw,readonly=off,file={}", disk.display());
    let mut command = qemu(how, "16M");
    command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=1", "-drive", &drive]);
    run(command, folder.path(), LIMIT, |status| status.code() == Some(STATUS))
}

/// Boot Linux without a root file system.
fn run_linux(how: &str, image: &Path, limit: Duration) -> Result<Trial> {
    let folder = tempfile::tempdir().context("cannot make a folder for the guest")?;
    let log = folder.path().join("log");
    let mut command = qemu(how, "256M");
    command.args(["-append", "console=ttyS0 panic=-1 reboot=t", "-kernel"]).arg(image);
    command.args(["-serial", &format!("file:{}", log.display())]);
    run(command, folder.path(), limit, |_| {
        let log = fs::read(&log).unwrap_or_default();
        String::from_utf8_lossy(&log).contains("Unable to mount root fs")
    })
}

fn qemu(how: &str, memory: &str) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", qemu::PROGRAM, "-nodefaults", "-no-user-config"])
        .args(how.split_whitespace())
        .args(["-display", "none", "-m", memory, "-smp", "2", "-no-reboot"]);
    command
}

/// Run a guest; `ran` says of the status with which QEMU ended whether it did what it should.
fn run(
    mut command: Command,
    folder: &Path,
    limit: Duration,
    ran: impl Fn(ExitStatus) -> bool,
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
            Some(status) if ran(status) => return Ok(Trial::Ran),
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
    Ok(Trial::Hung(limit))
}

fn unusable(said: &str, how: &str) -> Trial {
    let first = said.lines().find(|line| !line.contains("warning:")).unwrap_or("it said nothing");
    let prefix = format!("{}: ", qemu::PROGRAM);
    let first = first.trim_start_matches(&prefix).trim_start_matches("error: ");
    Trial::Unusable(format!("QEMU: {first}, {how}"))
}

/// A disk whose boot sector ends the guest: mov $0xf4, %dx; mov $WRITTEN, %al; out %al, %dx; hlt.
///
/// The firmware that loads it uses more of a CPU than these do: protected mode, interrupts, port
/// I/O. Where KVM only half works, that much may run.
fn tiny_disk() -> Vec<u8> {
    let mut bytes = vec![0xf4; 1 << 20];
    bytes[..6].copy_from_slice(&[0xba, 0xf4, 0x00, 0xb0, WRITTEN, 0xee]);
    bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kvm_is_taken_only_where_a_guest_ran() {
        let decide = |wanted, trial: Trial| decide(wanted, || Ok(trial));
        assert_eq!(decide(AcceleratorChoice::Auto, Trial::Ran).unwrap().0, Accelerator::Kvm);
        for trial in [Trial::Hung(LIMIT), Trial::Unusable("/dev/kvm: no such file".into())] {
            let (accelerator, why) = decide(AcceleratorChoice::Auto, trial.clone()).unwrap();
            assert_eq!(accelerator, Accelerator::Tcg);
            assert!(why.contains("5 s") || why.contains("no such file"), "{why}");
            let error = decide(AcceleratorChoice::Kvm, trial).unwrap_err().to_string();
            assert!(error.contains("--guest accelerator=tcg"), "{error}");
        }
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
    fn the_tiny_guest_ends_itself() {
        assert!(tools::find(qemu::PROGRAM).is_some(), "needs QEMU: {}", tools::HELP);
        assert_eq!(run_sector(qemu::TCG).unwrap(), Trial::Ran);
    }

    #[test]
    fn only_the_tiny_guests_own_status_counts() {
        let folder = tempfile::tempdir().unwrap();
        let of = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let limit = Duration::from_millis(500);
            run(command, folder.path(), limit, |status| status.code() == Some(STATUS)).unwrap()
        };
        let refused = |why: &str| Trial::Unusable(why.to_owned());
        assert_eq!(of("exit 33"), Trial::Ran);
        assert_eq!(of("exit 0"), refused("QEMU: it said nothing, exit status: 0"));
        let told = of("echo warning: x >&2; echo no KVM >&2; exit 1");
        assert_eq!(told, refused("QEMU: no KVM, exit status: 1"));
        let stopped = of("echo KVM internal error. Suberror: 1 >&2; exec sleep 9");
        assert_eq!(stopped, refused("QEMU: KVM internal error. Suberror: 1, while Linux booted"));
        assert_eq!(of("exec sleep 9"), Trial::Hung(Duration::from_millis(500)));
    }
}
