// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Patterns for names.

/// Whether a name fits a pattern of `*` and `?`.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where the last star stood, and the first character that it does not take.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, n) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, name) in [
            ("*", ""),
            ("a*c", "abbc"),
            ("?b*", "abx"),
            ("pt*", "ptalloc"),
            ("*x*y", "axbxy"),
            ("free", "free"),
            ("*sdsnewlen*", "_sdsnewlen"),
            ("v8::*Marking*", "v8::internal::MarkingVisitor"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("a?", "a"),
            ("*x", "xy"),
            ("free", "freed"),
            ("v8::*Marking*", "v8::internal::Scavenger"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
