// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tokens and directives of a C source, as the preprocessor sees them.
//!
//! This is no parser: it knows comments, literals, continued lines and digraphs, so that whoever
//! asks for tokens never meets a brace in a string.

use std::borrow::Cow;

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

/// A token, by its bytes in the source.
#[derive(Debug, Clone, Copy)]
pub struct Token {
    pub kind: Kind,
    pub start: usize,
    /// First byte after it.
    pub end: usize,
    /// Physical line of its first byte, from 1.
    pub line: u32,
}

/// A directive: its tokens after the `#`.
#[derive(Debug, Clone)]
pub struct Directive {
    /// Line of its `#`.
    pub line: u32,
    /// Name first, if it has one.
    pub tokens: Vec<Token>,
}

/// What a source is made of, in order.
#[derive(Debug, Clone)]
pub enum Item {
    /// A token outside directives: an index into [`Lexed::tokens`].
    Token(usize),
    /// An index into [`Lexed::directives`].
    Directive(usize),
}

#[derive(Debug)]
pub struct Lexed<'a> {
    pub source: &'a [u8],
    pub tokens: Vec<Token>,
    pub directives: Vec<Directive>,
    pub items: Vec<Item>,
}

/// Longest first.
const PUNCTUATORS: [&str; 54] = [
    "%:%:", "...", "<<=", ">>=", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||",
    "*=", "/=", "%=", "+=", "-=", "&=", "^=", "|=", "##", "::", "<:", ":>", "<%", "%>", "%:", "[",
    "]", "(", ")", "{", "}", ".", "&", "*", "+", "-", "~", "!", "/", "%", "<", ">", "^", "|", "?",
    ":", ";", "=", ",",
];

impl<'a> Lexed<'a> {
    pub fn new(source: &'a [u8]) -> Result<Lexed<'a>, Error> {
        let mut lexer = Lexer { source, at: 0, line: 1 };
        if source.starts_with(b"\xef\xbb\xbf") {
            lexer.at = 3;
        }
        let mut lexed = Lexed { source, tokens: vec![], directives: vec![], items: vec![] };
        let mut line_start = true;
        loop {
            line_start |= lexer.space(false)?;
            let Some(byte) = lexer.peek() else { break };
            let hash = byte == b'#' || (byte == b'%' && lexer.after(1) == Some(b':'));
            if hash && line_start {
                let directive = lexer.directive()?;
                lexed.items.push(Item::Directive(lexed.directives.len()));
                lexed.directives.push(directive);
            } else {
                line_start = false;
                let token = lexer.token(false)?;
                lexed.items.push(Item::Token(lexed.tokens.len()));
                lexed.tokens.push(token);
            }
        }
        Ok(lexed)
    }

    /// A token's bytes, without continued lines inside it.
    pub fn text(&self, token: &Token) -> Cow<'a, [u8]> {
        let bytes = &self.source[token.start..token.end];
        if !bytes.contains(&b'\\') {
            return Cow::Borrowed(bytes);
        }
        let mut clean = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while at < bytes.len() {
            match splice(&bytes[at..]) {
                0 => {
                    clean.push(bytes[at]);
                    at += 1;
                }
                length => at += length,
            }
        }
        Cow::Owned(clean)
    }

    /// Whether a token is this word.
    pub fn is_word(&self, token: &Token, word: &str) -> bool {
        token.kind == Kind::Word && *self.text(token) == *word.as_bytes()
    }

    /// A token's text for people and for tables.
    pub fn name(&self, token: &Token) -> String {
        String::from_utf8_lossy(&self.text(token)).into_owned()
    }
}

/// Length of the backslash and line end that `bytes` begins with; 0 if it does not.
fn splice(bytes: &[u8]) -> usize {
    match bytes {
        [b'\\', b'\n', ..] => 2,
        [b'\\', b'\r', b'\n', ..] => 3,
        _ => 0,
    }
}

pub(crate) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

struct Lexer<'a> {
    source: &'a [u8],
    at: usize,
    line: u32,
}

