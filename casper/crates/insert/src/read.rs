// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `#if` and its kin, and which braces hold functions.
//!
//! Nothing is evaluated but `#if 0`, `#if 1` and `__cplusplus`. Instead the source is read in all ways at once. A
//! reading is a choice of branches, with the brackets that are open in it; at `#endif`, those with the same brackets
//! become one. A reading whose brackets do not match is none that a compiler is meant to see.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use crate::Error;
use crate::facts::{Facts, is_callable};
use crate::header::{Header, STATEMENTS, TOKENS_MAX, is_in};
use crate::lex::{Item, Kind, Lexed, Token};
use crate::names::{CHANGES_MAX, Change, Chosen, Names, Parts};

/// Readings that are followed at a time, and once their `#if`s have copied so many words in all, so that hostile input
/// takes no quadratic time.
const READINGS_MAX: usize = 64;
const COPIED_MAX: usize = 20_000_000;
const READINGS_THEN: usize = 2;
/// Compilers allow 63 at least; without a limit hostile input would take quadratic time.
const NESTING_MAX: usize = 256;
/// Of one `#if`, for the same reason.
const BRANCHES_MAX: usize = 1000;
/// Brackets in brackets; compilers allow 256 at least.
const DEPTH_MAX: usize = 1000;

const HIDDEN: &str = "its braces are inside a macro";
const DEPENDS: &str = "what its braces are depends on #if";

/// A function's braces.
#[derive(Debug)]
pub struct Found {
    pub name: usize,
    /// First token of its definition.
    pub first: usize,
    /// Token of its closing brace, or of the macro that has it.
    pub close: usize,
    /// Why it is left alone.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Condition {
    Known(bool),
    /// An atom, and the value that it must have.
    Atom(usize, bool),
}

impl Condition {
    fn not(self) -> Condition {
        match self {
            Condition::Known(value) => Condition::Known(!value),
            Condition::Atom(atom, value) => Condition::Atom(atom, !value),
        }
    }
}

/// What a `{` is of that opens a scope.
#[derive(Debug, Clone, Copy, PartialEq, Hash)]
enum Scope {
    File,
    /// What `extern "C"` holds.
    Linkage,
    Block,
    Function,
    /// `({ … })`
    Expression,
}

impl Scope {
    fn is_in_function(self) -> bool {
        !matches!(self, Scope::File | Scope::Linkage)
    }
}

/// A scope with what its current statement, or declaration, has so far.
#[derive(Debug, Clone)]
struct Frame {
    scope: Scope,
    open: usize,
    /// Of a function the tokens before its brace, its name, and why it is left alone.
    definition: Vec<usize>,
    name: usize,
    reason: Option<String>,
    statement: Vec<usize>,
    /// The statement is none that a function's definition may begin.
    plain: bool,
    /// Brackets that are open in the statement: their tokens, and what closes them.
    brackets: Vec<(usize, char)>,
    in_call: bool,
    depth: usize,
    /// The mark of the frame below.
    below: u64,
}

impl Frame {
    fn new(scope: Scope, open: usize) -> Frame {
        Frame {
            scope,
            open,
            definition: vec![],
            name: 0,
            reason: None,
            statement: vec![],
            plain: false,
            brackets: vec![],
            in_call: false,
            depth: 0,
            below: 0,
        }
    }

    /// Frames in which the same can follow have the same. Which brace opened a block matters to nothing.
    fn mark(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let function = (self.scope == Scope::Function).then_some((self.open, &self.definition));
        (self.scope, function, self.plain, &self.statement, self.below).hash(&mut hasher);
        self.brackets.iter().for_each(|(_, closer)| closer.hash(&mut hasher));
        hasher.finish()
    }

    fn end_statement(&mut self) {
        self.statement.clear();
        self.plain = false;
    }
}

struct Below {
    frame: Frame,
    next: Option<Rc<Below>>,
}

#[derive(Clone)]
struct Reading {
    top: Frame,
    below: Option<Rc<Below>>,
    chosen: Chosen,
}

