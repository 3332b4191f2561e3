// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a process cannot be tended: facts, the decision, and one sentence each that says what to do.

use cowlab_machine::limits::{CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, Credentials};
use cowlab_machine::process::Target;
use cowlab_machine::thp::Thp;
use cowlab_machine::{ProcessError, status};
use rustix::io::Errno;

use crate::tend::act::Outcome;
use crate::tend::sys::may_collapse;

/// What decides whether a process can be tended.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The settings of huge pages; `None` without any.
    pub thp: Option<Thp>,
    /// The capability that this process lacks.
    pub missing_right: Option<Right>,
    /// Why memory of our own could not be collapsed.
    pub rehearsal: Option<Outcome>,
    pub pid: i32,
    pub name: String,
    /// THP_enabled of its status: whether it has not switched them off for itself.
    pub may_have_huge_pages: Option<bool>,
    /// Whether it is held by a pidfd (Linux 5.3).
    pub has_pidfd: bool,
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(
        "this kernel has no transparent huge pages: tend needs one with CONFIG_TRANSPARENT_HUGEPAGE"
    )]
    NoHugePages,
    #[error(
        "{file} is `never`, so huge pages are switched off on this machine: write `madvise` into it, \
         which gives them to programs that ask and to tend, and to nobody else"
    )]
    SystemForbids { file: String },
    /// This process inherited PR_SET_THP_DISABLE.
    #[error(
        "huge pages are switched off for cowlab itself (PR_SET_THP_DISABLE, inherited): start it \
         from a shell or unit that does not have that"
    )]
    DisabledForSelf,
    #[error("this kernel cannot collapse memory on request (MADV_COLLAPSE): tend needs Linux 6.1")]
    NoCollapse,
    #[error(
        "process {pid} ({name}) has switched huge pages off for itself (PR_SET_THP_DISABLE): {what_to_do}"
    )]
    TargetForbids { pid: i32, name: String, what_to_do: &'static str },
    #[error(
        "tending process {pid} ({name}) needs {capability}: run as root, or as a service with that \
         capability (cowlab-tend.service)"
    )]
    NoPermission { pid: i32, name: String, capability: &'static str },
    /// The right is there, and something else stands in the way.
    #[error(
        "process {pid} ({name}) may not be looked at though this has {capability}: a container or a \
         security module forbids it, so run tend where the process was started"
    )]
    Forbidden { pid: i32, name: String, capability: &'static str },
}

/// A capability that would be needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    pub capability: &'static str,
    /// Whether this process has it, and is refused all the same.
    pub is_held: bool,
}

impl Refusal {
    /// Whether nothing changes it for as long as the process lives.
    pub fn lasts(&self) -> bool {
        !matches!(self, Refusal::SystemForbids { .. })
    }
}

/// Whether this machine has huge pages, and may; its settings.
pub(crate) fn check_machine(thp: Option<&Thp>) -> Result<&Thp, Refusal> {
    let thp = thp.ok_or(Refusal::NoHugePages)?;
    match forbidding(thp) {
        Some(file) => Err(Refusal::SystemForbids { file }),
        None => Ok(thp),
    }
}

/// Whether the process can be tended. The error is the first reason, the machine's before the
/// target's.
pub fn check(facts: &Facts) -> Result<(), Refusal> {
    let thp = check_machine(facts.thp.as_ref())?;
    if thp.disabled_for_self == Some(true) {
        return Err(Refusal::DisabledForSelf);
    }
    // Nothing else refuses memory of our own.
    if facts.rehearsal == Some(Outcome::NotEligible) || !facts.has_pidfd {
        return Err(Refusal::NoCollapse);
    }
    let (pid, name) = (facts.pid, facts.name.clone());
    if let Some(Right { capability, is_held }) = facts.missing_right {
        return Err(match is_held {
            true => Refusal::Forbidden { pid, name, capability },
            false => Refusal::NoPermission { pid, name, capability },
        });
    }
    if facts.may_have_huge_pages == Some(false) {
        let what_to_do = match name.as_str() {
            "redis-server" | "valkey-server" => {
                "start it while transparent_hugepage/enabled is `madvise`, or with `disable-thp no` \
                 (`CONFIG SET` does not change it)"
            }
            _ => "nobody else can undo that; start it without, or by something that did not set it",
        };
        return Err(Refusal::TargetForbids { pid, name, what_to_do });
    }
    Ok(())
}

