// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which functions a source has, and where they are left.

use crate::facts::Facts;
use crate::lex::{Kind, Lexed};
use crate::read::{Found, functions};
use crate::{Error, Exit, ExitKind, Function, SOURCE_BYTES_MAX, Target};

/// Find the functions of a program's source, in the order of their bodies.
pub fn analyse(source: &[u8]) -> Result<Vec<Function>, Error> {
    analyse_for(source, Target::Program)
}

/// The same for sources of any kind.
pub(crate) fn analyse_for(source: &[u8], target: Target) -> Result<Vec<Function>, Error> {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(Error::TooLarge(source.len()));
    }
    let lexed = Lexed::new(source)?;
    let facts = Facts::new(&lexed, target);
    if let Some(line) = facts.instrumented {
        return Err(Error::Instrumented(line));
    }
    let found = functions(&lexed, &facts)?;
    let is_musttail = |&index: &usize| {
        let word = lexed.text(&lexed.tokens[index]).to_ascii_lowercase();
        word.windows(8).any(|part| part == b"musttail")
    };
    let musttail = (0..lexed.tokens.len()).filter(is_musttail).collect();
    let body = Body { lexed: &lexed, facts: &facts, musttail };
    let mut all = Vec::new();
    // An exit is the innermost function's.
    for (&open, of) in &found {
        let nested: Vec<(usize, usize)> = found
            .range(open + 1..of.close)
            .filter(|(_, inner)| inner.close < of.close)
            .map(|(&open, inner)| (open, inner.close))
            .collect();
        all.push(body.function(open, of, &nested));
    }
    if let Some((line, word)) = &facts.redefined {
        for function in &mut all {
            let reason = format!("line {line} redefines '{word}', which the inserted code needs");
            function.left_alone.get_or_insert(reason);
        }
    }
    Ok(all)
}

struct Body<'a> {
    lexed: &'a Lexed,
    facts: &'a Facts,
    /// Tokens that demand a tail call.
    musttail: Vec<usize>,
}

impl Body<'_> {
    fn function(&self, open: usize, found: &Found, nested: &[(usize, usize)]) -> Function {
        let lexed = self.lexed;
        let token = |index: usize| &lexed.tokens[index];
        let end_line = lexed.line(token(found.close));
        let musttail = self.musttail.partition_point(|&index| index < open);
        let musttail = self.musttail.get(musttail).filter(|&&index| index < found.close);
        let musttail = musttail.map(|&index| {
            let line = lexed.line(token(index));
            format!("line {line}: musttail needs a tail call, and a traced function records its end after the call")
        });
        Function {
            name: lexed.name(token(found.name)),
            line: lexed.line(token(found.name)),
            end_line,
            lines: (end_line + 1).saturating_sub(lexed.line(token(found.first))),
            exits: if self.is(open, "{") { self.exits(open, found.close, nested) } else { vec![] },
            identifier: None,
            not_selected: None,
            left_alone: found.reason.clone().or(musttail),
            insert_at: lexed.source_end(token(self.after_labels(open, found.close))),
        }
    }

    fn is(&self, index: usize, punct: &str) -> bool {
        matches!(self.lexed.tokens[index].kind, Kind::Punct(text) if text == punct)
    }

    fn is_word(&self, index: usize, word: &str) -> bool {
        self.lexed.is_word(&self.lexed.tokens[index], word)
    }

    /// The token after which the scope is declared: label declarations must come first in a block.
    fn after_labels(&self, open: usize, close: usize) -> usize {
        let mut place = open;
        while place + 1 < close && self.is_word(place + 1, "__label__") {
            let other = |&index: &usize| {
                self.lexed.tokens[index].kind != Kind::Word && !self.is(index, ",")
            };
            let Some(end) = (place + 1..close).find(other).filter(|&end| self.is(end, ";")) else {
                break;
            };
            place = end;
        }
        place
    }

    /// Each `return`, each call of what does not return, and the end, unless what comes before it leaves.
    fn exits(&self, open: usize, close: usize, nested: &[(usize, usize)]) -> Vec<Exit> {
        let mut exits = Vec::new();
        // The first token of the last statement at the body's own level, and how deep the place is.
        let (mut last, mut begins, mut depth) = (None, true, 0);
        let mut index = open + 1;
        while index < close {
            if let Ok(place) = nested.binary_search_by_key(&index, |&(inner, _)| inner) {
                (index, last, begins) = (nested[place].1 + 1, None, true);
                continue;
            }
            if begins && depth == 0 && !self.is(index, ";") {
                last = Some(index);
            }
            if self.is_word(index, "return") {
                exits.push(self.exit(index, ExitKind::Return));
            } else if self.says_noreturn(index) {
                exits.push(self.exit(index, ExitKind::Noreturn));
            }
            let Kind::Punct(punct) = self.lexed.tokens[index].kind else {
                (index, begins) = (index + 1, false);
                continue;
            };
            match punct {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            // The colon of a label, not one behind `return a ?`.
            let label = punct == ":" && !last.is_some_and(|first| self.is_word(first, "return"));
            begins = label || matches!(punct, ";" | "{" | "}");
            index += 1;
        }
        let leaves = |first: usize| {
            self.is_word(first, "return")
                || self.is_word(first, "goto")
                || self.says_noreturn(first)
        };
        if exits.is_empty() || !last.is_some_and(leaves) {
            exits.push(self.exit(close, ExitKind::End));
        }
        exits
    }

    fn exit(&self, index: usize, kind: ExitKind) -> Exit {
        Exit { line: self.lexed.line(&self.lexed.tokens[index]), kind }
    }

    /// Whether a statement at a token calls what does not return.
    fn says_noreturn(&self, index: usize) -> bool {
        let token = &self.lexed.tokens[index];
        token.kind == Kind::Word
            && self.is(index + 1, "(")
            && (["{", "}", ";", ":", ")"].iter().any(|before| self.is(index - 1, before))
                || self.is_word(index - 1, "else"))
            && self.facts.says_noreturn(self.lexed.text(token))
    }
}
