// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tokens and directives of a C source, as the preprocessor sees them.
//!
//! This is no parser: it knows comments, literals, continued lines and digraphs, so that whoever
//! asks for tokens never meets a brace in a string.

use crate::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Word,
    Number,
    /// A string or a character constant, with its prefix.
    Text,
    Punct(&'static str),
    /// A quote without its end, or a byte that C does not know.
    Bad,
}

/// A token, by its bytes in [`Lexed::joined`].
#[derive(Debug, Clone, Copy)]
pub struct Token {
    pub kind: Kind,
    pub start: usize,
    /// First byte after it.
    pub end: usize,
}

/// What a source is made of, in order.
#[derive(Debug, Clone, Copy)]
pub enum Item {
    /// A token outside directives: an index into [`Lexed::tokens`].
    Token(usize),
    /// An index into [`Lexed::directives`].
    Directive(usize),
}

#[derive(Debug, Default)]
pub struct Lexed {
    /// The source without the backslash and the end of each continued line.
    joined: Vec<u8>,
    /// Where in `joined` bytes were left out, and how many up to there.
    left_out: Vec<(usize, usize)>,
    /// Where in the source each line ends.
    line_ends: Vec<usize>,
    pub tokens: Vec<Token>,
    /// The tokens of each directive after its `#`, its name first, and the `#`'s line.
    pub directives: Vec<(u32, Vec<Token>)>,
    pub items: Vec<Item>,
}

/// Longest first.
const PUNCTUATORS: [&str; 54] = [
    "%:%:", "...", "<<=", ">>=", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||",
    "*=", "/=", "%=", "+=", "-=", "&=", "^=", "|=", "##", "::", "<:", ":>", "<%", "%>", "%:", "[",
    "]", "(", ")", "{", "}", ".", "&", "*", "+", "-", "~", "!", "/", "%", "<", ">", "^", "|", "?",
    ":", ";", "=", ",",
];

impl Lexed {
    pub fn new(source: &[u8]) -> Result<Lexed, Error> {
        let mut lexed = Lexed::default();
        lexed.line_ends.extend((0..source.len()).filter(|&at| source[at] == b'\n'));
        let (mut at, mut left_out) = (0, 0);
        while at < source.len() {
            let splice = match source[at..] {
                [b'\\', b'\n', ..] => 2,
                [b'\\', b'\r', b'\n', ..] => 3,
                _ => 0,
            };
            if splice == 0 {
                lexed.joined.push(source[at]);
                at += 1;
            } else {
                left_out += splice;
                lexed.left_out.push((lexed.joined.len(), left_out));
                at += splice;
            }
        }
        let bytes = std::mem::take(&mut lexed.joined);
        let at = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let result = Lexer { lexed: &mut lexed, bytes: &bytes, at }.all();
        lexed.joined = bytes;
        result.map(|()| lexed)
    }

    pub fn text(&self, token: &Token) -> &[u8] {
        &self.joined[token.start..token.end]
    }

    pub fn is_word(&self, token: &Token, word: &str) -> bool {
        token.kind == Kind::Word && self.text(token) == word.as_bytes()
    }

    /// A token's text for people and for tables.
    pub fn name(&self, token: &Token) -> String {
        String::from_utf8_lossy(self.text(token)).into_owned()
    }

    /// Where a token's last byte ends in the source.
    pub fn source_end(&self, token: &Token) -> usize {
        self.in_source(token.end - 1) + 1
    }

    /// The line, from 1, of a token's first byte in the source.
    pub fn line(&self, token: &Token) -> u32 {
        self.line_at(token.start)
    }

    fn line_at(&self, joined: usize) -> u32 {
        let at = self.in_source(joined);
        1 + self.line_ends.partition_point(|&end| end < at) as u32
    }

