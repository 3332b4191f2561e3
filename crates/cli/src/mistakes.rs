// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Command lines that nobody can parse, with the hint that helps: a process is named behind a verb, without a
//! flag.

use std::path::Path;

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use cowlab_observe::watch::Wanted;
use cowlab_schema::Command;

/// Flags by which people name a process, without their hyphens.
const PROCESS_FLAGS: [&str; 5] = ["pid", "p", "name", "process", "target"];
const OF_PROCESSES: [&str; 6] = ["explain", "blame", "watch", "sharing", "tend", "footprint"];

/// The same error with our hints, of a program that was called with these words.
pub fn hinted(mut error: Error, words: &[String]) -> Error {
    let hint = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            text(&error, ContextKind::InvalidSubcommand).and_then(|word| instead(&word, words))
        }
        ErrorKind::UnknownArgument => {
            // "to pass '--pid' as a value": that names no process.
            error.remove(ContextKind::Suggested);
            let word = text(&error, ContextKind::InvalidArg);
            let of_doctor = words.iter().any(|verb| verb == "doctor");
            word.and_then(|word| match of_doctor && !word.starts_with('-') {
                true => Some(format!(
                    "doctor looks at the machine alone: `{}`",
                    Command::ExplainQuick.of(&word)
                )),
                false => without_flag(&word, words),
            })
        }
        _ => None,
    };
    if let Some(hint) = hint {
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    error
}

fn text(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// What to type for what is no verb: of advise what answers now, of a process the verb for it.
fn instead(word: &str, words: &[String]) -> Option<String> {
    if word == "advise" {
        let target = words.iter().skip_while(|of| *of != word).find(|of| is_target(of));
        let target = target.map_or("PID", String::as_str);
        return Some(match Path::new(target).is_dir() {
            true => format!("`{}` has the choices of a footprint", Command::PredictRun.of(target)),
            false => format!("`{}` has the choices", Command::ExplainQuick.of(target)),
        });
    }
    let is_process = Wanted::parse(word).is_ok_and(|of| of.find().is_ok());
    is_process.then(|| format!("{word} is a process: `{}`", Command::Explain.of(word)))
}

fn is_target(word: &str) -> bool {
    word != "advise" && !word.starts_with('-')
}

/// The command that was meant with a flag for the process.
fn without_flag(flag: &str, words: &[String]) -> Option<String> {
    let is_process = |name: &&str| PROCESS_FLAGS.contains(&name.trim_start_matches('-'));
    let name = flag.split(['=', ' ']).next().filter(is_process)?;
    let verb = words.iter().find(|word| OF_PROCESSES.contains(&word.as_str()))?;
    let at = words.iter().position(|word| word.split('=').next() == Some(name))?;
    let value = match words[at].split_once('=') {
        Some((_, value)) => Some(value),
        None => words.get(at + 1).map(String::as_str),
    };
    let value = value.filter(|value| !value.is_empty() && !value.starts_with('-'));
    Some(format!("a process is named without a flag: `cowlab {verb} {}`", value.unwrap_or("PID")))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    fn said(words: &str) -> String {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let line = std::iter::once("cowlab".to_owned()).chain(words.iter().cloned());
        let error = Cli::command().try_get_matches_from(line).unwrap_err();
        hinted(error, &words).to_string()
    }

    #[test]
    fn a_process_is_named_without_a_flag() {
        for words in ["explain --pid 4711", "explain --pid=4711", "explain -p 4711"] {
            let said = said(words);
            assert!(said.contains("`cowlab explain 4711`") && !said.contains("-- --"), "{said}");
        }
        assert!(said("blame --name").contains("`cowlab blame PID`"));
        assert!(!said("explain 1 --spoon").contains("as a value"));
        assert!(said("sharing 1 --duration 5").contains("'--duration-s'"));
    }

    #[test]
    fn a_process_is_no_verb() {
        let own = std::fs::read_to_string("/proc/1/comm").unwrap();
        let said_of_init = said(own.trim());
        assert!(
            said_of_init.contains(&format!("`cowlab explain {}`", own.trim())),
            "{said_of_init}"
        );
        assert!(said("wach").contains("'watch'"));
        assert!(said("advise redis-server").contains("`cowlab explain redis-server --quick`"));
        assert!(said("advise /tmp").contains("`cowlab predict /tmp`"));
        assert!(said("doctor 4711").contains("`cowlab explain 4711 --quick`"));
    }
}
