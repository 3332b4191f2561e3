// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors that no macro can explain.
//!
//! A parser without the preprocessor meets much that is no C and becomes C by macros. Only what
//! cannot is called an error: `1 + ;`, `(a b]`, `return 0 }`.

use crate::Error;
use crate::facts::Facts;
use crate::header::is_keyword;
use crate::lex::{Item, Kind, Lexed};
use crate::outline::Stream;

/// For each token whether the one before it is its neighbour, without a directive between them.
pub fn contiguous(lexed: &Lexed) -> Vec<bool> {
    let mut contiguous = vec![false; lexed.tokens.len()];
    let mut before = false;
    for item in &lexed.items {
        match *item {
            Item::Token(token) => {
                contiguous[token] = before;
                before = true;
            }
            Item::Directive(_) => before = false,
        }
    }
    contiguous
}

/// Operators that need something after them.
const OPEN_ENDED: [&str; 29] = [
    "+", "-", "/", "%", "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "==",
    "!=", "<=", ">=", "<<", "&&", "||", "|", "^", "?", "~", "!", "->", ".",
];

/// Fail on an operator that nothing follows.
pub fn check(stream: &Stream, contiguous: &[bool]) -> Result<(), Error> {
    // Whether each bracket that is open may hold a macro's arguments.
    let mut open: Vec<bool> = Vec::new();
    for place in 0..stream.tokens.len() {
        let Kind::Punct(text) = stream.token(place).kind else { continue };
        if matches!(text, ")" | "]" | "}" | ";") && place > 0 {
            let arguments = open.last().copied().unwrap_or(false);
            let neighbours = contiguous[stream.tokens[place]];
            if let Kind::Punct(before) = stream.token(place - 1).kind
                && neighbours
                && !arguments
                && OPEN_ENDED.contains(&before)
            {
                let what = format!("nothing between '{before}' and '{text}'");
                return Err(Error::Syntax { line: stream.token(place - 1).line, what });
            }
        }
        match text {
            "(" | "[" | "{" => {
                let call = text == "("
                    && place > 0
                    && stream.any_word(place - 1)
                    && !is_keyword(&stream.lexed.text(stream.token(place - 1)));
                open.push(call || open.last().copied().unwrap_or(false));
            }
            ")" | "]" | "}" => {
                open.pop();
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a semicolon that the parser misses before a token cannot come from a macro.
pub fn needs_semicolon(stream: &Stream, place: usize) -> bool {
    let before = stream.token(place - 1);
    let next_ends = stream.is(place, "}")
        || (stream.any_word(place) && is_keyword(&stream.lexed.text(stream.token(place))));
    matches!(before.kind, Kind::Number | Kind::Text) && next_ends
}

/// Whether it most likely does not: `return x }`.
pub fn doubtful(stream: &Stream, facts: &Facts, place: usize) -> bool {
    if place == 0 || !stream.is(place, "}") || !stream.any_word(place - 1) {
        return false;
    }
    let word = stream.lexed.text(stream.token(place - 1));
    word.iter().any(u8::is_ascii_lowercase) && !facts.macros.contains(&*word)
}
