// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C parser: tree-sitter with its C grammar, given one header or one body at a time.
//!
//! An error in one function cannot spread to the next, the text is what one compiler would see, and
//! the parser's time is bounded by a function's length.

use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, TreeCursor};

use crate::facts::Facts;
use crate::lex::Kind;
use crate::outline::{Candidate, Stream};

/// Of the parser's own steps (it reports every hundred), per byte and in all. A bound in steps, not
/// seconds, gives the same result on each machine.
const REPORTS_MIN: usize = 5_000;
const REPORTS_PER_BYTE: usize = 1;

/// Of a body; some ambiguous text takes the parser a kilobyte a token.
const BODY_TOKENS_MAX: usize = 400_000;

/// Text for the parser, and which token each part of it is.
#[derive(Debug, Default)]
pub struct Text {
    bytes: Vec<u8>,
    places: Vec<(usize, usize)>,
}

impl Text {
    /// Add a token, in ASCII and without what the grammar does not know.
    pub fn push(&mut self, stream: &Stream, place: usize) {
        let token = stream.token(place);
        let text = stream.lexed.text(token);
        self.places.push((self.bytes.len(), place));
        match token.kind {
            Kind::Word => match &*text {
                b"__const" | b"__const__" => self.bytes.extend(b"const"),
                b"__volatile" | b"__volatile__" => self.bytes.extend(b"volatile"),
                b"__signed" | b"__signed__" => self.bytes.extend(b"signed"),
                b"__extension__" | b"_Complex" | b"__complex__" => {}
                word if word.iter().all(|&byte| byte.is_ascii() && byte != b'\\') => {
                    self.bytes.extend(word);
                }
                word => self.bytes.extend(word.iter().map(|_| b'u')),
            },
            Kind::Number => self.bytes.push(b'1'),
            Kind::Text if text.ends_with(b"'") => self.bytes.extend(b"'c'"),
            Kind::Text => self.bytes.extend(b"\"s\""),
            Kind::Punct(punct) => self.bytes.extend(punct.as_bytes()),
            Kind::Bad => {}
        }
        self.bytes.push(b' ');
    }

    /// Add text that is no token of the source.
    pub fn push_str(&mut self, text: &str) {
        self.bytes.extend(text.as_bytes());
        self.bytes.push(b' ');
    }

    /// The token that an offset is in, or the next one.
    fn place(&self, offset: usize) -> Option<usize> {
        let index = self.places.partition_point(|&(start, _)| start < offset);
        self.places.get(index).map(|&(_, place)| place)
    }
}

/// What the parser says of a body.
#[derive(Debug, Default)]
pub struct Body {
    pub returns: Vec<usize>,
    /// Each statement that is a call of a function that does not return.
    pub noreturn_calls: Vec<usize>,
    /// Blocks whose last statement is one of those, or a goto: by their closing brace.
    pub no_end: Vec<usize>,
    pub nested: Vec<Candidate>,
    /// Whether all of it is C without the help of macros.
    pub parsed: bool,
    /// Where a semicolon is missing: the token before which it should be.
    pub missing: Vec<usize>,
}

pub struct Parser {
    inner: tree_sitter::Parser,
}

impl Default for Parser {
    fn default() -> Parser {
        let mut inner = tree_sitter::Parser::new();
        let language = tree_sitter_c::LANGUAGE.into();
        inner.set_language(&language).expect("grammar and library are of versions that fit");
        Parser { inner }
    }
}

