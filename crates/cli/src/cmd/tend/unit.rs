// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The service unit.

use anyhow::{Context, Result};
use cowlab_tend::privileges;

use crate::args::TendArgs;
use crate::usage::WrongUsage;

/// A unit that runs this program as it was called, with no more rights than it needs.
pub fn text(args: &TendArgs) -> Result<String> {
    let program = std::env::current_exe().context("this program does not know where it is")?;
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--print-unit").collect();
    if args.who.is_empty() && args.cgroup.is_none() && args.policy.is_none() {
        return Err(WrongUsage(
            "--print-unit needs to know whom to tend: a name, --cgroup or --policy".into(),
        )
        .into());
    }
    let command: Vec<String> =
        std::iter::once(program.display().to_string()).chain(words).map(quoted).collect();
    let capabilities = privileges::names().join(" ");
    Ok(format!(
        "[Unit]\n\
         Description=Keeps forking processes cheap to fork (cowlab tend)\n\
         After=multi-user.target\n\
         \n\
         [Service]\n\
         ExecStart={}\n\
         Restart=on-failure\n\
         DynamicUser=yes\n\
         AmbientCapabilities={capabilities}\n\
         CapabilityBoundingSet={capabilities}\n\
         NoNewPrivileges=yes\n\
         ProtectSystem=strict\n\
         ProtectHome=yes\n\
         PrivateTmp=yes\n\
         PrivateDevices=yes\n\
         RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\n\
         MemoryMax=256M\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        command.join(" ")
    ))
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
    use super::quoted;

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
