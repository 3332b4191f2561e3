// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What comes before a brace: whether it is a function's, and its name.
//!
//! `SQLITE_API int ZEXPORT name(...) NOINLINE {` is C only after the preprocessor. Words that are
//! neither keywords, nor the type, nor the name are taken for macros; what remains must be a type, a name and parameters.

use crate::facts::unfit_word;
use crate::lex::{Kind, Lexed, Token};
use crate::names::Names;

/// No definition's beginning is longer. Without limits hostile sources would take quadratic time.
pub const TOKENS_MAX: usize = 512;

const TYPES: &str = "void char short int long float double signed unsigned _Bool bool _Complex __signed__ __signed \
    __int128 __int128_t __uint128_t _Float128 __float128 size_t typeof __typeof__ __typeof _BitInt __auto_type _Float64";
const TYPES_OF: &str = "typeof __typeof__ __typeof _BitInt";
const AGGREGATES: &str = "struct union enum";
const QUALIFIERS: &str = "static extern inline __inline __inline__ register auto const __const __const__ volatile \
    __volatile__ __volatile restrict __restrict __restrict__ _Noreturn noreturn _Thread_local __thread _Atomic \
    __extension__ constexpr __forceinline _Nonnull __cdecl __stdcall __fastcall thread_local";
pub const STATEMENTS: &str = "if else while for do switch case default return goto break continue sizeof typedef _Static_assert";
const ATTRIBUTES: &str =
    "__attribute__ __attribute __declspec _Alignas alignas __asm__ asm __asm _Pragma";

/// Whether a word stands in one of the lists above.
pub fn is_in(list: &str, word: &[u8]) -> bool {
    list.split_ascii_whitespace().any(|known| known.as_bytes() == word)
}

fn is_keyword(word: &[u8]) -> bool {
    [TYPES, AGGREGATES, QUALIFIERS, STATEMENTS].iter().any(|list| is_in(list, word))
}

fn in_capitals(word: &[u8]) -> bool {
    word.len() > 1 && !word.iter().any(u8::is_ascii_lowercase)
}

/// The tokens from the end of the statement before up to a brace. Numbers are places in them.
pub struct Header<'a> {
    lexed: &'a Lexed,
    tokens: &'a [usize],
    /// For an opening bracket the place of its partner; otherwise its own place.
    partner: Vec<usize>,
}

