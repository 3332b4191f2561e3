// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which functions a source has: the variants' answers, put together.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::branches::{Branches, Variant};
use crate::facts::Facts;
use crate::header;
use crate::lex::{Kind, Lexed};
use crate::outline::{Candidate, Stream};
use crate::parse::{Body, Parser};
use crate::{Error, Exit, ExitKind, Function, SOURCE_BYTES_MAX, Target, syntax};

/// A function by the token of its opening brace.
struct Found {
    name: String,
    name_line: u32,
    first_line: u32,
    close: usize,
    insert_at: usize,
    parsed: bool,
    exits: BTreeSet<(usize, Exit)>,
    reason: Option<String>,
}

struct Search<'a> {
    lexed: &'a Lexed<'a>,
    facts: &'a Facts,
    parser: Parser,
    found: BTreeMap<usize, Found>,
    /// Definitions that were judged already: first, last and number of tokens.
    judged: HashMap<(usize, usize, usize), Vec<usize>>,
}

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
    let (variants, missed) = Branches::new(&lexed)?.variants(&lexed);
    let contiguous = syntax::contiguous(&lexed);
    let mut search = Search {
        lexed: &lexed,
        facts: &facts,
        parser: Parser::default(),
        found: BTreeMap::new(),
        judged: HashMap::new(),
    };
    let mut failed = None;
    let mut readable = Vec::new();
    let mut unsure = Vec::new();
    for variant in &variants {
        let outlined =
            Stream::new(&lexed, variant, &facts).and_then(|stream| Ok((stream.outline()?, stream)));
        match outlined {
            Ok(((candidates, declarations), stream)) => {
                syntax::check(&stream, &contiguous)?;
                let mut opens = HashSet::new();
                for candidate in &candidates {
                    search.macro_bodies(&stream, candidate.header..candidate.open);
                    opens.extend(search.judge(&stream, candidate)?);
                }
                for declaration in declarations {
                    search.macro_bodies(&stream, declaration);
                }
                readable.push((variant, opens));
            }
            Err(error) => {
                failed.get_or_insert(error);
                unsure.push(variant);
            }
        }
    }
    if let (true, Some(error)) = (readable.is_empty(), failed) {
        return Err(error);
    }
    for (variant, opens) in &readable {
        for (open, found) in &mut search.found {
            let in_macro = lexed.tokens[*open].kind == Kind::Word;
            if !in_macro && !opens.contains(open) && variant.tokens.binary_search(open).is_ok() {
                let reason = "what its braces are depends on #if";
                found.reason.get_or_insert_with(|| reason.to_string());
            }
        }
    }
    let mut functions: Vec<Function> =
        search.found.into_values().map(|found| found.function(&lexed)).collect();
    functions.extend(unread(&lexed, &missed, &readable));
    if let Some((line, word)) = &facts.redefined {
        for function in &mut functions {
            let reason = format!("line {line} redefines '{word}', which the inserted code needs");
            function.left_alone.get_or_insert(reason);
        }
    }
    functions.sort_by_key(|function| function.insert_at);
    Ok(functions)
}

/// Branches with braces in them that no readable variant covers, as functions without a name.
fn unread<V>(lexed: &Lexed, missed: &[u32], readable: &[(&Variant, V)]) -> Vec<Function> {
    let is_read = |token: usize| {
        readable.iter().any(|(variant, _)| variant.tokens.binary_search(&token).is_ok())
    };
    let unread = |&line: &u32| {
        let next = lexed.directives.iter().find(|directive| directive.line > line);
        let end_line = next.map_or(u32::MAX, |directive| directive.line);
        let first = lexed.tokens.partition_point(|token| token.line <= line);
        let end = lexed.tokens.partition_point(|token| token.line < end_line);
        let is_open = |&place: &usize| lexed.tokens[place].kind == Kind::Punct("{");
        let open = (first..end).find(is_open)?;
        (!is_read(open)).then(|| Function {
            name: "?".into(),
            line,
            end_line: lexed.tokens[end - 1].line,
            lines: 0,
            parsed: false,
            exits: vec![],
            identifier: None,
            not_selected: None,
            left_alone: Some(
                "a branch of #if that fits nothing around it, or is never read".into(),
            ),
            insert_at: lexed.tokens[open].start,
        })
    };
    missed.iter().filter_map(unread).collect()
}