/// The capability that is missing to look at the target, or to collapse its memory: by trying.
/// `pagemap` is why that file cannot be opened.
pub(crate) fn missing_right(
    target: &Target,
    own: &Credentials,
    pagemap: Option<&ProcessError>,
    only_looks: bool,
) -> Option<Right> {
    let right = |capability, number| Some(Right { capability, is_held: own.has(number) });
    let is_anothers = own.euid != target.uid() && target.uid() != u32::MAX;
    if is_anothers && !own.has(CAP_SYS_PTRACE) {
        return right("CAP_SYS_PTRACE", CAP_SYS_PTRACE);
    }
    if matches!(pagemap, Some(ProcessError::NoPermission { .. })) {
        return right("CAP_DAC_READ_SEARCH", CAP_DAC_READ_SEARCH);
    }
    if only_looks {
        return None;
    }
    let is =
        |error: &std::io::Error, errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    match target.pidfd().map(may_collapse) {
        Some(Err(error)) if is(&error, Errno::PERM) => Some(Right {
            capability: "CAP_SYS_NICE (in the first user namespace, not a container's own)",
            is_held: false,
        }),
        Some(Err(error)) if is(&error, Errno::ACCESS) => right("CAP_SYS_PTRACE", CAP_SYS_PTRACE),
        _ => None,
    }
}

/// THP_enabled of /proc/PID/status (Linux 5.0).
pub(crate) fn may_have_huge_pages(target: &Target) -> Result<Option<bool>, ProcessError> {
    Ok(status::field(&target.read("status")?, "THP_enabled").map(|value| value == "1"))
}

/// The file that says `never` to huge pages of the size that one page-table entry maps.
pub(crate) fn forbidding(thp: &Thp) -> Option<String> {
    const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";
    let is_never = |word: Option<&str>| word == Some("never");
    let global = is_never(thp.enabled.as_deref()).then(|| format!("{FOLDER}/enabled"));
    let own = thp.pmd_size_bytes.and_then(|size| Some((size, thp.sizes.get(&size)?)));
    match own {
        Some((_, word)) if word == "inherit" => global,
        Some((size, word)) if is_never(Some(word)) => {
            Some(format!("{FOLDER}/hugepages-{}kB/enabled", size / 1024))
        }
        Some(_) => None,
        None => global,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Facts {
        let thp = Thp {
            enabled: Some("madvise".into()),
            pmd_size_bytes: Some(2 << 20),
            sizes: [(2 << 20, "inherit".to_owned())].into(),
            disabled_for_self: Some(false),
            ..Thp::default()
        };
        Facts {
            thp: Some(thp),
            missing_right: None,
            rehearsal: None,
            pid: 7,
            name: "redis-server".into(),
            may_have_huge_pages: Some(true),
            has_pidfd: true,
        }
    }

    fn with(change: impl FnOnce(&mut Facts)) -> String {
        let mut facts = good();
        change(&mut facts);
        check(&facts).map_or_else(|refusal| refusal.to_string(), |()| String::new())
    }

    #[test]
    fn each_reason_is_one_sentence_that_says_what_to_do() {
        assert_eq!(with(|_| ()), "");
        for (said, expected) in [
            (with(|f| f.thp = None), "CONFIG_TRANSPARENT_HUGEPAGE"),
            (with(|f| thp(f).enabled = Some("never".into())), "hugepage/enabled is `never`.*write"),
            (
                with(|f| _ = thp(f).sizes.insert(2 << 20, "never".into())),
                "hugepages-2048kB/enabled is `never`",
            ),
            (with(|f| thp(f).disabled_for_self = Some(true)), "cowlab itself"),
            (with(|f| f.rehearsal = Some(Outcome::NotEligible)), "Linux 6.1"),
            (with(|f| f.has_pidfd = false), "Linux 6.1"),
            (with(|f| f.may_have_huge_pages = Some(false)), "disable-thp no"),
            (
                with(|f| (f.name, f.may_have_huge_pages) = ("other".into(), Some(false))),
                "switched huge pages off for itself",
            ),
            (with(|f| f.missing_right = Some(nice(false))), "needs CAP_SYS_NICE.*run as root"),
            (with(|f| f.missing_right = Some(nice(true))), "has CAP_SYS_NICE.*a container"),
        ] {
            let words: Vec<&str> = expected.split(".*").collect();
            assert!(words.iter().all(|word| said.contains(word)), "{expected}: {said:?}");
            assert!(!said.contains('\n') && !said.contains(". "), "{said}");
        }
        // Somebody who reads the first may do what it says.
        let off = Refusal::SystemForbids { file: String::new() };
        assert!(!off.lasts() && Refusal::NoCollapse.lasts());
        // What an older kernel does not tell is no reason, and neither are setting that do not count.
        assert_eq!(with(|f| f.may_have_huge_pages = None), "");
        let own_size = with(|f| {
            thp(f).enabled = Some("never".into());
            thp(f).sizes.insert(2 << 20, "madvise".into());
        });
        assert_eq!(own_size, "");
    }

    fn nice(is_held: bool) -> Right {
        Right { capability: "CAP_SYS_NICE", is_held }
    }

    fn thp(facts: &mut Facts) -> &mut Thp {
        facts.thp.as_mut().unwrap()
    }
}