impl Reading {
    /// The same where a condition holds.
    fn with(&self, condition: Condition, parts: &Parts) -> Option<Reading> {
        let mut with = self.clone();
        match condition {
            Condition::Known(false) => return None,
            Condition::Known(true) => {}
            Condition::Atom(atom, value) => {
                if self.chosen.holds(parts, atom) == Some(!value) {
                    return None;
                }
                with.chosen.insert(atom, value);
                let parts = parts.get(&atom).into_iter().flatten().filter(|_| value);
                parts.for_each(|&(part, value)| with.chosen.insert(part, value));
            }
        }
        Some(with)
    }
}

/// An `#if` that is open.
struct Group {
    line: u32,
    branches: usize,
    /// Readings that took no branch yet, and those that have taken one.
    waiting: Vec<Reading>,
    done: Vec<Reading>,
}

struct Reader<'a> {
    lexed: &'a Lexed,
    facts: &'a Facts,
    atoms: HashMap<Vec<u8>, usize>,
    parts: Parts,
    changes: HashMap<Vec<u8>, Vec<Change>>,
    readings: Vec<Reading>,
    groups: Vec<Group>,
    copied: usize,
    /// Functions by the tokens of their opening braces.
    found: BTreeMap<usize, Found>,
    /// Braces that were no function's in a reading.
    plain: HashSet<usize>,
    /// Why a reading ended first.
    failed: Option<Error>,
}

/// The functions of a source, by the tokens of their opening braces.
pub fn functions(lexed: &Lexed, facts: &Facts) -> Result<BTreeMap<usize, Found>, Error> {
    let first = Reading { top: Frame::new(Scope::File, 0), below: None, chosen: Chosen::default() };
    let mut reader = Reader {
        lexed,
        facts,
        atoms: HashMap::new(),
        parts: HashMap::new(),
        changes: HashMap::new(),
        readings: vec![first],
        groups: vec![],
        copied: 0,
        found: BTreeMap::new(),
        plain: HashSet::new(),
        failed: None,
    };
    for item in &lexed.items {
        match *item {
            Item::Directive(index) => reader.directive(index)?,
            Item::Token(index) => reader.token(index)?,
        }
    }
    reader.end()
}

