// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Command lines without passwords: runs keep them, and people share runs.

const HIDDEN: &str = "…";
/// Parts of the names of flags and variables whose values are secrets.
const SECRET: [&str; 4] = ["pass", "auth", "token", "secret"];

/// The words of a command line, without the values of flags that are named like secrets, and
/// without users and passwords of URLs. A secret in a word of its own (`-a PASSWORD`) is not known
/// for one.
pub fn redacted(words: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<String> {
    let mut is_secret = false;
    let hide = |word: &str, is_value: bool| match word.split_once('=') {
        _ if is_value && !word.starts_with('-') => HIDDEN.to_owned(),
        Some((name, _)) if names_secret(name) => format!("{name}={HIDDEN}"),
        _ => without_user(word),
    };
    let words = words.into_iter().map(|word| {
        let word = word.as_ref();
        let hidden = hide(word, is_secret);
        is_secret = word.starts_with('-') && !word.contains('=') && names_secret(word);
        hidden
    });
    words.collect()
}

fn names_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    !name.contains(char::is_whitespace) && SECRET.iter().any(|part| name.contains(part))
}

/// `redis://user:password@host` as `redis://…@host`, however many there are.
pub fn without_user(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let end = rest.find(|c: char| "/?# '\"".contains(c)).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => authority.to_owned(),
    };
    format!("{scheme}://{authority}{}", without_user(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_nothing_else_is() {
        for (told, expected) in [
            ("cowlab doctor --redis redis://u:p@h:1/0", "cowlab doctor --redis redis://…@h:1/0"),
            ("--redis=redis://:p@h x", "--redis=redis://…@h x"),
            ("a://h b://u@h/c://x:y@z", "a://h b://…@h/c://…@z"),
            (
                "-- redis-server --requirepass s --port 1",
                "-- redis-server --requirepass … --port 1",
            ),
            ("--masterauth=s --API-Token s t", "--masterauth=… --API-Token … t"),
            ("env PGPASSWORD=s --secret --json", "env PGPASSWORD=… --secret --json"),
            ("--output a@b mail me@there", "--output a@b mail me@there"),
        ] {
            assert_eq!(redacted(told.split(' ')).join(" "), expected);
        }
        assert_eq!(redacted(["sh", "-c", "get 'a://u:p@h' > b"])[2], "get 'a://…@h' > b");
    }
}
