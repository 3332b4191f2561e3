// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What comes before a body: which of its words are macros, and what is left for the parser.
//!
//! `SQLITE_API int ZEXPORT name(...) NOINLINE {` is C only after the preprocessor. Words that are
//! neither keywords, nor the type, nor the name are taken for macros and left out; what remains must
//! be a definition for the parser.

use crate::facts::{Facts, unfit_word};
use crate::lex::Kind;
use crate::outline::{Candidate, HEADER_TOKENS_MAX, Stream};
use crate::parse::{Parser, Text};

/// A definition's beginning, as far as it is sure.
#[derive(Debug)]
pub struct Header {
    pub name: usize,
    /// Why the function is left alone all the same.
    pub unfit: Option<&'static str>,
}

const TYPES: [&str; 26] = [
    "void",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "signed",
    "unsigned",
    "_Bool",
    "bool",
    "_Complex",
    "__signed__",
    "__signed",
    "__int128",
    "__int128_t",
    "__uint128_t",
    "_Float128",
    "__float128",
    "size_t",
    "typeof",
    "__typeof__",
    "__typeof",
    "_BitInt",
    "__auto_type",
    "_Float64",
];
const AGGREGATES: [&str; 3] = ["struct", "union", "enum"];
const QUALIFIERS: [&str; 29] = [
    "static",
    "extern",
    "inline",
    "__inline",
    "__inline__",
    "register",
    "auto",
    "const",
    "__const",
    "__const__",
    "volatile",
    "__volatile__",
    "__volatile",
    "restrict",
    "__restrict",
    "__restrict__",
    "_Noreturn",
    "noreturn",
    "_Thread_local",
    "__thread",
    "_Atomic",
    "__extension__",
    "constexpr",
    "__forceinline",
    "_Nonnull",
    "__cdecl",
    "__stdcall",
    "__fastcall",
    "thread_local",
];
const STATEMENTS: [&str; 15] = [
    "if",
    "else",
    "while",
    "for",
    "do",
    "switch",
    "case",
    "default",
    "return",
    "goto",
    "break",
    "continue",
    "sizeof",
    "typedef",
    "_Static_assert",
];

/// Whether a word is a keyword of C or GNU C.
pub fn is_keyword(word: &[u8]) -> bool {
    let lists = [&TYPES[..], &AGGREGATES, &QUALIFIERS, &STATEMENTS];
    lists.iter().any(|list| list.iter().any(|known| known.as_bytes() == word))
}

fn in_capitals(word: &[u8]) -> bool {
    word.len() > 1 && !word.iter().any(u8::is_ascii_lowercase)
}

/// A view of a candidate's header.
struct View<'s, 'a> {
    stream: &'s Stream<'a>,
    /// Places that matter, those inside brackets left out.
    items: Vec<usize>,
}

impl View<'_, '_> {
    fn word(&self, item: usize) -> Option<Vec<u8>> {
        let place = *self.items.get(item)?;
        self.stream
            .any_word(place)
            .then(|| self.stream.lexed.text(self.stream.token(place)).into_owned())
    }

    fn one_of(&self, item: usize, list: &[&str]) -> bool {
        self.word(item).is_some_and(|word| list.iter().any(|known| known.as_bytes() == word))
    }

    /// A word that is no keyword: a type, a name, or a macro.
    fn is_free(&self, item: usize) -> bool {
        self.word(item).is_some_and(|word| !is_keyword(&word))
    }

    fn is(&self, item: usize, punct: &str) -> bool {
        self.items.get(item).is_some_and(|&place| self.stream.is(place, punct))
    }

    /// Whether there is a type before an item: a keyword, a tag, or a word that can be one.
    fn typed_before(&self, item: usize) -> bool {
        (0..item).any(|before| {
            self.one_of(before, &TYPES)
                || self.one_of(before, &AGGREGATES)
                || (self.is_free(before) && !self.is(before + 1, "("))
        })
    }

    /// Whether the parentheses at an item look like parameters, not like a macro's arguments.
    fn has_parameters(&self, item: usize) -> bool {
        let (open, close) = (self.items[item], self.stream.partner[self.items[item]]);
        let flat = self.stream.flat(open + 1..close);
        let named = |place: usize| self.stream.any_word(place) || self.stream.is(place, "*");
        flat.is_empty()
            || flat.iter().any(|&place| self.stream.is(place, "..."))
            || flat.iter().any(|&place| TYPES.iter().any(|word| self.stream.is_word(place, word)))
            || flat.windows(2).any(|two| named(two[0]) && self.stream.any_word(two[1]))
    }

