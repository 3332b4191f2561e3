// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a file says about its own macros and functions, wherever it says it.

use std::collections::{HashMap, HashSet};

use crate::Target;
use crate::lex::{Kind, Lexed, Token};

/// Functions of the C library, and built-in ones, that do not return.
const NORETURN: [&str; 22] = [
    "exit",
    "_exit",
    "_Exit",
    "quick_exit",
    "abort",
    "longjmp",
    "_longjmp",
    "siglongjmp",
    "__builtin_unreachable",
    "__builtin_trap",
    "__builtin_abort",
    "__builtin_exit",
    "__builtin_longjmp",
    "pthread_exit",
    "thrd_exit",
    "err",
    "errx",
    "verr",
    "verrx",
    "__assert_fail",
    "__assert",
    "__stack_chk_fail",
];

/// Why a function with an attribute, or with a word in it, cannot be instrumented.
const UNFIT: [(&str, &str); 3] = [
    ("naked", "naked: it has no prologue that could keep the scope"),
    ("no_instrument_function", "its attribute no_instrument_function asks for that"),
    ("interrupt", "an interrupt handler, which may not call ordinary functions"),
];

/// The same in the Linux kernel.
const UNFIT_KERNEL: [(&str, &str); 6] = [
    ("noinstr", "noinstr: it runs where nothing may be recorded"),
    ("__cpuidle", "__cpuidle: it runs where nothing may be recorded"),
    ("notrace", "notrace asks for that"),
    ("__init", "__init: its memory is freed after the boot"),
    ("__exit", "__exit: it may not be there"),
    ("__head", "__head: it runs before addresses are what they are"),
];

/// Words that the inserted code needs with their own meaning.
const NEEDED: [&str; 4] = ["struct", "void", "__attribute", "sizeof"];

#[derive(Debug, Default)]
pub struct Facts {
    /// Macros of this file whose text has brackets without partners: those brackets.
    pub brackets: HashMap<Vec<u8>, String>,
    macros: HashSet<Vec<u8>>,
    /// Macros of this file whose text has a block in it.
    pub with_body: HashSet<Vec<u8>>,
    /// Names of functions, and of macros for attributes, that are not to be instrumented, and why.
    pub unfit: HashMap<Vec<u8>, &'static str>,
    /// Names that do not return, and macros for the attribute.
    pub noreturn: HashSet<Vec<u8>>,
    /// Functions that choose another's code while a program is loaded.
    pub resolvers: HashSet<Vec<u8>>,
    /// A macro that takes the meaning of a word that the inserted code needs: line and word.
    pub redefined: Option<(u32, String)>,
    /// Whether the file was instrumented already: the line that says so.
    pub instrumented: Option<u32>,
}

fn bare(word: &[u8]) -> &[u8] {
    word.strip_prefix(b"__").and_then(|rest| rest.strip_suffix(b"__")).unwrap_or(word)
}

/// Whether a macro has parameters: their parenthesis follows the name at once.
pub fn is_callable(name: &Token, text: &[Token]) -> bool {
    text.first().is_some_and(|next| next.start == name.end && next.kind == Kind::Punct("("))
}

/// Whether what is included is the header of copies.
fn is_insert(lexed: &Lexed, words: &[Token]) -> bool {
    let path: Vec<&[u8]> = words.iter().map(|word| lexed.text(word)).collect();
    path.concat() == b"<casper/insert.h>"
}

/// Why a word makes what it is part of unfit.
pub fn unfit_word(word: &[u8]) -> Option<&'static str> {
    let word = bare(word);
    UNFIT.iter().find(|(name, _)| name.as_bytes() == word).map(|&(_, why)| why)
}

impl Facts {
    /// Read the directives, and what declarations say of functions.
    pub fn new(lexed: &Lexed, target: Target) -> Facts {
        let mut facts = Facts::default();
        if target == Target::Kernel {
            let words = UNFIT_KERNEL.iter().map(|&(word, why)| (word.as_bytes().to_vec(), why));
            facts.unfit.extend(words);
        }
        facts.noreturn.extend(NORETURN.iter().map(|name| name.as_bytes().to_vec()));
        for (line, words) in &lexed.directives {
            let [directive, name, rest @ ..] = &words[..] else { continue };
            if lexed.is_word(directive, "define") {
                facts.define(lexed, *line, name, rest);
            } else if lexed.is_word(directive, "include") && is_insert(lexed, &words[1..]) {
                facts.instrumented = Some(*line);
            }
        }
        // A source of the kernel may include <linux/casper.h> for events of its own.
        let unit = |two: &[Token]| {
            lexed.is_word(&two[0], "CASPER_UNIT") && two[1].kind == Kind::Punct("(")
        };
        if let Some(two) = lexed.tokens.windows(2).find(|two| unit(two)) {
            facts.instrumented.get_or_insert(lexed.line(&two[0]));
        }
        facts.resolvers(lexed);
        facts.prototypes(lexed);
        facts
    }

