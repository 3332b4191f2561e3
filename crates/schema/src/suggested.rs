// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands that cowlab tells people to run. They are written here and nowhere else, and a test
//! of the command line parses each.

use std::fmt;

/// What stands for a server's address.
const SERVER: &str = "redis://HOST:PORT";

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident = $words:literal,)*) => {
        /// A command that a message, a table or an advice names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Command {
            $($(#[$doc])* $name,)*
        }

        impl Command {
            /// Every one.
            pub const ALL: &[Command] = &[$(Command::$name,)*];

            /// As it is typed.
            fn text(self) -> &'static str {
                match self {
                    $(Command::$name => concat!("cowlab ", $words),)*
                }
            }
        }
    };
}

commands! {
    /// Which code copies.
    Blame = "blame PID",
    /// The same for a minute: time to make it fork.
    BlameLong = "blame PID --duration-s 60",
    /// The same of a program that it starts.
    BlameCommand = "blame -- COMMAND",
    /// Make the machine profile.
    Calibrate = "calibrate",
    /// What can be measured here.
    DoctorMachine = "doctor --tables",
    /// One program.
    Explain = "explain PID",
    /// The same at once.
    ExplainQuick = "explain PID --quick",
    /// The same with every choice.
    ExplainTables = "explain PID --tables",
    /// The same of a server that is asked.
    ExplainRedis = "explain redis://HOST:PORT",
    /// What a process maps and writes.
    Footprint = "footprint PID",
    /// What its next fork copies.
    FootprintForks = "footprint PID --forks 1",
    /// The patched kernel.
    KernelBoot = "kernel boot",
    /// A kernel that records its functions.
    KernelBuildTraced = "kernel build --variant traced",
    /// A fork, priced.
    Predict = "predict 1GiB",
    /// The forks of a footprint.
    PredictRun = "predict PID",
    /// The same with every choice.
    PredictTables = "predict PID --tables",
    /// A run with all its tables.
    Report = "report PID",
    /// Which memory workers share, now.
    Sharing = "sharing PID",
    /// How fast they lose it.
    SharingRate = "sharing PID --duration-s 60",
    /// What copying ahead saves, by depth.
    StudyNextPage = "study next-page",
    /// Keep a process cheap to fork.
    Tend = "tend PID",
    /// What that would do.
    TendDryRun = "tend PID --dry-run",
    /// Each of its forks.
    Watch = "watch PID",
}

impl Command {
    /// The same for a process or a run that is known.
    pub fn of(self, target: impl fmt::Display) -> String {
        self.with("PID", ShellWord::quoted(&target.to_string()))
    }

    /// The same for a server whose address is known, from its title, which it writes itself.
    pub fn at(self, address: Option<&str>) -> String {
        self.with(SERVER, address.and_then(ShellWord::plain))
    }

    fn with(self, placeholder: &str, word: Option<ShellWord>) -> String {
        match word {
            Some(ShellWord(word)) => self.text().replace(placeholder, &word),
            None => self.text().to_owned(),
        }
    }
}

/// One word to every shell, in which nothing is expanded. Text has no other way into a command that people paste.
struct ShellWord(String);

impl ShellWord {
    /// `None` for text of more than a strict alphabet.
    fn plain(text: &str) -> Option<ShellWord> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:/@%+=[]…".contains(c);
        let is_word = text.starts_with(|c: char| is_plain(c) && c != '-');
        (is_word && text.chars().all(is_plain)).then(|| ShellWord(text.to_owned()))
    }

    /// Other printable ASCII in quotes, such as a path with blanks.
    fn quoted(text: &str) -> Option<ShellWord> {
        let is_quotable = |c: char| matches!(c, ' '..='~') && c != '\'' && c != '`';
        let quote = || ShellWord(format!("'{text}'"));
        let can_quote = !text.starts_with('-') && text.chars().all(is_quotable);
        ShellWord::plain(text).or_else(|| can_quote.then(quote))
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_targets_text_reaches_no_shell() {
        let at = |address| Command::ExplainRedis.at(Some(address));
        for plain in ["redis://127.0.0.1:6379", "redis://[::1]:7000", "unix:///run/r/s.sock"] {
            assert_eq!(at(plain), format!("cowlab explain {plain}"));
        }
        for hostile in [
            "redis://$(id):6379",
            "redis://`id`:6379",
            "redis://a;id:6379",
            "redis://a b:6379",
            "unix:///run/x y",
            "unix:///run/\u{202e}x",
            "redis://a\n:6379",
            "--help",
            "",
        ] {
            assert_eq!(at(hostile), "cowlab explain redis://HOST:PORT", "{hostile:?}");
        }
        assert_eq!(Command::Explain.of("my $(run)"), "cowlab explain 'my $(run)'");
        for hostile in ["it's", "a`b", "-x", "a\u{1b}b", "é"] {
            assert_eq!(Command::Explain.of(hostile), "cowlab explain PID", "{hostile:?}");
        }
    }
}
