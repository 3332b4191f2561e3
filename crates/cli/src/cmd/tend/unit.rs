// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The service unit.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};
use cowlab_observe::watch::Wanted;
use cowlab_schema::settings::tend::PING;
use cowlab_tend::privileges;

use crate::args::TendArgs;
use crate::output;
use crate::profile_file::ProfileFile;
use crate::usage::WrongUsage;

/// A unit that runs this program as it was called, with no more rights than it needs.
pub fn text(args: &TendArgs) -> Result<String> {
    let program = std::env::current_exe().context("this program does not know where it is")?;
    let words = std::env::args().skip(1).filter(|word| word != "--print-unit");
    let mut words: Vec<String> = words.map(|word| whole_path(word, args)).collect();
    // It starts in /, where no run is the newest.
    let newest = match args.profile.profile {
        Some(_) => None,
        None => ProfileFile::find(&args.profile)?.map(|(path, _)| path),
    };
    if let Some(path) = newest.as_deref().and_then(|path| std::path::absolute(path).ok()) {
        words.extend(["--profile".to_owned(), path.display().to_string()]);
    }
    if args.who.iter().any(|who| matches!(who, Wanted::Pid(_))) {
        return Err(WrongUsage(
            "--print-unit: a service outlives a process, whose pid may be used again: give a name, \
             a control group or --targets"
                .into(),
        )
        .into());
    }
    if args.who.is_empty() && args.targets.is_none() {
        return Err(WrongUsage(
            "--print-unit needs to know whom to tend: a name, a control group or --targets".into(),
        )
        .into());
    }
    let command: Vec<String> =
        std::iter::once(program.display().to_string()).chain(words).map(quoted).collect();
    for path in unseen(&program, newest.as_deref(), args)? {
        output::say(&format!(
            "the service will not see {path}: it has a /tmp of its own and no /home or /root; move it elsewhere \
             (`make install` for cowlab itself)"
        ));
    }
    let capabilities = privileges::names().join(" ");
    let user = match &args.output {
        Some(file) => writer(file)?,
        None => "DynamicUser=yes\n".to_owned(),
    };
    Ok(format!(
        "[Unit]\n\
         Description=Keeps forking processes cheap to fork (cowlab tend)\n\
         After=multi-user.target\n\
         \n\
         [Service]\n\
         ExecStart={}\n\
         Restart=on-failure\n\
         RestartSec=10\n\
         {user}\
         AmbientCapabilities={capabilities}\n\
         CapabilityBoundingSet={capabilities}\n\
         NoNewPrivileges=yes\n\
         ProtectSystem=strict\n\
         ProtectHome=yes\n\
         PrivateTmp=yes\n\
         PrivateDevices=yes\n\
         ProtectControlGroups=yes\n\
         ProtectKernelModules=yes\n\
         ProtectKernelTunables=yes\n\
         ProtectKernelLogs=yes\n\
         ProtectClock=yes\n\
         ProtectHostname=yes\n\
         RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\n\
         RestrictNamespaces=yes\n\
         RestrictSUIDSGID=yes\n\
         LockPersonality=yes\n\
         MemoryDenyWriteExecute=yes\n\
         SystemCallArchitectures=native\n\
         # CAP_SYS_PTRACE is for collapsing memory and reading bytes of it: calls that trace or write are refused.\n\
         SystemCallFilter=@system-service\n\
         SystemCallFilter=~process_vm_writev process_vm_readv ptrace kcmp @privileged @resources\n\
         SystemCallFilter=process_madvise capset sched_setscheduler sched_setattr sched_setaffinity setrlimit\n\
         SystemCallErrorNumber=EPERM\n\
         MemoryMax=256M\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        command.join(" ")
    ))
}

/// A service starts in /: the paths among its words are told whole.
fn whole_path(word: String, args: &TendArgs) -> String {
    let paths = args.targets.iter().chain(&args.profile.profile);
    let whole = |path: &Path| std::path::absolute(path).map(|path| path.display().to_string());
    for path in paths {
        let text = path.display().to_string();
        let flag = word.strip_suffix(&text).filter(|flag| flag.is_empty() || flag.ends_with('='));
        if let (Some(flag), Ok(whole)) = (flag, whole(path)) {
            return format!("{flag}{whole}");
        }
    }
    word
}

/// What the service needs and will not see, by ProtectHome= and PrivateTmp=.
fn unseen(program: &Path, newest: Option<&Path>, args: &TendArgs) -> Result<Vec<String>> {
    let ping = args.set.list(&PING).first().map(|ping| ping.0);
    let files = args.targets.iter().chain(&args.profile.profile).chain(&args.output);
    let files = files.map(|path| path.as_path()).chain([program]).chain(newest);
    let all = files.chain(ping.map(Path::new));
    let whole = all.filter_map(|path| std::path::absolute(path).ok());
    let hidden = ["/tmp", "/var/tmp", "/home", "/root", "/run/user"];
    Ok(whole
        .filter(|path| hidden.iter().any(|folder| path.starts_with(folder)))
        .map(|path| path.display().to_string())
        .collect())
}

/// Who may write the metrics' file, without a right to others' folders; and that the service sees its
/// folder writable.
fn writer(file: &Path) -> Result<String> {
    let Some(folder) = file.parent().filter(|folder| folder.is_absolute()) else {
        let wrong = "--print-unit: a service starts in /, so --output needs the whole path";
        return Err(WrongUsage(wrong.into()).into());
    };
    let facts = std::fs::metadata(folder)
        .with_context(|| format!("--output: the service needs the folder {}", folder.display()))?;
    let folder = folder.to_string_lossy().replace('%', "%%");
    let who = identity(facts.mode(), facts.uid(), facts.gid());
    Ok(format!("{who}ReadWritePaths=\"{folder}\"\n"))
}

/// The least that may write into a folder of that mode: anybody, its group, or its owner.
fn identity(mode: u32, uid: u32, gid: u32) -> String {
    match mode {
        mode if mode & 0o002 != 0 => "DynamicUser=yes\n".into(),
        mode if mode & 0o020 != 0 => format!("DynamicUser=yes\nSupplementaryGroups={gid}\n"),
        _ => format!("User={uid}\n"),
    }
}

/// A word as systemd reads it.
fn quoted(word: String) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.:,=+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word;
    }
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{}\"", escaped.replace('$', "$$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_may_write_the_metrics_folder_and_is_nobody_else() {
        assert_eq!(identity(0o1777, 0, 0), "DynamicUser=yes\n");
        assert_eq!(identity(0o40775, 0, 998), "DynamicUser=yes\nSupplementaryGroups=998\n");
        assert_eq!(identity(0o40755, 119, 119), "User=119\n");
        let folder = tempfile::Builder::new().prefix("50% ").tempdir().unwrap();
        let told = writer(&folder.path().join("tend.prom")).unwrap();
        let path = folder.path().display().to_string().replace('%', "%%");
        assert!(told.ends_with(&format!("\nReadWritePaths=\"{path}\"\n")), "{told}");
        assert!(writer(Path::new("tend.prom")).unwrap_err().is::<WrongUsage>());
        assert!(writer(Path::new("/nonexistent/tend.prom")).is_err());
    }

    #[test]
    fn words_are_quoted_for_systemd() {
        for (word, expected) in [
            ("/usr/bin/cowlab", "/usr/bin/cowlab"),
            ("a b", "\"a b\""),
            ("50%", "\"50%%\""),
            ("", "\"\""),
            ("$x\"", "\"$$x\\\"\""),
        ] {
            assert_eq!(quoted(word.to_owned()), expected);
        }
    }
}