    fn define(&mut self, lexed: &Lexed, line: u32, name: &Token, mut text: &[Token]) {
        if is_callable(name, text) {
            let end = text.iter().position(|token| token.kind == Kind::Punct(")"));
            text = &text[end.map_or(text.len(), |end| end + 1)..];
        }
        let name = lexed.text(name).to_vec();
        self.macros.insert(name.clone());
        if let Some(needed) = NEEDED.iter().find(|needed| needed.as_bytes() == name) {
            self.redefined.get_or_insert_with(|| (line, (*needed).to_string()));
        }
        let mut open = String::new();
        for token in text {
            match token.kind {
                Kind::Punct(bracket @ ("(" | "[" | "{")) => open.push_str(bracket),
                Kind::Punct(bracket @ (")" | "]" | "}")) => {
                    let wanted = match bracket {
                        ")" => '(',
                        "]" => '[',
                        _ => '{',
                    };
                    if open.ends_with(wanted) {
                        open.pop();
                        if wanted == '{' {
                            self.with_body.insert(name.clone());
                        }
                    } else {
                        open.push_str(bracket);
                    }
                }
                Kind::Word => {
                    let word = lexed.text(token);
                    if let Some(&why) = unfit_word(word).as_ref().or(self.unfit.get(word)) {
                        self.unfit.insert(name.clone(), why);
                    }
                    if self.says_noreturn(word) {
                        self.noreturn.insert(name.clone());
                    }
                }
                _ => {}
            }
        }
        if !open.is_empty() {
            self.brackets.insert(name, open);
        }
    }

    /// Whether a word among a declaration's specifiers says that the function does not return.
    pub fn says_noreturn(&self, word: &[u8]) -> bool {
        matches!(bare(word), b"noreturn" | b"_Noreturn") || self.noreturn.contains(word)
    }

    /// What prototypes say of functions whose definition does not repeat it: every name before
    /// parentheses in a declaration with such a word.
    fn prototypes(&mut self, lexed: &Lexed) {
        let ends = |token: &Token| matches!(token.kind, Kind::Punct(";" | "{" | "}"));
        for declaration in lexed.tokens.split(ends) {
            let words = || declaration.iter().filter(|token| token.kind == Kind::Word);
            let unfit = words().find_map(|token| {
                let word = lexed.text(token);
                unfit_word(word).or(self.unfit.get(word).copied())
            });
            let noreturn = words().any(|token| {
                let word = lexed.text(token);
                self.says_noreturn(word) && !NORETURN.iter().any(|name| name.as_bytes() == word)
            });
            // A call among statements has its keywords or operators; a prototype begins with words.
            let declares = declaration.first().is_some_and(|first| first.kind == Kind::Word);
            if !declares || (unfit.is_none() && !noreturn) {
                continue;
            }
            let name = declaration.windows(2).find(|two| {
                two[0].kind == Kind::Word
                    && two[1].kind == Kind::Punct("(")
                    && !lexed.text(&two[0]).starts_with(b"__attribute")
                    && !self.macros.contains(lexed.text(&two[0]))
            });
            let Some(name) = name.map(|two| lexed.text(&two[0]).to_vec()) else { continue };
            if let Some(why) = unfit {
                self.unfit.insert(name.clone(), why);
            }
            if noreturn {
                self.noreturn.insert(name);
            }
        }
    }

    /// `__attribute__((ifunc("resolver")))`.
    fn resolvers(&mut self, lexed: &Lexed) {
        let lists = std::iter::once(&lexed.tokens[..])
            .chain(lexed.directives.iter().map(|directive| &directive.1[..]));
        for tokens in lists {
            for three in tokens.windows(3) {
                let ifunc = three[0].kind == Kind::Word && bare(lexed.text(&three[0])) == b"ifunc";
                if ifunc && three[1].kind == Kind::Punct("(") && three[2].kind == Kind::Text {
                    let text = lexed.text(&three[2]);
                    self.resolvers.insert(text[1..text.len() - 1].to_vec());
                }
            }
        }
    }
}
