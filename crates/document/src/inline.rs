// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The little markup that words may have: `` `code` `` and `[text](target)`.

use maud::{Markup, html};

#[derive(Debug, PartialEq)]
pub(crate) enum Span<'a> {
    Words(&'a str),
    Code(&'a str),
    Link { text: &'a str, target: &'a str },
}

/// Splits `text` into its runs. What is not closed, or links where it should not, stays words.
pub(crate) fn spans(text: &str) -> Vec<Span<'_>> {
    let mut spans = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(found) = text[at..].find(['`', '[']).map(|offset| at + offset) {
        let Some((span, end)) = code(text, found).or_else(|| link(text, found)) else {
            at = found + 1;
            continue;
        };
        if start < found {
            spans.push(Span::Words(&text[start..found]));
        }
        spans.push(span);
        (start, at) = (end, end);
    }
    if start < text.len() {
        spans.push(Span::Words(&text[start..]));
    }
    spans
}

pub(super) fn markup(text: &str) -> Markup {
    html! {
        @for span in spans(text) {
            @match span {
                Span::Words(words) => (words),
                Span::Code(code) => code { (code) },
                Span::Link { text, target } => a href=(target) { (text) },
            }
        }
    }
}

pub fn plain(text: &str) -> String {
    let words = |span| match span {
        Span::Words(words) | Span::Code(words) | Span::Link { text: words, .. } => words,
    };
    spans(text).into_iter().map(words).collect()
}

/// Whether a link may lead there: an anchor, a relative path, or another page by https.
pub(super) fn is_safe(target: &str) -> bool {
    let plain = !target.contains(|c: char| c.is_whitespace() || c.is_control());
    let scheme = target.split(['/', '?', '#']).next().is_some_and(|head| head.contains(':'));
    let elsewhere = target.starts_with("//") || target.starts_with(['\\']);
    plain && !target.is_empty() && !elsewhere && (!scheme || target.starts_with("https://"))
}

fn code(text: &str, at: usize) -> Option<(Span<'_>, usize)> {
    let rest = text[at..].strip_prefix('`')?;
    let length = rest.find('`').filter(|length| *length > 0)?;
    Some((Span::Code(&rest[..length]), at + length + 2))
}

fn link(text: &str, at: usize) -> Option<(Span<'_>, usize)> {
    let rest = text[at..].strip_prefix('[')?;
    let middle = rest.find("](")?;
    let words = &rest[..middle];
    let target = &rest[middle + 2..];
    let target = &target[..target.find(')')?];
    let whole = !words.is_empty() && !words.contains('[') && is_safe(target);
    whole.then(|| (Span::Link { text: words, target }, at + 1 + middle + 2 + target.len() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_links() {
        let link = |text, target| Span::Link { text, target };
        assert_eq!(
            spans("a `b` [c](#d)."),
            [
                Span::Words("a "),
                Span::Code("b"),
                Span::Words(" "),
                link("c", "#d"),
                Span::Words(".")
            ]
        );
        for words in ["a ` b", "[a](b", "[](#x)", "x[1]", "[a](javascript:alert(1))", "é[", "``"] {
            assert_eq!(spans(words), [Span::Words(words)], "{words}");
        }
        assert_eq!(plain("a `b` [c](tables/d.csv)"), "a b c");
    }

    #[test]
    fn links_lead_nowhere_surprising() {
        for target in ["#a", "tables/a.csv", "https://doi.org/10.1/x", "a/b:c"] {
            assert!(is_safe(target), "{target}");
        }
        for target in [
            "",
            "javascript:x",
            "JaVaScript:x",
            "//host/",
            "http://host/",
            "data:text/html,x",
            "a b",
            "\\\\host",
        ] {
            assert!(!is_safe(target), "{target}");
        }
    }
}