impl<'a> Header<'a> {
    pub fn new(lexed: &'a Lexed, tokens: &'a [usize]) -> Header<'a> {
        let mut partner: Vec<usize> = (0..tokens.len()).collect();
        let mut open = Vec::new();
        for (place, &token) in tokens.iter().enumerate() {
            match lexed.tokens[token].kind {
                Kind::Punct("(" | "[" | "{") => open.push(place),
                Kind::Punct(")" | "]" | "}") => {
                    if let Some(start) = open.pop() {
                        partner[start] = place;
                    }
                }
                _ => {}
            }
        }
        Header { lexed, tokens, partner }
    }

    fn token(&self, place: usize) -> &'a Token {
        &self.lexed.tokens[self.tokens[place]]
    }

    fn is(&self, place: usize, punct: &str) -> bool {
        place < self.tokens.len()
            && matches!(self.token(place).kind, Kind::Punct(text) if text == punct)
    }

    /// The word at a place, if one is there.
    fn word(&self, place: usize) -> Option<&'a [u8]> {
        let is_there = place < self.tokens.len() && self.token(place).kind == Kind::Word;
        is_there.then(|| self.lexed.text(self.token(place)))
    }

    fn is_one_of(&self, place: usize, list: &str) -> bool {
        self.word(place).is_some_and(|word| is_in(list, word))
    }

    /// The places of `range`, those inside brackets left out.
    fn flat(&self, range: std::ops::Range<usize>) -> Vec<usize> {
        let mut places = Vec::new();
        let mut place = range.start;
        while place < range.end {
            places.push(place);
            place = self.partner[place].max(place) + 1;
        }
        places
    }

    /// Whether this may come before a function's body: something like `name(...)`, and no declaration.
    pub fn is_functions(&self) -> bool {
        let flat = self.flat(0..self.tokens.len());
        let has = |text: &str| flat.iter().any(|&place| self.is(place, text));
        if has("=") || self.is_one_of(0, "typedef") || !has("(") {
            return false;
        }
        // The declarations of a K&R definition end here.
        if self.is(self.tokens.len() - 1, ";") {
            return true;
        }
        // struct, union, enum with at most attributes and a name after it is an aggregate.
        let Some(aggregate) = flat.iter().rposition(|&place| self.is_one_of(place, AGGREGATES))
        else {
            return true;
        };
        let mut after = flat[aggregate + 1..].iter();
        let mut names = 0;
        while let Some(&place) = after.next() {
            if self.is_one_of(place, ATTRIBUTES) {
                after.next();
                continue;
            }
            if self.is(place, "{") {
                // A struct's own body: what comes after it is a declarator.
                return after.any(|&place| self.is(place, "("));
            } else if self.is(place, "*") || (self.is(place, "(") && names >= 2) {
                return true;
            }
            names += usize::from(self.word(place).is_some());
        }
        false
    }

    /// Whether it is of a struct, union or enum that has its body here.
    pub fn is_aggregate(&self) -> bool {
        let flat = self.flat(0..self.tokens.len());
        flat.iter().rev().take(2).any(|&place| self.is_one_of(place, AGGREGATES))
    }

    /// Whether it begins a K&R definition, `name(a, b) type a`, so that a semicolon ends the declaration of a parameter.
    pub fn is_old_style(&self) -> bool {
        let Some((names, after)) = self.old_style_names() else { return false };
        // The last of the declarations.
        let flat = self.flat(after..self.tokens.len());
        let own = flat.iter().rposition(|&place| self.is(place, ";")).map_or(0, |semi| semi + 1);
        let own = &flat[own..];
        let has = |text: &str| own.iter().any(|&place| self.is(place, text));
        let aggregate = own.iter().any(|&place| self.is_one_of(place, AGGREGATES));
        let names_one = |&first: &usize| {
            (first..self.tokens.len())
                .any(|place| self.word(place).is_some_and(|word| names.contains(&word)))
        };
        !has("=") && (aggregate || !has("{")) && own.first().is_some_and(names_one)
    }

    /// The names in the parentheses of a K&R definition, and the place after them.
    fn old_style_names(&self) -> Option<(Vec<&'a [u8]>, usize)> {
        // From the end: what is before may be a macro with words for arguments.
        for place in self.flat(0..self.tokens.len()).into_iter().rev() {
            let close = self.partner[place];
            if place == 0 || !self.is(place, "(") || self.word(close + 1).is_none() {
                continue;
            }
            let callable = self.word(place - 1).is_some() || self.is(place - 1, ")");
            let names: Option<Vec<_>> =
                (place + 1..close).step_by(2).map(|name| self.word(name)).collect();
            let commas = (place + 2..close).step_by(2).all(|comma| self.is(comma, ","));
            if let Some(names) =
                names.filter(|_| callable && commas && (close - place).is_multiple_of(2))
            {
                return Some((names, close + 1));
            }
        }
        None
    }

    /// The token of the definition's name, and why the function is left alone all the same; or why it may be no
    /// definition.
    pub fn name(&self, names: &Names<'_>) -> Result<(usize, Option<&'static str>), String> {
        for place in 0..self.tokens.len() {
            let Some(word) = self.word(place) else { continue };
            if let Some(why) = unfit_word(word).or(names.facts.unfit.get(word).copied()) {
                return Err(why.to_string());
            }
            if names.facts.brackets.contains_key(word) {
                return Err("its braces are inside a macro".into());
            }
        }
        let old_style = self.is(self.tokens.len() - 1, ";").then(|| self.old_style_names());
        let old_style = old_style.flatten();
        let end = old_style.as_ref().map_or(self.tokens.len(), |&(_, after)| after);
        let view = View { header: self, items: self.without_attributes(end) };
        for item in 0..view.items.len() {
            let fits = match self.token(view.items[item]).kind {
                Kind::Word => !view.one_of(item, STATEMENTS),
                Kind::Punct("{") => {
                    let named = item > 0 && view.is_free(item - 1);
                    let tag = item.checked_sub(if named { 2 } else { 1 });
                    tag.is_some_and(|tag| view.one_of(tag, AGGREGATES))
                }
                Kind::Punct(text) => matches!(text, "(" | "*" | "["),
                _ => false,
            };
            if !fits {
                let text = self.lexed.name(self.token(view.items[item]));
                return Err(format!("'{text}' before its body: it may be no definition"));
            }
        }
        let group = view.parameters(names, old_style.is_some())?;
        let name = self.tokens[view.declared(group)?];
        let text = self.lexed.text(&self.lexed.tokens[name]);
        let resolves = names.facts.resolvers.contains(text);
        let resolver = "an ifunc resolver, which runs before the program is relocated";
        let unfit = names.facts.unfit.get(text).copied().or(resolves.then_some(resolver));
        Ok((name, unfit))
    }

    /// The token to list a function under that is left alone.
    pub fn guess(&self) -> usize {
        let flat = self.flat(0..self.tokens.len());
        let is_name = |two: &&[usize]| {
            let word = self.word(two[0]).unwrap_or_default();
            let is_free = !word.is_empty() && !is_keyword(word) && !is_in(ATTRIBUTES, word);
            is_free && self.is(two[1], "(")
        };
        self.tokens[flat.windows(2).rfind(is_name).map_or(0, |two| two[0])]
    }

    /// The places outside brackets, without attributes, `[[...]]` and the like.
    fn without_attributes(&self, end: usize) -> Vec<usize> {
        let mut flat = self.flat(0..end).into_iter().peekable();
        let mut items = Vec::new();
        while let Some(place) = flat.next() {
            if self.is_one_of(place, ATTRIBUTES) {
                flat.next_if(|&next| self.is(next, "("));
                continue;
            }
            let brackets = self.is(place, "[") && self.is(place + 1, "[");
            if !brackets && !self.is_one_of(place, "__extension__") {
                items.push(place);
            }
        }
        items
    }
}

