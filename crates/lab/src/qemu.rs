// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QEMU's command line for a guest on the host's files.

use std::ffi::OsString;
use std::path::Path;

use cowlab_store::Accelerator;

pub const PROGRAM: &str = "qemu-system-x86_64";

/// The machine and CPU of a guest under KVM.
pub const KVM: &str = "-machine pc -accel kvm -cpu host";

/// And under TCG. With the two features, it would execute a page copy byte by byte.
pub const TCG: &str = "-machine pc -cpu max,-erms,-fsrm -accel tcg";

/// The first QEMU in which one CPU does not translate code while another patches it ("accel/tcg:
/// Always lock pages before translation"). Before, a CPU may meet a breakpoint that is gone, when a
/// static key or a tracepoint is switched: the guest dies of "Oops: int3".
const PATCHES_SAFELY: (u32, u32) = (8, 1);

/// How the guest's files are passed. The kernel limits messages to 500 KiB over virtio. Nobody
/// changes the host's files below a guest, so that it may keep what it has read.
const ROOT_FLAGS: &str = "version=9p2000.L,trans=virtio,access=any,msize=512000,cache=loose";

/// The machine that a guest sees, and its kernel.
#[derive(Debug, Clone)]
pub struct Machine<'a> {
    pub image: &'a Path,
    pub accelerator: Accelerator,
    pub memory_bytes: u64,
    /// Whether times are measured in it: the host gives it all of its memory before it starts, so that a first touch
    /// does not ask the hypervisor below, and each CPU is a thread of the host, whatever this QEMU makes of code that
    /// patches itself.
    pub measured: bool,
    pub cpus: u32,
    pub kernel_arguments: &'a [String],
    pub qemu_arguments: &'a [OsString],
}

/// Where a guest's files and messages go.
#[derive(Debug)]
pub struct Place<'a> {
    /// The folder that it may write to, with its first process as `init`.
    pub folder: &'a Path,
    pub console: &'a Path,
    /// Whether this terminal is its own.
    pub terminal: bool,
}

impl Machine<'_> {
    /// QEMU's arguments. `by_turns`: TCG executes all CPUs in one thread.
    pub fn arguments(&self, place: &Place<'_>, by_turns: bool) -> Vec<OsString> {
        let mut all = Arguments(Vec::new());
        all.words("-nodefaults -no-user-config -display none -no-reboot");
        match self.accelerator {
            Accelerator::Kvm => all.words(KVM),
            _ if by_turns => all.words(&format!("{TCG},thread=single")),
            _ => all.words(TCG),
        }
        if self.accelerator == Accelerator::Icount {
            // A nanosecond of the guest's an instruction, and none for its waiting.
            all.words("-icount shift=0,sleep=off");
        }
        all.words(&format!("-smp {}", self.cpus));
        all.words(&format!("-m {}M", self.memory_bytes >> 20));
        if self.measured {
            all.words(&format!(
                "-object memory-backend-ram,id=ram,size={}M,prealloc=on -machine \
                 memory-backend=ram",
                self.memory_bytes >> 20
            ));
        }
        all.file_system("root", Path::new("/"), "/dev/root", ",readonly=on");
        all.file_system("share", place.folder, "cowlab", "");
        all.word("-serial").word(format!("file:{}", escaped(place.console)));
        if place.terminal {
            // The guest's ttyS1. Ctrl-C is the guest's.
            all.words("-chardev stdio,id=terminal,signal=off -serial chardev:terminal");
        } else {
            // A port each: once its input has ended, nothing is written to a port.
            all.words("-device virtio-serial-pci -chardev stdio,id=in,signal=on");
            all.words("-device virtserialport,chardev=in,name=cowlab.in");
            for (name, fd) in [("out", 1), ("err", 2)] {
                all.words(&format!(
                    "-chardev file,id={name},path=/proc/self/fd/{fd},append=on -device \
                     virtserialport,chardev={name},name=cowlab.{name}"
                ));
            }
        }
        all.word("-kernel").word(self.image).word("-append").word(self.kernel_line(place));
        all.0.extend(self.qemu_arguments.iter().cloned());
        all.0
    }

    fn kernel_line(&self, place: &Place<'_>) -> String {
        let folder = place.folder.display();
        let mut line = format!(
            // Notices and worse reach the log; a panic ends the guest. On a busy host, emulated
            // timers are late, which the kernel would take for broken ones. Its first process
            // brings up the other CPUs (crates/lab/guest/init.c says why).
            "console=ttyS0 loglevel=6 panic=-1 reboot=t no_timer_check maxcpus=1 ro \
             rootfstype=9p rootflags={ROOT_FLAGS}"
        );
        let accelerator = match self.accelerator {
            Accelerator::Kvm => "kvm",
            Accelerator::Icount => "icount",
            _ => "tcg",
        };
        // What measures in the guest says how it was executed; see crates/machine/src/guest.rs.
        line += &format!(" cowlab.accelerator={accelerator}");
        if accelerator == "tcg" {
            // Each further CPU would time its delay loop for 2 s, and in vain. As at 6 GHz and 250 ticks a second:
            // a delay is longer than asked for, never shorter.
            line += " lpj=25000000";
        }
        if accelerator != "kvm" {
            // Finding out which interrupt lines devices share takes 0.8 s of an emulated boot. Virtio devices need none.
            line += " acpi=noirq";
        }
        for argument in self.kernel_arguments {
            line += " ";
            line += argument;
        }
        if place.terminal {
            // What is no kernel's parameter becomes init's environment.
            line += " cowlab_terminal=1";
        }
        line + &format!(" init={folder}/init -- {folder}")
    }
}