impl Found {
    fn function(self, lexed: &Lexed) -> Function {
        let end_line = lexed.tokens[self.close].line;
        Function {
            name: self.name,
            line: self.name_line,
            end_line,
            lines: (end_line + 1).saturating_sub(self.first_line),
            parsed: self.parsed,
            exits: self.exits.into_iter().map(|(_, exit)| exit).collect(),
            identifier: None,
            not_selected: None,
            left_alone: self.reason,
            insert_at: self.insert_at,
        }
    }
}

impl Search<'_> {
    /// Judge a candidate and what is nested in it. Gives the tokens of the opening braces.
    fn judge(&mut self, stream: &Stream, candidate: &Candidate) -> Result<Vec<usize>, Error> {
        let token = |place: usize| stream.tokens[place];
        let key =
            (token(candidate.header), token(candidate.close), candidate.close - candidate.header);
        if let Some(opens) = self.judged.get(&key) {
            return Ok(opens.clone());
        }
        let mut opens = vec![token(candidate.open)];
        let Some(body) = self.parser.body(stream, self.facts, candidate) else {
            self.add(stream, candidate, None, Some("the parser gave up on it".into()));
            return Ok(opens);
        };
        self.missing(stream, &body)?;
        let mut scopes = vec![*candidate];
        self.add(stream, candidate, Some(&body), None);
        for nested in &body.nested {
            if nested.open <= candidate.open || nested.close >= candidate.close {
                continue;
            }
            // Loops made by macros look like definitions without being any.
            let sure = header::judge(stream, self.facts, nested, &mut self.parser).is_ok()
                && stream.is_function_start(nested.header);
            if !sure {
                continue;
            }
            let reason = stream.in_call(candidate.open, nested.open).then(|| {
                "it is an argument of a call, which may be a macro that prints it".to_string()
            });
            self.add(stream, nested, Some(&body), reason);
            opens.push(token(nested.open));
            scopes.push(*nested);
        }
        self.exits(stream, &body, &scopes);
        self.judged.insert(key, opens.clone());
        Ok(opens)
    }

    /// A semicolon that no macro can hide is missing.
    fn missing(&self, stream: &Stream, body: &Body) -> Result<(), Error> {
        for &place in &body.missing {
            let error = |line| Error::Syntax { line, what: "a semicolon is missing".into() };
            if place > 0 && syntax::needs_semicolon(stream, place) {
                return Err(error(stream.token(place - 1).line));
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        stream: &Stream,
        candidate: &Candidate,
        body: Option<&Body>,
        reason: Option<String>,
    ) {
        let judged = match reason {
            Some(reason) => Err(reason),
            None => header::judge(stream, self.facts, candidate, &mut self.parser),
        };
        let reason = match &judged {
            Err(reason) => Some(reason.clone()),
            Ok(header) => header
                .unfit
                .map(str::to_string)
                .or_else(|| self.body_reason(stream, candidate, body)),
        };
        let name = judged.map_or_else(|_| guess_name(stream, candidate), |header| header.name);
        let token = stream.token(name);
        let open = stream.tokens[candidate.open];
        let insert_at = stream.token(after_labels(stream, candidate)).end;
        let text = self.lexed.name(token);
        let close = stream.tokens[candidate.close];
        let parsed = body.is_some_and(|body| body.parsed);
        match self.found.get_mut(&open) {
            Some(found) => {
                found.parsed &= parsed;
                let differs = found.close != close || found.insert_at != insert_at;
                let reason = reason
                    .or_else(|| differs.then(|| "what its braces are depends on #if".to_string()));
                if let Some(reason) = reason {
                    found.reason.get_or_insert(reason);
                }
            }
            None => {
                let first_line = stream.token(candidate.header).line;
                let found = Found {
                    name: text,
                    name_line: token.line,
                    first_line,
                    close,
                    insert_at,
                    parsed,
                    exits: BTreeSet::new(),
                    reason,
                };
                self.found.insert(open, found);
            }
        }
    }

    /// Why a function with a sound header is left alone all the same.
    fn body_reason(
        &self,
        stream: &Stream,
        candidate: &Candidate,
        body: Option<&Body>,
    ) -> Option<String> {
        for place in candidate.open..candidate.close {
            let token = stream.token(place);
            if !stream.any_word(place) {
                continue;
            }
            let word = stream.lexed.text(token);
            if word.to_ascii_lowercase().windows(8).any(|part| part == b"musttail") {
                let what =
                    "a tail call that must stay one, and whoever is traced has work after it";
                return Some(format!("line {}: {what}", token.line));
            }
        }
        let doubtful = body?.missing.iter().find(|&&place| {
            place > candidate.open
                && place <= candidate.close
                && syntax::doubtful(stream, self.facts, place)
        })?;
        let line = stream.token(doubtful - 1).line;
        Some(format!("line {line}: a semicolon is missing, unless a macro has it"))
    }

    /// Give each exit to the innermost function around it.
    fn exits(&mut self, stream: &Stream, body: &Body, scopes: &[Candidate]) {
        let mut give = |place: usize, kind: ExitKind| {
            let around = scopes.iter().filter(|scope| scope.open < place && place <= scope.close);
            let Some(owner) = around.min_by_key(|scope| scope.close - scope.open) else { return };
            let token = stream.token(place);
            if let Some(found) = self.found.get_mut(&stream.tokens[owner.open]) {
                found.exits.insert((token.start, Exit { line: token.line, kind }));
            }
        };
        for scope in scopes {
            if !body.no_end.contains(&scope.close) {
                give(scope.close, ExitKind::End);
            }
        }
        let outer = scopes[0];
        let words = (outer.open..outer.close).filter(|&place| stream.is_word(place, "return"));
        for place in body.returns.iter().copied().chain(words) {
            give(place, ExitKind::Return);
        }
        body.noreturn_calls.iter().for_each(|&place| give(place, ExitKind::Noreturn));
    }

    /// Functions whose body is the text of a macro: `DEFINE(name)` at file scope.
    fn macro_bodies(&mut self, stream: &Stream, range: std::ops::Range<usize>) {
        for pair in stream.flat(range).windows(2) {
            let (place, next) = (pair[0], pair[1]);
            if !stream.any_word(place) || !stream.is(next, "(") {
                continue;
            }
            let token = stream.token(place);
            let name = stream.lexed.text(token);
            if !self.facts.with_body.contains(&*name) || !stream.variant.is_macro(&name, place) {
                continue;
            }
            let found = Found {
                name: self.lexed.name(token),
                name_line: token.line,
                first_line: token.line,
                close: stream.tokens[stream.partner[next]],
                insert_at: token.start,
                parsed: false,
                exits: BTreeSet::new(),
                reason: Some("its body is the text of a macro".into()),
            };
            self.found.entry(stream.tokens[place]).or_insert(found);
        }
    }
}

/// The name to list a function under that is left alone.
fn guess_name(stream: &Stream, candidate: &Candidate) -> usize {
    let flat = stream.flat(candidate.header..candidate.open);
    flat.windows(2)
        .rfind(|two| {
            let word = stream.lexed.text(stream.token(two[0]));
            stream.any_word(two[0])
                && stream.is(two[1], "(")
                && !stream.is_attribute(two[0])
                && !header::is_keyword(&word)
        })
        .map_or(candidate.header, |two| two[0])
}

/// The token after which the scope is declared: label declarations must come first in a block.
fn after_labels(stream: &Stream, candidate: &Candidate) -> usize {
    let mut place = candidate.open;
    while place + 1 < candidate.close && stream.is_word(place + 1, "__label__") {
        let end = (place + 1..candidate.close).find(|&semi| stream.is(semi, ";"));
        let Some(end) = end else { break };
        place = end;
    }
    place
}
