// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who executes a guest's instructions: KVM where it does so, else QEMU's TCG.
//!
//! That /dev/kvm opens says little: in some virtual machines it opens, makes a machine, and then
//! never runs an instruction. So a guest of 64 KiB, whose first instructions end it, is tried.

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
pub enum Wanted {
    /// KVM where it runs a guest, else TCG.
    #[default]
    Auto,
    /// KVM or an error.
    Kvm,
    /// TCG, also where KVM would work.
    Tcg,
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

/// The accelerator, and for people why it is that one.
///
/// # Errors
/// If KVM is asked for where it does not run a guest.
pub fn decide(
    wanted: Wanted,
    trial: impl FnOnce() -> Result<Trial>,
) -> Result<(Accelerator, String)> {
    if wanted == Wanted::Tcg {
        return Ok((Accelerator::Tcg, "TCG, as asked".to_owned()));
    }
    let why_not = match trial()? {
        Trial::Ran => return Ok((Accelerator::Kvm, "KVM".to_owned())),
        Trial::Unusable(why) => why,
        Trial::Hung => {
            format!("a guest of three instructions did not end within {} s", LIMIT.as_secs())
        }
    };
    if wanted == Wanted::Kvm {
        bail!("KVM runs no guest here: {why_not}; --accelerator tcg emulates");
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
    let folder = tempfile::tempdir().context("cannot make a folder for the tiny guest")?;
    let firmware = folder.path().join("firmware");
    std::fs::write(&firmware, tiny_firmware()).context("cannot write the tiny guest")?;
    let mut child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", qemu::PROGRAM, "-nodefaults", "-no-user-config"])
        .args(["-display", "none", "-machine", "pc,accel=kvm", "-m", "16M", "-no-reboot"])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=1", "-bios"])
        .arg(&firmware)
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
    let last = said.lines().last().unwrap_or("it said nothing");
    Trial::Unusable(format!("QEMU ended with {status}: {last}"))
}

/// 64 KiB below 4 GiB, of which a CPU executes the last 16 bytes first: mov $0xf4, %dx;
/// mov $WRITTEN, %al; out %al, %dx; hlt.
fn tiny_firmware() -> Vec<u8> {
    let mut bytes = vec![0xf4; 64 << 10];
    let start = bytes.len() - 16;
    bytes[start..start + 6].copy_from_slice(&[0xba, 0xf4, 0x00, 0xb0, WRITTEN, 0xee]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn kvm_is_taken_only_where_a_guest_ran() {
        let decide = |wanted, trial: Trial| decide(wanted, || Ok(trial));
        assert_eq!(decide(Wanted::Auto, Trial::Ran).unwrap().0, Accelerator::Kvm);
        for trial in [Trial::Hung, Trial::Unusable("/dev/kvm: no such file".into())] {
            let (accelerator, why) = decide(Wanted::Auto, trial.clone()).unwrap();
            assert_eq!(accelerator, Accelerator::Tcg);
            assert!(why.contains("5 s") || why.contains("no such file"), "{why}");
            let error = decide(Wanted::Kvm, trial).unwrap_err().to_string();
            assert!(error.contains("--accelerator tcg"), "{error}");
        }
    }

    #[test]
    fn tcg_is_not_tried() {
        let (accelerator, _) = decide(Wanted::Tcg, || panic!("nobody asked")).unwrap();
        assert_eq!(accelerator, Accelerator::Tcg);
    }

    #[test]
    fn only_the_tiny_guests_own_status_counts() {
        assert_eq!(judge(ExitStatus::from_raw(33 << 8), ""), Trial::Ran);
        assert!(matches!(judge(ExitStatus::from_raw(0), ""), Trial::Unusable(_)));
        let Trial::Unusable(why) = judge(ExitStatus::from_raw(1 << 8), "a\nno KVM\n") else {
            panic!()
        };
        assert!(why.ends_with("no KVM"), "{why}");
    }
}