    fn in_source(&self, joined: usize) -> usize {
        let before = self.left_out.partition_point(|&(at, _)| at <= joined);
        joined + before.checked_sub(1).map_or(0, |last| self.left_out[last].1)
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

struct Lexer<'a> {
    lexed: &'a mut Lexed,
    bytes: &'a [u8],
    at: usize,
}

impl Lexer<'_> {
    fn all(mut self) -> Result<(), Error> {
        let mut line_start = true;
        loop {
            line_start |= self.space(false)?;
            let rest = &self.bytes[self.at..];
            if rest.is_empty() {
                return Ok(());
            }
            let hash = if rest.starts_with(b"%:") { 2 } else { usize::from(rest[0] == b'#') };
            if line_start && hash > 0 {
                let line = self.lexed.line_at(self.at);
                self.at += hash;
                let mut tokens = Vec::new();
                while !self.space(true)? {
                    tokens.push(self.token(true)?);
                }
                self.lexed.items.push(Item::Directive(self.lexed.directives.len()));
                self.lexed.directives.push((line, tokens));
            } else {
                line_start = false;
                let token = self.token(false)?;
                self.lexed.items.push(Item::Token(self.lexed.tokens.len()));
                self.lexed.tokens.push(token);
            }
        }
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn error(&self, at: usize, what: &str) -> Error {
        Error::Syntax { line: self.lexed.line_at(at), what: what.to_owned() }
    }

    /// Skip space and comments, in a directive only up to its end. True if a line or the file ended, or nothing came
    /// before.
    fn space(&mut self, in_directive: bool) -> Result<bool, Error> {
        let mut ended = self.at == 0 || (self.at == 3 && self.bytes.starts_with(b"\xef\xbb\xbf"));
        ended &= !in_directive;
        while let Some(byte) = self.byte(0) {
            match (byte, self.byte(1)) {
                (b'\n', _) if in_directive => return Ok(true),
                (b'\n', _) => {
                    ended = true;
                    self.at += 1;
                }
                (b' ' | b'\t' | b'\r' | 0x0b | 0x0c, _) => self.at += 1,
                (b'/', Some(b'/')) => {
                    while self.byte(0).is_some_and(|byte| byte != b'\n') {
                        self.trigraph_backslash(b'\n')?;
                        self.at += 1;
                    }
                }
                (b'/', Some(b'*')) => {
                    let text = &self.bytes[self.at + 2..];
                    let end = text.windows(2).position(|two| two == b"*/");
                    let end =
                        end.ok_or_else(|| self.error(self.at, "a comment that never ends"))?;
                    self.at += end + 4;
                }
                _ => return Ok(ended),
            }
        }
        Ok(true)
    }

    /// `??/` is a backslash to compilers that know trigraphs, and not to the others.
    fn trigraph_backslash(&self, before: u8) -> Result<(), Error> {
        let is = self.bytes[self.at..].starts_with(b"??/") && self.byte(3) == Some(before);
        if is { Err(self.trigraph()) } else { Ok(()) }
    }

    fn trigraph(&self) -> Error {
        let what = "a trigraph, which some compilers read and others do not; write the character";
        self.error(self.at, what)
    }

    fn token(&mut self, in_directive: bool) -> Result<Token, Error> {
        let start = self.at;
        let is_universal = |lexer: &Lexer<'_>| {
            lexer.byte(0) == Some(b'\\') && matches!(lexer.byte(1), Some(b'u' | b'U'))
        };
        let byte = self.bytes[start];
        let is_digit = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_digit());
        let kind = if byte == b'"' || byte == b'\'' {
            self.quoted(byte, in_directive)?
        } else if is_digit(Some(byte)) || (byte == b'.' && is_digit(self.byte(1))) {
            self.number();
            Kind::Number
        } else if is_word_byte(byte) || is_universal(self) {
            while self.byte(0).is_some_and(is_word_byte) || is_universal(self) {
                self.at += 1;
            }
            let is_prefix = matches!(&self.bytes[start..self.at], b"L" | b"u" | b"U" | b"u8");
            match self.byte(0) {
                Some(quote @ (b'"' | b'\'')) if is_prefix => self.quoted(quote, in_directive)?,
                _ => Kind::Word,
            }
        } else {
            self.punctuator()?
        };
        Ok(Token { kind, start, end: self.at })
    }

    fn number(&mut self) {
        let mut last = 0;
        while let Some(byte) = self.byte(0) {
            let sign = matches!(byte, b'+' | b'-') && matches!(last, b'e' | b'E' | b'p' | b'P');
            // C23 separates digits with quotes.
            let quote = byte == b'\''
                && is_word_byte(last)
                && self.byte(1).is_some_and(|next| next.is_ascii_alphanumeric());
            if !(is_word_byte(byte) || byte == b'.' || sign || quote) {
                break;
            }
            last = byte;
            self.at += 1;
        }
    }

    fn quoted(&mut self, quote: u8, in_directive: bool) -> Result<Kind, Error> {
        let start = self.at;
        self.at += 1;
        while let Some(byte) = self.byte(0).filter(|&byte| byte != b'\n') {
            if byte != b'\\' {
                self.trigraph_backslash(quote)?;
            }
            self.at += 1;
            if byte == b'\\' && self.byte(0).is_some_and(|byte| byte != b'\n') {
                self.at += 1;
            }
            if byte == quote {
                return Ok(Kind::Text);
            }
        }
        // An apostrophe in #error, or in text that no compiler sees.
        if in_directive {
            self.at = start + 1;
        }
        Ok(Kind::Bad)
    }

    fn punctuator(&mut self) -> Result<Kind, Error> {
        let rest = &self.bytes[self.at..];
        if rest.len() > 2 && rest.starts_with(b"??") && b"=()/'<!>-".contains(&rest[2]) {
            return Err(self.trigraph());
        }
        let known = PUNCTUATORS.iter().find(|known| rest.starts_with(known.as_bytes()));
        self.at += known.map_or(1, |known| known.len());
        Ok(match known {
            None => Kind::Bad,
            Some(&"<%") => Kind::Punct("{"),
            Some(&"%>") => Kind::Punct("}"),
            Some(&"<:") => Kind::Punct("["),
            Some(&":>") => Kind::Punct("]"),
            Some(other) => Kind::Punct(other),
        })
    }
}