/// A header's places that matter, those inside brackets left out. Numbers are items of it.
struct View<'h, 'a> {
    header: &'h Header<'a>,
    items: Vec<usize>,
}

impl<'a> View<'_, 'a> {
    fn word(&self, item: usize) -> Option<&'a [u8]> {
        self.header.word(*self.items.get(item)?)
    }

    fn one_of(&self, item: usize, list: &str) -> bool {
        self.word(item).is_some_and(|word| is_in(list, word))
    }

    /// A word that is no keyword: a type, a name, or a macro.
    fn is_free(&self, item: usize) -> bool {
        self.word(item).is_some_and(|word| !is_keyword(word))
    }

    fn is(&self, item: usize, punct: &str) -> bool {
        self.items.get(item).is_some_and(|&place| self.header.is(place, punct))
    }

    fn is_macro(&self, names: &Names<'_>, item: usize) -> bool {
        names.is_callable(self.word(item).unwrap_or_default())
    }

    /// Whether there is a type before an item: a keyword, a tag, or a word that can be one.
    fn typed_before(&self, item: usize) -> bool {
        (0..item).any(|before| {
            self.one_of(before, TYPES)
                || self.one_of(before, AGGREGATES)
                || (self.is_free(before) && !self.is(before + 1, "("))
        })
    }

    /// The places inside the parentheses at an item.
    fn inside(&self, item: usize) -> std::ops::Range<usize> {
        self.items[item] + 1..self.header.partner[self.items[item]]
    }

    /// Whether the parentheses at an item look like parameters, not like a macro's arguments.
    fn has_parameters(&self, item: usize) -> bool {
        let header = self.header;
        let flat = header.flat(self.inside(item));
        let named = |place: usize| header.word(place).is_some() || header.is(place, "*");
        flat.is_empty()
            || flat.iter().any(|&place| header.is(place, "...") || header.is_one_of(place, TYPES))
            || flat.windows(2).any(|two| named(two[0]) && header.word(two[1]).is_some())
    }

    /// Whether they hold nothing but words and commas.
    fn has_bare_words(&self, item: usize) -> bool {
        let range = self.inside(item);
        let fits = |(index, place)| match index % 2 {
            0 => self.header.word(place).is_some(),
            _ => self.header.is(place, ","),
        };
        !range.is_empty()
            && range.clone().enumerate().all(fits)
            && !self.header.is_one_of(range.start, "void")
    }

    /// The item that is the parameter list.
    fn parameters(&self, names: &Names<'_>, old_style: bool) -> Result<usize, String> {
        let macro_name = || Err("its name may be made by a macro".to_string());
        let mut found: Vec<usize> = Vec::new();
        let mut untyped = None;
        for item in 0..self.items.len() {
            if !self.is(item, "(") {
                continue;
            }
            // `type (name)(parameters)`, `type (*name(parameters))(parameters of the result)`.
            if self.is(item + 1, "(") || self.is(item + 1, "[") {
                let before = item.checked_sub(1);
                let is_type_of = before.is_some_and(|before| self.one_of(before, TYPES_OF));
                if found.is_empty() && !is_type_of {
                    if let Some(before) = before.filter(|&before| self.is_free(before)) {
                        let word = self.word(before).unwrap_or_default();
                        let capital = in_capitals(word) && self.typed_before(before);
                        if capital || self.is_macro(names, before) {
                            return macro_name();
                        }
                    }
                    if self.typed_before(item) {
                        return Ok(item + 1);
                    }
                }
            }
            if item > 0 && self.is_free(item - 1) {
                if self.typed_before(item - 1) {
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
                if !old_style && self.word(item - 1) != Some(b"main") {
                    return Err("no type before its name: it may be a macro".into());
                }
                item
            }
            [only] => only,
            [first, .., last] => match (self.has_parameters(first), self.has_parameters(last)) {
                (true, false) => first,
                (false, true) => last,
                _ if old_style => first,
                _ => return macro_name(),
            },
        };
        let name = self.word(group - 1).unwrap_or_default();
        if self.is_macro(names, group - 1) {
            return Err("its name is a macro of this file".into());
        }
        let tagged = (0..group).any(|item| self.one_of(item, AGGREGATES));
        if !old_style && self.has_bare_words(group) && (in_capitals(name) || tagged) {
            return macro_name();
        }
        Ok(group)
    }

    /// The place of the name before the parameters at item `group`, if all of it can be a declarator.
    fn declared(&self, group: usize) -> Result<usize, String> {
        let header = self.header;
        let none = || "it is no definition as it stands".to_string();
        let is_plain =
            |kind| matches!(kind, Kind::Word | Kind::Punct("*" | "," | "..." | "(" | "[" | ";"));
        let is_parameters = |item: usize| {
            header.flat(self.inside(item)).iter().all(|&place| is_plain(header.token(place).kind))
        };
        if self.is(group, "(") && !self.has_parameters(group) && !is_parameters(group) {
            return Err(none());
        }
        if !self.is(group - 1, "(") {
            return Ok(self.items[group - 1]);
        }
        // Around the name: the first word that parameters or the end of its parentheses follow.
        let mut around = self.inside(group - 1);
        let is_name = |&place: &usize| {
            header.word(place).is_some_and(|word| !is_keyword(word) && !is_in(ATTRIBUTES, word))
                && (header.is(place + 1, "(") || header.is(place + 1, ")"))
        };
        around.find(is_name).ok_or_else(none)
    }
}
