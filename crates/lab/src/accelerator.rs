// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who executes a guest's instructions: KVM where it does so, else QEMU's TCG.
//!
//! That /dev/kvm opens says little: in some virtual machines it opens, makes a machine, and then
//! never gets anywhere. So a guest whose boot sector ends it is tried, on the CPU that guests get.

use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cowlab_store::Accelerator;

use crate::qemu;
use crate::tools;

/// A guest that runs at all ends within milliseconds.
const LIMIT: Duration = Duration::from_secs(5);

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

/// What became of the tiny guest under KVM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// It ran and ended.
    Ran,
    /// There is no KVM for this user, and why.
    Unusable(String),
    /// It did not end in time.
    Hung,
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
        Trial::Hung => {
            format!("a tiny guest did not end within {} s", LIMIT.as_secs())
        }
    };
    if wanted == AcceleratorChoice::Kvm {
        bail!("KVM runs no guest here: {why_not}; --guest accelerator=tcg emulates");
    }
    Ok((Accelerator::Tcg, format!("TCG, emulated: KVM runs no guest here ({why_not})")))
}

/// Try KVM, once in the life of this process.
pub fn try_kvm() -> Result<Trial> {
    static TRIED: OnceLock<Trial> = OnceLock::new();
    if let Some(trial) = TRIED.get() {
        return Ok(trial.clone());
    }
    let trial = run_tiny()?;
    Ok(TRIED.get_or_init(|| trial).clone())
}

fn run_tiny() -> Result<Trial> {
    if let Err(error) = std::fs::File::options().read(true).write(true).open("/dev/kvm") {
        return Ok(Trial::Unusable(format!("/dev/kvm: {error}")));
    }
    run_under(qemu::KVM)
}

/// Run the tiny guest on the CPU and the machine that `how` says.
fn run_under(how: &str) -> Result<Trial> {
    let folder = tempfile::tempdir().context("cannot make a folder for the tiny guest")?;
    let disk = folder.path().join("disk");
    std::fs::write(&disk, tiny_disk()).context("cannot write the tiny guest")?;
    let mut child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", qemu::PROGRAM, "-nodefaults", "-no-user-config"])
        .args(how.split_whitespace())
        .args(["-display", "none", "-m", "16M", "-smp", "2", "-no-reboot"])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=1", "-drive"])
        .arg(format!("if=ide,format=raw,readonly=off,file={}", disk.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run setpriv and QEMU: {}", tools::HELP))?;
    let began = Instant::now();
    while began.elapsed() < LIMIT {
        if let Some(status) = child.try_wait()? {
            let said = std::io::read_to_string(child.stderr.take().context("no stderr")?)?;
            return Ok(judge(status, &said));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // A QEMU that hangs in the kernel takes KILL alone.
    child.kill()?;
    child.wait()?;
    Ok(Trial::Hung)
}

fn judge(status: ExitStatus, said: &str) -> Trial {
    if status.code() == Some(STATUS) {
        return Trial::Ran;
    }
    let first = said.lines().find(|line| !line.contains("warning:")).unwrap_or("it said nothing");
    let prefix = format!("{}: ", qemu::PROGRAM);
    let first = first.trim_start_matches(&prefix).trim_start_matches("error: ");
    Trial::Unusable(format!("QEMU: {first}, {status}"))
}

/// A disk whose boot sector ends the guest: mov $0xf4, %dx; mov $WRITTEN, %al; out %al, %dx; hlt.
///
/// The firmware that loads it uses more of a CPU than these do: protected mode, interrupts, port
/// I/O. Where KVM only half works, real-mode instructions alone may run.
fn tiny_disk() -> Vec<u8> {
    let mut bytes = vec![0xf4; 1 << 20];
    bytes[..6].copy_from_slice(&[0xba, 0xf4, 0x00, 0xb0, WRITTEN, 0xee]);
    bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn kvm_is_taken_only_where_a_guest_ran() {
        let decide = |wanted, trial: Trial| decide(wanted, || Ok(trial));
        assert_eq!(decide(AcceleratorChoice::Auto, Trial::Ran).unwrap().0, Accelerator::Kvm);
        for trial in [Trial::Hung, Trial::Unusable("/dev/kvm: no such file".into())] {
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
        assert_eq!(run_under(qemu::TCG).unwrap(), Trial::Ran);
    }

    #[test]
    fn only_the_tiny_guests_own_status_counts() {
        assert_eq!(judge(ExitStatus::from_raw(33 << 8), ""), Trial::Ran);
        assert!(matches!(judge(ExitStatus::from_raw(0), ""), Trial::Unusable(_)));
        let Trial::Unusable(why) = judge(ExitStatus::from_raw(1 << 8), "warning: x\nno KVM\n")
        else {
            panic!()
        };
        assert!(why.starts_with("QEMU: no KVM, "), "{why}");
    }
}