    /// Whether they hold nothing but words and commas.
    fn has_bare_words(&self, item: usize) -> bool {
        let (open, close) = (self.items[item], self.stream.partner[self.items[item]]);
        let range = open + 1..close;
        !range.is_empty()
            && range.clone().enumerate().all(|(index, place)| {
                if index % 2 == 0 {
                    self.stream.any_word(place)
                } else {
                    self.stream.is(place, ",")
                }
            })
            && !self.stream.is_word(range.start, "void")
    }
}

/// Judge a candidate's header. The error is the reason to leave the function alone.
pub fn judge(
    stream: &Stream,
    facts: &Facts,
    candidate: &Candidate,
    parser: &mut Parser,
) -> Result<Header, String> {
    if candidate.hidden {
        return Err("its braces are inside a macro".into());
    }
    check_words(stream, facts, candidate)?;
    let old_style = (stream.is(candidate.open - 1, ";"))
        .then(|| stream.old_style_names(candidate.header, candidate.open))
        .flatten();
    let end = old_style.as_ref().map_or(candidate.open, |&(_, after)| after);
    let view = View { stream, items: without_attributes(stream, candidate.header, end) };
    if view.items.len() > HEADER_TOKENS_MAX {
        return Err(format!("more than {HEADER_TOKENS_MAX} words before its body"));
    }
    for item in 0..view.items.len() {
        let token = stream.token(view.items[item]);
        let fits = match token.kind {
            Kind::Word => !view.one_of(item, &STATEMENTS),
            Kind::Punct(text) => matches!(text, "(" | "*" | "[" | "{"),
            _ => false,
        };
        if !fits {
            let text = stream.lexed.name(token);
            return Err(format!("'{text}' before its body: it may be no definition"));
        }
    }
    for item in (0..view.items.len()).filter(|&item| view.is(item, "{")) {
        let tag = item.saturating_sub(if view.is_free(item.wrapping_sub(1)) { 2 } else { 1 });
        if !view.one_of(tag, &AGGREGATES) {
            return Err("a block before its body: it may be no definition".into());
        }
    }
    let group = find_parameters(&view, facts, old_style.is_some())?;
    let strict = text_of(&view, group, candidate, old_style.is_some(), true);
    let found = match parser.definition(&strict) {
        Some(name) => Some(name),
        // Macros among the parameters: they matter for nothing, as long as they are parameters.
        None if old_style.is_some() || view.has_parameters(group) => {
            parser.definition(&text_of(&view, group, candidate, false, false))
        }
        None => None,
    };
    let name = found.ok_or("the parser sees no definition before its body")?;
    let text = stream.lexed.text(stream.token(name));
    let unfit = match facts.unfit.get(&*text) {
        None if facts.resolvers.contains(&*text) => {
            Some("an ifunc resolver, which runs before the program is relocated")
        }
        unfit => unfit.copied(),
    };
    Ok(Header { name, unfit })
}

fn check_words(stream: &Stream, facts: &Facts, candidate: &Candidate) -> Result<(), String> {
    for place in candidate.header..candidate.open {
        if !stream.any_word(place) {
            continue;
        }
        let word = stream.lexed.text(stream.token(place));
        if let Some(why) = unfit_word(&word).or(facts.unfit.get(&*word).copied()) {
            return Err(why.to_string());
        }
    }
    Ok(())
}

/// The places outside brackets, without attributes, `[[...]]` and the like.
fn without_attributes(stream: &Stream, start: usize, end: usize) -> Vec<usize> {
    let flat = stream.flat(start..end);
    let mut items = Vec::new();
    let mut index = 0;
    while index < flat.len() {
        let place = flat[index];
        let attribute = stream.is_attribute(place) || stream.is_word(place, "_Pragma");
        if attribute && flat.get(index + 1).is_some_and(|&next| stream.is(next, "(")) {
            index += 2;
            continue;
        }
        let brackets = stream.is(place, "[") && place + 1 < end && stream.is(place + 1, "[");
        if !brackets && !stream.is_word(place, "__extension__") {
            items.push(place);
        }
        index += 1;
    }
    items
}

