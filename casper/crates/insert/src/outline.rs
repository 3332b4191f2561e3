// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outline of one variant: which braces at file scope may hold a function's body.

use crate::Error;
use crate::branches::Variant;
use crate::facts::Facts;
use crate::lex::{Kind, Lexed, Token};

/// No definition's beginning is longer. Without limits hostile sources would take quadratic time.
pub const HEADER_TOKENS_MAX: usize = 2048;
/// Brackets in brackets; compilers allow 256 at least.
pub const DEPTH_MAX: usize = 1000;

/// A brace that may open a function's body. Numbers are places in the variant.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    /// First token of what comes before the brace.
    pub header: usize,
    pub open: usize,
    pub close: usize,
    /// One of the two is inside a macro.
    pub hidden: bool,
}

pub struct Stream<'a> {
    pub lexed: &'a Lexed<'a>,
    pub tokens: &'a [usize],
    pub variant: &'a Variant,
    /// For an opening bracket the place of its partner; otherwise its own place.
    pub partner: Vec<usize>,
}

impl<'a> Stream<'a> {
    pub fn new(
        lexed: &'a Lexed<'a>,
        variant: &'a Variant,
        facts: &Facts,
    ) -> Result<Stream<'a>, Error> {
        let tokens = &variant.tokens[..];
        let mut partner: Vec<usize> = (0..tokens.len()).collect();
        let mut open: Vec<(usize, char)> = Vec::new();
        for (place, &index) in tokens.iter().enumerate() {
            let token = &lexed.tokens[index];
            let brackets = match token.kind {
                Kind::Punct(text @ ("(" | "[" | "{" | ")" | "]" | "}")) => text,
                Kind::Word if !facts.brackets.is_empty() => {
                    facts.brackets.get(&*lexed.text(token)).map_or("", String::as_str)
                }
                _ => "",
            };
            for bracket in brackets.chars() {
                let wanted = match bracket {
                    ')' => '(',
                    ']' => '[',
                    '}' => '{',
                    opening => {
                        open.push((place, opening));
                        continue;
                    }
                };
                match open.pop() {
                    Some((start, opening)) if opening == wanted => partner[start] = place,
                    Some((start, opening)) => {
                        let line = lexed.tokens[tokens[start]].line;
                        let what =
                            format!("'{bracket}' where the '{opening}' of line {line} is open");
                        return Err(Error::Syntax { line: token.line, what });
                    }
                    None => {
                        let what = format!("'{bracket}' that nothing opened");
                        return Err(Error::Syntax { line: token.line, what });
                    }
                }
            }
        }
        match open.last() {
            Some(&(place, bracket)) => Err(Error::Syntax {
                line: lexed.tokens[tokens[place]].line,
                what: format!("'{bracket}' that is never closed"),
            }),
            None => Ok(Stream { lexed, tokens, variant, partner }),
        }
    }

    pub fn token(&self, place: usize) -> &'a Token {
        &self.lexed.tokens[self.tokens[place]]
    }

    /// Whether brackets inside a bracket are nested too deep for the parser.
    pub fn is_deep(&self, open: usize) -> bool {
        let mut ends: Vec<usize> = Vec::new();
        (open..=self.partner[open]).any(|place| {
            while ends.last().is_some_and(|&end| end < place) {
                ends.pop();
            }
            if self.partner[place] > place {
                ends.push(self.partner[place]);
            }
            ends.len() > DEPTH_MAX
        })
    }

    /// Whether a punctuator is at a place.
    pub fn is(&self, place: usize, punct: &str) -> bool {
        matches!(self.token(place).kind, Kind::Punct(text) if text == punct)
    }

    /// Whether a word is at a place.
    pub fn is_word(&self, place: usize, word: &str) -> bool {
        self.lexed.is_word(self.token(place), word)
    }

    /// Whether any word is at a place.
    pub fn any_word(&self, place: usize) -> bool {
        self.token(place).kind == Kind::Word
    }

    /// The places of `range`, those inside brackets left out.
    pub fn flat(&self, range: std::ops::Range<usize>) -> Vec<usize> {
        let mut places = Vec::new();
        let mut place = range.start;
        while place < range.end {
            places.push(place);
            place = self.partner[place].max(place) + 1;
        }
        places
    }

    /// The candidates at file scope, and declarations without a body: ranges of places.
    pub fn outline(&self) -> Result<(Vec<Candidate>, Vec<std::ops::Range<usize>>), Error> {
        let (mut candidates, mut declarations) = (Vec::new(), Vec::new());
        let mut linkage = Vec::new(); // closing braces of extern "C"
        let (mut start, mut place) = (0, 0);
        while place < self.tokens.len() {
            let (open, close) = (place, self.partner[place]);
            if linkage.last() == Some(&place) {
                linkage.pop();
                start = place + 1;
            } else if self.is(place, ";") {
                self.no_statement(start)?;
                if !self.is_old_style(start, place) {
                    declarations.push(start..place);
                    start = place + 1;
                }
            } else if close > open && !self.is(place, "(") && !self.is(place, "[") {
                if self.is_linkage(start, place) {
                    linkage.push(close);
                    start = place + 1;
                    place += 1;
                    continue;
                }
                if self.is_function_like(start, place) {
                    let hidden = !self.is(open, "{") || !self.is(close, "}");
                    candidates.push(Candidate { header: start, open, close, hidden });
                    start = close + 1;
                }
            }
            place = close.max(place) + 1;
        }
        if start < self.tokens.len() {
            self.end_of_file(start)?;
            declarations.push(start..self.tokens.len());
        }
        Ok((candidates, declarations))
    }

    /// No macro makes a declaration of what begins with `return`.
    fn no_statement(&self, start: usize) -> Result<(), Error> {
        let words =
            ["return", "goto", "break", "continue", "if", "while", "for", "do", "switch", "case"];
        match words.iter().find(|word| self.is_word(start, word)) {
            Some(word) => Err(Error::Syntax {
                line: self.token(start).line,
                what: format!("'{word}' outside a function"),
            }),
            None => Ok(()),
        }
    }

    fn is_linkage(&self, start: usize, open: usize) -> bool {
        open == start + 2
            && self.is_word(start, "extern")
            && self.token(start + 1).kind == Kind::Text
    }

    /// Whether `start..end`, which ends before a semicolon, is the beginning of a K&R definition:
    /// `name(a, b) type a`, so that a declaration of a parameter ends here.
    fn is_old_style(&self, start: usize, end: usize) -> bool {
        if end - start > HEADER_TOKENS_MAX {
            return false;
        }
        let Some((names, after)) = self.old_style_names(start, end) else { return false };
        // The last of the declarations.
        let flat = self.flat(after..end);
        let own = flat.iter().rposition(|&place| self.is(place, ";")).map_or(0, |semi| semi + 1);
        let own = &flat[own..];
        let has = |text: &str| own.iter().any(|&place| self.is(place, text));
        let aggregate = own
            .iter()
            .any(|&place| ["struct", "union", "enum"].iter().any(|word| self.is_word(place, word)));
        !has("=")
            && (aggregate || !has("{"))
            && own.first().is_some_and(|&first| {
                (first..end).any(|place| {
                    self.any_word(place) && names.contains(&self.lexed.text(self.token(place)))
                })
            })
    }

    /// The names in the parentheses of a K&R definition, and the place after them.
    pub fn old_style_names(
        &self,
        start: usize,
        end: usize,
    ) -> Option<(Vec<std::borrow::Cow<'a, [u8]>>, usize)> {
        // From the end: what is before may be a macro with words for arguments.
        for place in self.flat(start..end).into_iter().rev() {
            let close = self.partner[place];
            if place == start || !self.is(place, "(") || close <= place || close + 1 >= end {
                continue;
            }
            let callable = self.any_word(place - 1) || self.is(place - 1, ")");
            let names: Vec<_> =
                (place + 1..close).step_by(2).map(|name| self.token(name)).collect();
            let commas = (place + 2..close).step_by(2).all(|comma| self.is(comma, ","));
            let listed = (close - place).is_multiple_of(2)
                && commas
                && names.iter().all(|name| name.kind == Kind::Word);
            if callable && listed && self.any_word(close + 1) {
                return Some((names.iter().map(|name| self.lexed.text(name)).collect(), close + 1));
            }
        }
        None
    }

    /// Whether the brace at `open` comes after something like `name(...)`.
    fn is_function_like(&self, start: usize, open: usize) -> bool {
        let flat = self.flat(start..open);
        let has = |text: &str| flat.iter().any(|&place| self.is(place, text));
        if start == open || has("=") || self.is_word(start, "typedef") || !has("(") {
            return false;
        }
        // The declarations of a K&R definition end here.
        if self.is(open - 1, ";") {
            return true;
        }
        // struct, union, enum with at most attributes and a name after it is an aggregate.
        let aggregate = flat.iter().rposition(|&place| {
            ["struct", "union", "enum"].iter().any(|word| self.is_word(place, word))
        });
        let Some(aggregate) = aggregate else { return true };
        let after = &flat[aggregate + 1..];
        let mut names = 0;
        let mut index = 0;
        while index < after.len() {
            let place = after[index];
            if self.is_attribute(place) {
                index += 2;
                continue;
            }
            // A struct's own body: what comes after it is a declarator.
            if self.is(place, "{") {
                return after[index..].iter().any(|&place| self.is(place, "("));
            }
            if self.is(place, "*") {
                return true;
            }
            if self.any_word(place) {
                names += 1;
            }
            if self.is(place, "(") && names >= 2 {
                return true;
            }
            index += 1;
        }
        false
    }

    /// Whether a word at a place takes an attribute in the parentheses after it.
    pub fn is_attribute(&self, place: usize) -> bool {
        let words = [
            "__attribute__",
            "__attribute",
            "__declspec",
            "_Alignas",
            "alignas",
            "__asm__",
            "asm",
            "__asm",
        ];
        self.any_word(place) && words.iter().any(|word| self.is_word(place, word))
    }

    /// What is left at the end must be macros: a word, or words with arguments.
    fn end_of_file(&self, start: usize) -> Result<(), Error> {
        let flat = self.flat(start..self.tokens.len());
        let single = flat.len() == 1 && self.any_word(start);
        let calls = flat.len().is_multiple_of(2)
            && flat.chunks(2).all(|pair| self.any_word(pair[0]) && self.is(pair[1], "("));
        if single || calls {
            return Ok(());
        }
        let what = "a declaration that never ends".into();
        Err(Error::Syntax { line: self.token(start).line, what })
    }
}

impl Stream<'_> {
    /// Whether a declaration can begin at a place inside a body: what is before it has ended.
    pub fn is_function_start(&self, place: usize) -> bool {
        place > 0 && ["{", "}", ";", ":"].iter().any(|punct| self.is(place - 1, punct))
    }

    /// Whether `inner` is inside parentheses, within `outer`, that come after a word.
    pub fn in_call(&self, outer: usize, inner: usize) -> bool {
        (outer + 1..inner).any(|place| {
            self.is(place, "(") && self.partner[place] > inner && self.any_word(place - 1)
        })
    }
}