impl Reader<'_> {
    fn end(mut self) -> Result<BTreeMap<usize, Found>, Error> {
        if let Some(group) = self.groups.first() {
            return Err(Error::Syntax { line: group.line, what: "#if without #endif".into() });
        }
        let (whole, open): (Vec<Reading>, Vec<Reading>) = std::mem::take(&mut self.readings)
            .into_iter()
            .partition(|reading| reading.below.is_none() && reading.top.brackets.is_empty());
        if whole.is_empty() {
            let unclosed = open.first().map(|reading| {
                let bracket = reading.top.brackets.last().map_or(reading.top.open, |last| last.0);
                let token = &self.lexed.tokens[bracket];
                let what = format!("'{}' that is never closed", self.lexed.name(token));
                Error::Syntax { line: self.lexed.line(token), what }
            });
            let nothing = || Error::Syntax { line: 1, what: "no choice of #if is C".into() };
            return Err(unclosed.or(self.failed).unwrap_or_else(nothing));
        }
        for (open, found) in &mut self.found {
            if self.plain.contains(open) {
                found.reason.get_or_insert_with(|| DEPENDS.to_owned());
            }
        }
        Ok(self.found)
    }

    fn directive(&mut self, index: usize) -> Result<(), Error> {
        let (line, tokens) = &self.lexed.directives[index];
        let error = |what: String| Err(Error::Syntax { line: *line, what });
        let name = tokens.first().map(|token| self.lexed.name(token)).unwrap_or_default();
        match name.as_str() {
            "if" | "ifdef" | "ifndef" => {
                let condition = self.condition(&name, &tokens[1..]);
                let readings = self.joined(vec![]);
                if self.groups.len() == NESTING_MAX {
                    return error(format!("#if nested deeper than {NESTING_MAX}"));
                }
                let (waiting, done) = (readings, vec![]);
                self.groups.push(Group { line: *line, branches: 0, waiting, done });
                self.take(condition);
            }
            "elif" | "elifdef" | "elifndef" | "else" => {
                let condition = self.condition(&name, &tokens[1..]);
                let readings = std::mem::take(&mut self.readings);
                let Some(group) = self.groups.last_mut() else {
                    return error(format!("#{name} without #if"));
                };
                group.done.extend(readings);
                group.branches += 1;
                if group.branches > BRANCHES_MAX {
                    return error(format!("#if with more than {BRANCHES_MAX} branches"));
                }
                self.take(condition);
            }
            "endif" => {
                let Some(group) = self.groups.pop() else {
                    return error("#endif without #if".into());
                };
                let mut all = group.done;
                all.append(&mut self.readings);
                all.extend(group.waiting);
                self.readings = self.joined(all);
            }
            "define" | "undef" => {
                let [_, defined, rest @ ..] = &tokens[..] else { return Ok(()) };
                let defines = name == "define";
                let name = self.lexed.text(defined);
                if let Some(&atom) = self.atoms.get(&[b"defined ", name].concat()) {
                    for reading in &mut self.readings {
                        reading.chosen.0.retain(|&(of, _)| of != atom);
                    }
                }
                let chosen = self.readings.iter().map(|reading| reading.chosen.clone()).collect();
                let change = (defines && is_callable(defined, rest), chosen);
                self.changes.entry(name.to_vec()).or_default().push(change);
            }
            _ => {}
        }
        Ok(())
    }

    /// Let those that wait at the last `#if` take the branch with this condition, where they can.
    fn take(&mut self, condition: Condition) {
        let Some(group) = self.groups.last_mut() else { return };
        let waiting = std::mem::take(&mut group.waiting);
        self.readings =
            waiting.iter().filter_map(|reading| reading.with(condition, &self.parts)).collect();
        group.waiting = waiting
            .iter()
            .filter_map(|reading| reading.with(condition.not(), &self.parts))
            .collect();
    }

    /// `all`, or the readings there are, with one of each kind.
    fn joined(&mut self, mut all: Vec<Reading>) -> Vec<Reading> {
        all.append(&mut self.readings);
        let mut kinds: Vec<(u64, Reading)> = Vec::new();
        for reading in all {
            let mark = reading.top.mark();
            self.copied += reading.top.statement.len() + reading.top.brackets.len();
            let most = if self.copied < COPIED_MAX { READINGS_MAX } else { READINGS_THEN };
            if let Some((_, kind)) = kinds.iter_mut().find(|kind| kind.0 == mark) {
                kind.chosen.0.retain(|&(atom, value)| reading.chosen.get(atom) == Some(value));
            } else if kinds.len() < most {
                kinds.push((mark, reading));
            }
        }
        kinds.into_iter().map(|(_, reading)| reading).collect()
    }

    fn atom(&mut self, text: Vec<u8>) -> Condition {
        let next = self.atoms.len();
        Condition::Atom(*self.atoms.entry(text).or_insert(next), true)
    }

    fn condition(&mut self, directive: &str, tokens: &[Token]) -> Condition {
        let lexed = self.lexed;
        let words: Vec<&[u8]> = tokens.iter().map(|token| lexed.text(token)).collect();
        let name = words.first().copied().unwrap_or_default();
        match directive {
            "else" => Condition::Known(true),
            "ifdef" | "elifdef" => self.expression(&[b"defined", name]),
            "ifndef" | "elifndef" => self.expression(&[b"!", b"defined", name]),
            _ => self.expression(&words),
        }
    }

    fn expression(&mut self, words: &[&[u8]]) -> Condition {
        match *words {
            [b"0"] => return Condition::Known(false),
            [b"1"] => return Condition::Known(true),
            // C++ is not ours to read.
            [b"__cplusplus", ..] | [b"defined", b"__cplusplus"] => return Condition::Known(false),
            [b"defined", b"(", name, b")"] => return self.expression(&[b"defined", name]),
            [b"!", _] | [b"!", b"defined", _] | [b"!", b"defined", b"(", _, b")"] => {
                return self.expression(&words[1..]).not();
            }
            _ => {}
        }
        let whole = self.atom(words.join(&b" "[..]));
        let is_list = words.contains(&&b"&&"[..]);
        // Parentheses but those of `defined(A)` may hold what goes across `&&`.
        let grouped = (0..words.len()).any(|at| {
            let of_defined = at > 0 && words[at - 1] == b"defined";
            matches!(words[at], b"||" | b"?") || (words[at] == b"(" && !of_defined)
        });
        let (true, false, Condition::Atom(atom, _)) = (is_list, grouped, whole) else {
            return whole;
        };
        let mut parts = Vec::new();
        for part in words.split(|word| *word == b"&&") {
            match self.expression(part) {
                Condition::Known(false) => return Condition::Known(false),
                Condition::Known(true) => {}
                Condition::Atom(atom, value) => parts.push((atom, value)),
            }
        }
        if parts.len() <= CHANGES_MAX {
            self.parts.insert(atom, parts);
        }
        whole
    }

    fn token(&mut self, index: usize) -> Result<(), Error> {
        let token = &self.lexed.tokens[index];
        let error = |what: String| Error::Syntax { line: self.lexed.line(token), what };
        let mut hidden = false;
        let brackets = match token.kind {
            Kind::Bad => {
                // Text that is not C: the compiler cannot be meant to see it.
                self.readings.clear();
                let what = "a quote without its end, or a byte that C does not know";
                return if self.groups.is_empty() { Err(error(what.into())) } else { Ok(()) };
            }
            Kind::Punct(text @ ("(" | "[" | "{" | ")" | "]" | "}")) => text,
            Kind::Word => {
                let brackets = self.facts.brackets.get(self.lexed.text(token));
                hidden = brackets.is_some();
                brackets.map_or("", String::as_str)
            }
            _ => "",
        };
        let mut readings = std::mem::take(&mut self.readings);
        if brackets.is_empty() {
            readings.iter_mut().for_each(|reading| self.word(reading, index));
        }
        for bracket in brackets.chars() {
            let count = readings.len();
            readings.retain_mut(|reading| match self.bracket(reading, index, bracket, hidden) {
                Ok(()) => true,
                Err(what) => {
                    self.failed.get_or_insert_with(|| error(what));
                    false
                }
            });
            if let (0, 1.., true, Some(error)) =
                (readings.len(), count, self.groups.is_empty(), &self.failed)
            {
                return Err(error.clone());
            }
        }
        self.readings = readings;
        Ok(())
    }

    /// What is no bracket.
    fn word(&mut self, reading: &mut Reading, index: usize) {
        let top = &mut reading.top;
        let in_function = top.scope.is_in_function();
        let token = &self.lexed.tokens[index];
        if top.brackets.is_empty() {
            match token.kind {
                Kind::Punct(";") => {
                    let old_style = !in_function
                        && !top.plain
                        && Header::new(self.lexed, &top.statement).is_old_style();
                    return if old_style { top.statement.push(index) } else { top.end_statement() };
                }
                Kind::Punct(":") if in_function => return top.end_statement(),
                // An initializer, or an expression.
                Kind::Punct("=") => top.plain = true,
                Kind::Word if in_function && !top.plain && top.statement.is_empty() => {
                    top.plain = is_in(STATEMENTS, self.lexed.text(token));
                }
                _ => {}
            }
        }
        self.add(top, index);
    }

    fn add(&self, top: &mut Frame, index: usize) {
        top.plain |= top.statement.len() == TOKENS_MAX;
        match top.plain {
            true => top.statement.clear(),
            false => top.statement.push(index),
        }
    }

    fn bracket(
        &mut self,
        reading: &mut Reading,
        index: usize,
        bracket: char,
        hidden: bool,
    ) -> Result<(), String> {
        if let ')' | ']' | '}' = bracket {
            return self.close(reading, index, bracket, hidden);
        }
        let top = &mut reading.top;
        if top.brackets.len() + top.depth > DEPTH_MAX {
            return Err(format!("brackets nested deeper than {DEPTH_MAX}"));
        }
        if bracket == '{'
            && let Some(mut frame) = self.opened(reading, index, hidden)
        {
            let top = &mut reading.top;
            frame.depth = top.depth + top.brackets.len() + 1;
            if frame.scope == Scope::Function {
                frame.definition = std::mem::take(&mut top.statement);
            } else {
                self.plain.insert(index);
            }
            frame.below = top.mark();
            let below = std::mem::replace(top, frame);
            reading.below = Some(Rc::new(Below { frame: below, next: reading.below.take() }));
            return Ok(());
        }
        if bracket == '{' {
            self.plain.insert(index);
        } else if bracket == '(' && reading.top.brackets.is_empty() {
            self.call(reading, index);
        }
        let top = &mut reading.top;
        top.brackets.push((
            index,
            match bracket {
                '(' => ')',
                '[' => ']',
                _ => '}',
            },
        ));
        self.add(top, index);
        Ok(())
    }

    fn names<'r>(&'r self, reading: &'r Reading) -> Names<'r> {
        Names {
            facts: self.facts,
            changes: &self.changes,
            chosen: &reading.chosen,
            parts: &self.parts,
        }
    }

    /// A word with parentheses behind it.
    fn call(&mut self, reading: &mut Reading, index: usize) {
        let Some(&before) = reading.top.statement.last() else { return };
        let name = self.lexed.text(&self.lexed.tokens[before]);
        if reading.top.scope.is_in_function() {
            // No type: a call, or a loop made by a macro.
            reading.top.plain |= reading.top.statement.len() == 1;
        } else if self.facts.with_body.contains(name) && self.names(reading).is_callable(name) {
            self.found.entry(before).or_insert_with(|| Found {
                name: before,
                first: before,
                close: index,
                reason: Some("its body is the text of a macro".into()),
            });
        }
    }

    /// What a `{` opens; `None` for an aggregate's, or an initializer's.
    fn opened(&self, reading: &Reading, index: usize, hidden: bool) -> Option<Frame> {
        let top = &reading.top;
        let is_call = |&(open, closer): &(usize, char)| {
            closer == ')' && open > 0 && self.lexed.tokens[open - 1].kind == Kind::Word
        };
        let mut frame = Frame::new(Scope::Block, index);
        frame.in_call = top.in_call || top.brackets.iter().any(is_call);
        if let Some(&(open, closer)) = top.brackets.last() {
            frame.scope = Scope::Expression;
            return (closer == ')' && open + 1 == index).then_some(frame);
        }
        let (lexed, in_function) = (self.lexed, top.scope.is_in_function());
        if let ([first, second], false) = (&top.statement[..], in_function)
            && lexed.is_word(&lexed.tokens[*first], "extern")
            && lexed.tokens[*second].kind == Kind::Text
        {
            frame.scope = Scope::Linkage;
            return Some(frame);
        }
        let header = Header::new(lexed, &top.statement);
        if !top.plain && !top.statement.is_empty() && header.is_functions() {
            let named = header.name(&self.names(reading));
            if !in_function || named.is_ok() {
                frame.scope = Scope::Function;
                (frame.name, frame.reason) = match named {
                    Ok((name, unfit)) => (name, unfit.map(str::to_owned)),
                    Err(why) => (header.guess(), Some(why)),
                };
                if hidden {
                    frame.reason = Some(HIDDEN.to_owned());
                } else if frame.in_call {
                    let why = "it is an argument of a call, which may be a macro that prints it";
                    frame.reason = Some(why.to_owned());
                }
                return Some(frame);
            }
        }
        (in_function && !header.is_aggregate()).then_some(frame)
    }

    fn close(
        &mut self,
        reading: &mut Reading,
        index: usize,
        bracket: char,
        hidden: bool,
    ) -> Result<(), String> {
        let top = &mut reading.top;
        let (open, closer) = match (top.brackets.last(), top.scope) {
            (Some(&last), _) => last,
            (None, Scope::File) => return Err(format!("'{bracket}' that nothing opened")),
            (None, _) => (top.open, '}'),
        };
        if closer != bracket {
            let token = &self.lexed.tokens[open];
            let (text, line) = (self.lexed.name(token), self.lexed.line(token));
            return Err(format!("'{bracket}' where the '{text}' of line {line} is open"));
        }
        if top.brackets.pop().is_some() {
            self.add(top, index);
            return Ok(());
        }
        let Some(below) = reading.below.take() else { return Ok(()) };
        let closed = std::mem::replace(&mut reading.top, below.frame.clone());
        reading.below.clone_from(&below.next);
        match closed.scope {
            Scope::Expression => {
                self.add(&mut reading.top, open);
                self.add(&mut reading.top, index);
                return Ok(());
            }
            Scope::Function => {
                let hidden = hidden.then(|| HIDDEN.to_owned());
                let Frame { open, definition, name, reason, .. } = closed;
                let first = definition[0];
                let new = || Found { name, first, close: index, reason: None };
                let found = self.found.entry(open).or_insert_with(new);
                let differs = (found.close != index).then(|| DEPENDS.to_owned());
                found.reason = found.reason.take().or(hidden).or(reason).or(differs);
            }
            _ => {}
        }
        reading.top.end_statement();
        Ok(())
    }
}