/// Whether the QEMU that says so of itself may translate code that another CPU is patching.
pub fn patches_unsafely(version: &str) -> bool {
    let number = version.split_whitespace().find(|word| word.contains('.')).unwrap_or_default();
    let mut parts = number.split('.').map(str::parse);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < PATCHES_SAFELY,
        _ => true,
    }
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn word(&mut self, word: impl Into<OsString>) -> &mut Self {
        self.0.push(word.into());
        self
    }

    fn words(&mut self, words: &str) {
        self.0.extend(words.split_whitespace().map(OsString::from));
    }

    fn file_system(&mut self, id: &str, path: &Path, tag: &str, options: &str) {
        self.word("-fsdev").word(format!(
            "local,id={id},path={},security_model=none,multidevs=remap{options}",
            escaped(path)
        ));
        self.word("-device").word(format!("virtio-9p-pci,fsdev={id},mount_tag={tag}"));
    }
}

/// A comma ends an option's value for QEMU, unless it is doubled.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(accelerator: Accelerator, terminal: bool, by_turns: bool) -> String {
        let machine = Machine {
            image: Path::new("/c/bzImage"),
            accelerator,
            memory_bytes: 4 << 30,
            measured: false,
            cpus: 2,
            kernel_arguments: &["kunit.enable=1".to_owned()],
            qemu_arguments: &[],
        };
        let console = Path::new("/c/boot,1/console.log");
        let place = Place { folder: Path::new("/c/boot"), console, terminal };
        let words = machine.arguments(&place, by_turns);
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_accelerator_decides_the_cpu() {
        let tcg = line(Accelerator::Tcg, false, false);
        assert!(tcg.contains("-machine pc -cpu max,-erms,-fsrm -accel tcg -smp"), "{tcg}");
        assert!(tcg.contains("cowlab.accelerator=tcg lpj="), "{tcg}");
        assert!(line(Accelerator::Tcg, false, true).contains("-accel tcg,thread=single"));
        let icount = line(Accelerator::Icount, false, false);
        assert!(!icount.contains("lpj=") && icount.contains("acpi=noirq"), "{icount}");
        let kvm = line(Accelerator::Kvm, false, true);
        assert!(kvm.contains("-machine pc -accel kvm -cpu host -smp"), "{kvm}");
        assert!(!kvm.contains("acpi=noirq"), "{kvm}");
    }

    #[test]
    fn old_versions_execute_by_turns() {
        for (version, wanted) in [
            ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)", true),
            ("QEMU emulator version 8.0.4", true),
            ("QEMU emulator version 8.1.0", false),
            ("QEMU emulator version 10.0.8 (Debian 1:10.0.8+ds-0+deb13u1)", false),
            ("", true),
        ] {
            assert_eq!(patches_unsafely(version), wanted, "{version}");
        }
    }

    #[test]
    fn the_hosts_root_is_not_writable() {
        let line = line(Accelerator::Tcg, false, false);
        assert!(
            line.contains("local,id=root,path=/,security_model=none,multidevs=remap,readonly=on")
        );
        assert!(line.contains("file:/c/boot,,1/console.log"), "{line}");
        assert!(line.contains(" kunit.enable=1 init=/c/boot/init -- /c/boot"), "{line}");
    }

    #[test]
    fn a_terminal_is_the_guests() {
        let line = line(Accelerator::Tcg, true, false);
        assert!(line.contains("signal=off") && line.contains("cowlab_terminal=1"), "{line}");
        assert!(!line.contains("virtserialport"), "{line}");
    }
}
