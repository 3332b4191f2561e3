// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether BPF may be used here: facts first, then a decision that names what is missing.

use std::fs;

use cowlab_machine::limits::{CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN};
use cowlab_machine::{Root, status};
use serde::Serialize;

/// The inode of the first pid namespace (kernel: include/linux/proc_ns.h, PROC_PID_INIT_INO).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// What decides whether BPF programs can be attached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AccessFacts {
    pub capabilities: Option<u64>,
    /// Whether this process sees the pids that the kernel counts in; `None` where unknown.
    pub first_pid_namespace: Option<bool>,
    /// `kernel.unprivileged_bpf_disabled`; `None` on a kernel without bpf(2).
    pub unprivileged_bpf_disabled: Option<u64>,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i64>,
    /// The selected word of `/sys/kernel/security/lockdown`.
    pub lockdown: Option<String>,
}

impl AccessFacts {
    /// Reads them below `root`.
    pub fn probe(root: &Root) -> AccessFacts {
        let text = |file: &str| fs::read_to_string(root.path(file)).ok();
        let number = |file: &str| text(file)?.trim().parse::<i64>().ok();
        let capabilities = text("proc/self/status")
            .and_then(|text| u64::from_str_radix(status::field(&text, "CapEff")?, 16).ok());
        let lockdown = text("sys/kernel/security/lockdown").and_then(|words| {
            let (_, rest) = words.split_once('[')?;
            Some(rest.split_once(']')?.0.to_owned())
        });
        let namespace = fs::read_link(root.path("proc/self/ns/pid")).ok();
        AccessFacts {
            capabilities,
            first_pid_namespace: namespace.map(|link| link.as_os_str() == FIRST_PID_NAMESPACE),
            unprivileged_bpf_disabled: number("proc/sys/kernel/unprivileged_bpf_disabled")
                .and_then(|value| u64::try_from(value).ok()),
            perf_event_paranoid: number("proc/sys/kernel/perf_event_paranoid"),
            lockdown,
        }
    }

    fn has(&self, capability: u32) -> bool {
        self.capabilities.is_some_and(|set| set >> capability & 1 == 1)
    }

    /// Whether programs can be attached; the error says in one sentence what is missing. The kernel has
    /// the last word: a seccomp filter or a security module shows only when attaching is tried.
    pub fn decide(&self) -> Result<(), String> {
        let missing: Vec<&str> = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")]
            .into_iter()
            .filter(|(bit, _)| !self.has(*bit) && !self.has(CAP_SYS_ADMIN))
            .map(|(_, name)| name)
            .collect();
        if !missing.is_empty() {
            return Err(format!(
                "BPF needs root, or {} (before Linux 5.8 CAP_SYS_ADMIN){}",
                missing.join(" and "),
                self.settings()
            ));
        }
        if self.lockdown.as_deref() == Some("confidentiality") {
            return Err("the kernel is locked down (confidentiality): BPF may not read its memory"
                .to_owned());
        }
        if self.first_pid_namespace == Some(false) {
            return Err(
                "this container has a pid namespace of its own, so that the kernel's pids \
                        mean nothing here: run it with the host's (podman/docker --pid=host, \
                        Kubernetes hostPID: true)"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Settings that do not help without the capabilities; named so that nobody changes them in vain.
    fn settings(&self) -> String {
        let said = |name: &str, value: Option<String>| {
            value.map(|value| format!("kernel.{name}={value}")).into_iter().collect::<Vec<_>>()
        };
        let mut known = said(
            "unprivileged_bpf_disabled",
            self.unprivileged_bpf_disabled.map(|value| value.to_string()),
        );
        known.extend(said(
            "perf_event_paranoid",
            self.perf_event_paranoid.map(|value| value.to_string()),
        ));
        if known.is_empty() {
            return String::new();
        }
        format!("; {} here, and no value of them replaces it for tracepoints", known.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(bits: &[u32]) -> AccessFacts {
        let capabilities = bits.iter().fold(0, |set, bit| set | 1 << bit);
        AccessFacts {
            capabilities: Some(capabilities),
            first_pid_namespace: Some(true),
            unprivileged_bpf_disabled: Some(2),
            perf_event_paranoid: Some(3),
            lockdown: Some("none".to_owned()),
        }
    }

    #[test]
    fn two_capabilities_or_the_old_one_suffice() {
        assert_eq!(with(&[CAP_BPF, CAP_PERFMON]).decide(), Ok(()));
        assert_eq!(with(&[CAP_SYS_ADMIN]).decide(), Ok(()));
    }

    #[test]
    fn what_is_missing_is_named() {
        let none = with(&[]).decide().unwrap_err();
        assert!(none.contains("CAP_BPF and CAP_PERFMON"), "{none}");
        assert!(none.contains("perf_event_paranoid=3"), "{none}");
        let one = with(&[CAP_BPF]).decide().unwrap_err();
        assert!(one.contains("CAP_PERFMON") && !one.contains("CAP_BPF and"), "{one}");
        let unknown = AccessFacts::default().decide().unwrap_err();
        assert!(unknown.contains("root"), "{unknown}");
    }

    #[test]
    fn a_locked_kernel_and_a_container_say_so() {
        let locked = AccessFacts { lockdown: Some("confidentiality".into()), ..with(&[21]) };
        assert!(locked.decide().unwrap_err().contains("locked down"));
        let inside = AccessFacts { first_pid_namespace: Some(false), ..with(&[21]) };
        assert!(inside.decide().unwrap_err().contains("hostPID"));
    }

    #[test]
    fn this_machine_gives_facts() {
        let facts = AccessFacts::probe(&Root::default());
        assert!(facts.capabilities.is_some() && facts.first_pid_namespace.is_some());
    }

    #[test]
    fn a_saved_tree_is_read() {
        let folder = tempfile::tempdir().unwrap();
        for (file, content) in [
            ("proc/self/status", "Name:\tx\nCapEff:\t000000c000000000\n"),
            ("proc/sys/kernel/perf_event_paranoid", "-1\n"),
            ("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let facts = AccessFacts::probe(&Root::new(folder.path()));
        assert_eq!(facts.perf_event_paranoid, Some(-1));
        assert_eq!(facts.lockdown.as_deref(), Some("integrity"));
        assert_eq!(facts.unprivileged_bpf_disabled, None);
        assert_eq!(facts.decide(), Ok(()));
    }
}