impl Lexer<'_> {
    fn skip_splices(&mut self) {
        loop {
            let length = splice(&self.source[self.at..]);
            if length == 0 {
                return;
            }
            self.at += length;
            self.line += 1;
        }
    }

    /// The next byte that is not part of a continued line.
    fn peek(&mut self) -> Option<u8> {
        self.skip_splices();
        self.source.get(self.at).copied()
    }

    /// The byte `count` after the next, splices left out.
    fn after(&self, count: usize) -> Option<u8> {
        let mut at = self.at;
        for _ in 0..count {
            at += 1;
            loop {
                let length = splice(self.source.get(at..).unwrap_or(&[]));
                if length == 0 {
                    break;
                }
                at += length;
            }
        }
        self.source.get(at).copied()
    }

    fn bump(&mut self) {
        if self.source[self.at] == b'\n' {
            self.line += 1;
        }
        self.at += 1;
    }

    /// Skip space and comments, in a directive only up to its end. True if a line ended, or nothing
    /// came before.
    fn space(&mut self, in_directive: bool) -> Result<bool, Error> {
        let mut ended = self.at == 0 || (self.at == 3 && self.source.starts_with(b"\xef\xbb\xbf"));
        while let Some(byte) = self.peek() {
            match byte {
                b'\n' if in_directive => return Ok(true),
                b'\n' => {
                    ended = true;
                    self.bump();
                }
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.bump(),
                b'/' if self.after(1) == Some(b'/') => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.trigraph_backslash(b'\n')?;
                        self.bump();
                    }
                }
                b'/' if self.after(1) == Some(b'*') => self.comment()?,
                _ => return Ok(ended),
            }
        }
        Ok(true)
    }

    fn comment(&mut self) -> Result<(), Error> {
        let line = self.line;
        self.bump();
        self.skip_splices();
        self.bump();
        while let Some(byte) = self.peek() {
            let last = byte == b'*' && self.after(1) == Some(b'/');
            self.bump();
            if last {
                self.skip_splices();
                self.bump();
                return Ok(());
            }
        }
        Err(Error::Syntax { line, what: "a comment that never ends".into() })
    }

    /// `??/` is a backslash to compilers that know trigraphs, and not to the others.
    fn trigraph_backslash(&self, before: u8) -> Result<(), Error> {
        let rest = &self.source[self.at..];
        if rest.starts_with(b"??/") && rest.get(3).is_some_and(|&next| next == before) {
            return Err(self.trigraph());
        }
        Ok(())
    }

    fn trigraph(&self) -> Error {
        Error::Syntax {
            line: self.line,
            what: "a trigraph, which some compilers read and others do not; write the character"
                .into(),
        }
    }

    fn directive(&mut self) -> Result<Directive, Error> {
        let line = self.line;
        if self.source[self.at] == b'%' {
            self.bump();
            self.skip_splices();
        }
        self.bump();
        let mut tokens = Vec::new();
        loop {
            self.space(true)?;
            match self.peek() {
                None | Some(b'\n') => return Ok(Directive { line, tokens }),
                Some(_) => tokens.push(self.token(true)?),
            }
        }
    }

    fn token(&mut self, in_directive: bool) -> Result<Token, Error> {
        let (start, line) = (self.at, self.line);
        let byte = self.source[start];
        let kind = if byte == b'"' || byte == b'\'' {
            self.quoted(byte, in_directive)?
        } else if byte.is_ascii_digit()
            || (byte == b'.' && self.after(1).is_some_and(|next| next.is_ascii_digit()))
        {
            self.number();
            Kind::Number
        } else if is_word_byte(byte)
            || (byte == b'\\' && matches!(self.after(1), Some(b'u' | b'U')))
        {
            self.word(start, in_directive)?
        } else {
            self.punctuator()?
        };
        Ok(Token { kind, start, end: self.at, line })
    }

    fn word(&mut self, start: usize, in_directive: bool) -> Result<Kind, Error> {
        let mut end = self.at;
        while let Some(byte) = self.peek() {
            if is_word_byte(byte) || (byte == b'\\' && matches!(self.after(1), Some(b'u' | b'U'))) {
                self.bump();
                end = self.at;
            } else {
                break;
            }
        }
        let next = self.source.get(self.at).copied();
        if let Some(quote @ (b'"' | b'\'')) = next
            && end == self.at
            && matches!(&self.source[start..end], b"L" | b"u" | b"U" | b"u8")
        {
            return self.quoted(quote, in_directive);
        }
        self.rewind(end);
        Ok(Kind::Word)
    }

    /// Go back to `end`, from where only continued lines were skipped.
    fn rewind(&mut self, end: usize) {
        let skipped = self.source[end..self.at].iter().filter(|&&byte| byte == b'\n').count();
        self.line -= skipped as u32;
        self.at = end;
    }

    fn number(&mut self) {
        let mut end = self.at;
        let mut last = 0;
        while let Some(byte) = self.peek() {
            let sign = matches!(byte, b'+' | b'-') && matches!(last, b'e' | b'E' | b'p' | b'P');
            // C23 separates digits with quotes.
            let quote = byte == b'\''
                && is_word_byte(last)
                && self.after(1).is_some_and(|next| next.is_ascii_alphanumeric());
            if !(is_word_byte(byte) || byte == b'.' || sign || quote) {
                break;
            }
            last = byte;
            self.bump();
            end = self.at;
        }
        self.rewind(end);
    }

    fn quoted(&mut self, quote: u8, in_directive: bool) -> Result<Kind, Error> {
        let (start, line) = (self.at, self.line);
        self.bump();
        while let Some(byte) = self.peek() {
            match byte {
                b'\n' => break,
                b'\\' => {
                    self.bump();
                    if self.peek().is_some_and(|byte| byte != b'\n') {
                        self.bump();
                    }
                }
                _ => {
                    self.trigraph_backslash(quote)?;
                    self.bump();
                    if byte == quote {
                        return Ok(Kind::Text);
                    }
                }
            }
        }
        // An apostrophe in #error, or in text that no compiler sees.
        if in_directive {
            self.at = start + 1;
            self.line = line;
        }
        Ok(Kind::Bad)
    }

    fn punctuator(&mut self) -> Result<Kind, Error> {
        let rest = &self.source[self.at..];
        if rest.len() > 2 && rest.starts_with(b"??") && b"=()/'<!>-".contains(&rest[2]) {
            return Err(self.trigraph());
        }
        for known in PUNCTUATORS {
            let bytes = known.as_bytes();
            if !(0..bytes.len()).all(|index| self.after(index) == Some(bytes[index])) {
                continue;
            }
            for _ in bytes {
                self.skip_splices();
                self.bump();
            }
            return Ok(Kind::Punct(match known {
                "<%" => "{",
                "%>" => "}",
                "<:" => "[",
                ":>" => "]",
                other => other,
            }));
        }
        self.bump();
        Ok(Kind::Bad)
    }
}