/// The item that is the parameter list.
fn find_parameters(view: &View, facts: &Facts, old_style: bool) -> Result<usize, String> {
    let macro_name = || Err("its name may be made by a macro".to_string());
    let mut found: Vec<usize> = Vec::new();
    let mut untyped = None;
    for item in 0..view.items.len() {
        if !view.is(item, "(") {
            continue;
        }
        // `type (name)(parameters)`, `type (*name(parameters))(parameters of the result)`.
        if view.is(item + 1, "(") || view.is(item + 1, "[") {
            let before = item.checked_sub(1);
            let typeof_before = before
                .is_some_and(|b| view.one_of(b, &["typeof", "__typeof__", "__typeof", "_BitInt"]));
            if found.is_empty() && !typeof_before {
                if let Some(before) = before.filter(|&before| view.is_free(before)) {
                    let word = view.word(before).unwrap_or_default();
                    let known = view.stream.variant.is_macro(&word, view.items[before]);
                    if known || (in_capitals(&word) && view.typed_before(before)) {
                        return macro_name();
                    }
                }
                if view.typed_before(item) {
                    return Ok(item + 1);
                }
            }
        }
        if item > 0 && view.is_free(item - 1) {
            if view.typed_before(item - 1) {
                found.push(item);
            } else {
                untyped = Some(item);
            }
        }
    }
    let group = match found[..] {
        [] => {
            let Some(item) = untyped else {
                return Err("it has no parameters: it may be a macro".into());
            };
            let name = view.word(item - 1).unwrap_or_default();
            if !old_style && name != b"main" {
                return Err("no type before its name: it may be a macro".into());
            }
            item
        }
        [only] => only,
        [first, .., last] => match (view.has_parameters(first), view.has_parameters(last)) {
            (true, false) => first,
            (false, true) => last,
            _ if old_style => first,
            _ => return macro_name(),
        },
    };
    let name = view.word(group - 1).unwrap_or_default();
    if view.stream.variant.is_macro(&name, view.items[group - 1]) {
        return Err("its name is a macro of this file".into());
    }
    let tagged = (0..group).any(|item| view.one_of(item, &AGGREGATES));
    if !old_style && view.has_bare_words(group) && (in_capitals(&name) || tagged) {
        return macro_name();
    }
    if facts.brackets.contains_key(&name) {
        return Err("its braces are inside a macro".into());
    }
    Ok(group)
}

/// What the parser gets: the header without macros, and an empty body.
fn text_of(
    view: &View,
    group: usize,
    candidate: &Candidate,
    old_style: bool,
    parameters: bool,
) -> Text {
    let stream = view.stream;
    let name = group - 1;
    let last_before = if view.is(name, "(") { name } else { group.saturating_sub(1) };
    let keyword_type =
        (0..last_before).any(|item| view.one_of(item, &TYPES) || view.one_of(item, &AGGREGATES));
    // Without a keyword, the type is the last word before the stars.
    let star = (0..last_before).find(|&item| view.is(item, "*")).unwrap_or(last_before);
    let type_word = (0..star)
        .rev()
        .find(|&item| !keyword_type && view.is_free(item) && !view.is(item + 1, "("));
    let mut text = Text::default();
    if !keyword_type && type_word.is_none() {
        text.push_str("int");
    }
    let mut item = 0;
    while item < last_before {
        let place = view.items[item];
        let tag = item > 0 && view.one_of(item - 1, &AGGREGATES);
        if view.one_of(item, &["typeof", "__typeof__", "__typeof", "_BitInt"]) {
            text.push_str("int");
            item += 1; // and its parentheses
        } else if view.one_of(item, &AGGREGATES) {
            text.push(stream, place);
            if !view.is_free(item + 1) {
                text.push_str("tag");
            }
        } else if Some(item) == type_word || tag || view.is(item, "*") || view.one_of(item, &TYPES)
        {
            text.push(stream, place);
        }
        item += 1;
    }
    // The declarator.
    let close = |item: usize| stream.partner[view.items[item]];
    if view.is(name, "(") && group >= 1 {
        (view.items[name]..=close(name)).for_each(|place| text.push(stream, place));
    } else {
        text.push(stream, view.items[name]);
    }
    if parameters {
        (view.items[group]..=close(group)).for_each(|place| text.push(stream, place));
    } else {
        text.push_str("(void)");
    }
    if view.is(group + 1, "[") {
        (view.items[group + 1]..=close(group + 1)).for_each(|place| text.push(stream, place));
    }
    if old_style {
        (close(group) + 1..candidate.open).for_each(|place| text.push(stream, place));
    }
    text.push_str("{}");
    text
}