impl Parser {
    fn parse(&mut self, text: &Text) -> Option<tree_sitter::Tree> {
        let mut left = REPORTS_MIN + text.bytes.len() * REPORTS_PER_BYTE;
        let mut progress = |_: &tree_sitter::ParseState| {
            left = left.saturating_sub(1);
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = ParseOptions::new().progress_callback(&mut progress);
        let bytes = &text.bytes[..];
        let mut read = |offset: usize, _| bytes.get(offset..).unwrap_or(&[]);
        let tree = self.inner.parse_with_options(&mut read, None, Some(options));
        if tree.is_none() {
            self.inner.reset();
        }
        tree
    }

    /// The place of the name, if the text is one function definition and nothing else.
    pub fn definition(&mut self, text: &Text) -> Option<usize> {
        let tree = self.parse(text)?;
        let root = tree.root_node();
        let definition = root.named_child(0)?;
        let whole = root.named_child_count() == 1
            && !root.has_error()
            && definition.kind() == "function_definition";
        let mut node = definition.child_by_field_name("declarator").filter(|_| whole)?;
        let mut function = false;
        loop {
            match node.kind() {
                "identifier" => return text.place(node.start_byte()).filter(|_| function),
                // The innermost is the function itself; those around it are its result.
                "function_declarator" => function = true,
                "parenthesized_declarator" => {
                    node = node.named_child(0)?;
                    continue;
                }
                "pointer_declarator" | "array_declarator" => {}
                _ => return None,
            }
            node = node.child_by_field_name("declarator")?;
        }
    }

    /// Read the body of a candidate. None: the parser gave up.
    pub fn body(&mut self, stream: &Stream, facts: &Facts, candidate: &Candidate) -> Option<Body> {
        if candidate.close - candidate.open > BODY_TOKENS_MAX || stream.is_deep(candidate.open) {
            return None;
        }
        let mut text = Text::default();
        text.push_str("void f(void)");
        let mut place = candidate.open;
        while place <= candidate.close {
            if let Some(next) = skipped(stream, place, candidate.close) {
                place = next;
                continue;
            }
            text.push(stream, place);
            place += 1;
        }
        let tree = self.parse(&text)?;
        let parsed = !tree.root_node().has_error();
        let mut body = Body { parsed, ..Body::default() };
        visit(tree.walk(), |node| body.add(&text, stream, facts, node));
        if !parsed {
            // What a parser makes of the rest after an error is a guess.
            body.no_end.clear();
            body.noreturn_calls.clear();
        }
        body.nested.retain(|nested| nested.open > candidate.open);
        Some(body)
    }
}

/// Attributes and label declarations, which the grammar does not know everywhere: the place after.
fn skipped(stream: &Stream, place: usize, end: usize) -> Option<usize> {
    if stream.is_word(place, "__label__") {
        return Some((place..end).find(|&semi| stream.is(semi, ";"))? + 1);
    }
    let attribute = stream.is_word(place, "__attribute__") || stream.is_word(place, "__attribute");
    let brackets = stream.is(place, "[") && place + 1 < end && stream.is(place + 1, "[");
    if attribute && stream.is(place + 1, "(") {
        return Some(stream.partner[place + 1] + 1);
    }
    brackets.then(|| stream.partner[place] + 1)
}

/// Each node, parents first, without recursion: trees may be deep.
fn visit(mut cursor: TreeCursor, mut each: impl FnMut(Node)) {
    loop {
        each(cursor.node());
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
        }
    }
}

impl Body {
    fn add(&mut self, text: &Text, stream: &Stream, facts: &Facts, node: Node) {
        let place = || text.place(node.start_byte());
        match node.kind() {
            "return_statement" => self.returns.extend(place()),
            ";" if node.is_missing() => self.missing.extend(place()),
            "expression_statement" if is_noreturn_call(text, stream, facts, node) => {
                self.noreturn_calls.extend(place());
            }
            "compound_statement" => {
                let count = node.named_child_count();
                let last = count.checked_sub(1).and_then(|last| node.named_child(last as u32));
                let leaves = last.is_some_and(|last| {
                    matches!(last.kind(), "return_statement" | "goto_statement")
                        || is_noreturn_call(text, stream, facts, last)
                });
                if leaves {
                    self.no_end.extend(text.place(node.end_byte() - 1));
                }
            }
            "function_definition" => {
                let body = node.child_by_field_name("body");
                let open = body.and_then(|body| text.place(body.start_byte()));
                if let (Some(header), Some(open)) = (place(), open)
                    && header < open
                    && stream.is(open, "{")
                {
                    let close = stream.partner[open];
                    self.nested.push(Candidate { header, open, close, hidden: false });
                }
            }
            _ => {}
        }
    }
}

fn is_noreturn_call(text: &Text, stream: &Stream, facts: &Facts, node: Node) -> bool {
    let call = node
        .named_child(0)
        .filter(|call| node.kind() == "expression_statement" && call.kind() == "call_expression");
    let name = call.and_then(|call| call.child_by_field_name("function"));
    let place = name
        .filter(|name| name.kind() == "identifier")
        .and_then(|name| text.place(name.start_byte()));
    place.is_some_and(|place| facts.says_noreturn(&stream.lexed.text(stream.token(place))))
}
