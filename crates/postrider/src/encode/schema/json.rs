//! A JSON text as a flat list of nodes that borrow from it: one pass, one allocation, no copies of texts.
//!
//! Numbers stay as they are written, so that the schema decides what they mean. Depth and number of nodes are bounded by
//! [`DEPTH_MAX`] and by the size of the text.

use std::borrow::Cow;

/// The deepest nesting of a payload. Documents of applications have less than ten levels; the writers recurse per level.
pub(crate) const DEPTH_MAX: usize = 64;

/// The largest text. Kafka's default limit is 1 MiB; the margin is for clusters with a higher one.
pub(crate) const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A parsed JSON text.
#[derive(Debug)]
pub(super) struct Document<'a> {
    text: &'a str,
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    /// Where its text begins; for a text after the quote.
    start: u32,
    /// Where its text ends; for a text before the quote.
    end: u32,
    /// The index of the node after it and its children.
    next: u32,
    kind: Kind,
    /// A text contains escapes.
    is_escaped: bool,
}

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Number,
    Text,
    Array,
    Object,
}

impl Kind {
    /// With an article, as the end of "found ...".
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

impl<'a> Document<'a> {
    /// Parses a text.
    ///
    /// # Errors
    /// What is wrong with it, as the end of "the payload ...".
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        if bytes.len() > TEXT_BYTES_MAX {
            return Err(format!("has {} bytes; the limit is {TEXT_BYTES_MAX}", bytes.len()));
        }
        let text = std::str::from_utf8(bytes)
            .map_err(|error| format!("is not UTF-8 at byte {}", error.valid_up_to()))?;
        let mut parser = Parser { bytes, at: 0, nodes: Vec::with_capacity(bytes.len() / 8 + 8) };
        parser.document().map_err(|what| match what {
            Fault::Syntax => format!("is not valid JSON at byte {}", parser.at),
            Fault::Depth => format!("is nested more than {DEPTH_MAX} levels deep"),
        })?;
        Ok(Self { text, nodes: parser.nodes })
    }

    /// The whole value.
    pub(super) fn root(&self) -> Value<'_> {
        Value { document: self, at: 0 }
    }

    /// The value at an index that [`Value::index`] returned.
    pub(super) fn at(&self, index: u32) -> Value<'_> {
        Value { document: self, at: index }
    }

    fn node(&self, at: u32) -> Node {
        const NOTHING: Node = Node { start: 0, end: 0, next: 0, kind: Kind::Null, is_escaped: false };
        self.nodes.get(at as usize).copied().unwrap_or(NOTHING)
    }
}

/// A value of a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'d> {
    document: &'d Document<'d>,
    at: u32,
}

impl<'d> Value<'d> {
    pub(super) fn kind(self) -> Kind {
        self.document.node(self.at).kind
    }

    /// Its place in the document.
    pub(super) fn index(self) -> u32 {
        self.at
    }

    /// The value at an index of the same document.
    pub(super) fn elsewhere(self, index: u32) -> Self {
        Self { at: index, ..self }
    }

    /// The text of a number as written, or what is between the quotes of a text.
    pub(super) fn raw(self) -> &'d str {
        let node = self.document.node(self.at);
        self.document.text.get(node.start as usize..node.end as usize).unwrap_or_default()
    }

    /// The text, without escapes. Empty for other kinds.
    pub(super) fn text(self) -> Cow<'d, str> {
        let node = self.document.node(self.at);
        match node.kind {
            Kind::Text if node.is_escaped => Cow::Owned(unescaped(self.raw())),
            Kind::Text => Cow::Borrowed(self.raw()),
            _ => Cow::Borrowed(""),
        }
    }

    /// Whether it is this text.
    pub(super) fn is_text(self, text: &str) -> bool {
        let node = self.document.node(self.at);
        if node.is_escaped { self.text() == text } else { self.raw() == text }
    }

    /// The items of an array; nothing for other kinds.
    pub(super) fn items(self) -> impl Iterator<Item = Value<'d>> {
        let is_array = self.kind() == Kind::Array;
        Children { document: self.document, at: self.at + 1, end: self.end(is_array) }
    }

    /// The names and values of an object in their order, duplicates included; nothing for other kinds.
    pub(super) fn entries(self) -> impl Iterator<Item = (Value<'d>, Value<'d>)> {
        let is_object = self.kind() == Kind::Object;
        let mut children = Children { document: self.document, at: self.at + 1, end: self.end(is_object) };
        std::iter::from_fn(move || Some((children.next()?, children.next()?)))
    }

    fn end(self, has_children: bool) -> u32 {
        if has_children { self.document.node(self.at).next } else { 0 }
    }
}

struct Children<'d> {
    document: &'d Document<'d>,
    at: u32,
    end: u32,
}

impl<'d> Iterator for Children<'d> {
    type Item = Value<'d>;

    fn next(&mut self) -> Option<Value<'d>> {
        let at = self.at;
        (at < self.end).then(|| {
            self.at = self.document.node(at).next;
            Value { document: self.document, at }
        })
    }
}

enum Fault {
    Syntax,
    Depth,
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
}

impl Parser<'_> {
    fn document(&mut self) -> Result<(), Fault> {
        self.value(0)?;
        self.space();
        if self.at == self.bytes.len() { Ok(()) } else { Err(Fault::Syntax) }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn value(&mut self, depth: usize) -> Result<(), Fault> {
        self.space();
        match self.peek().ok_or(Fault::Syntax)? {
            b'{' | b'[' if depth == DEPTH_MAX => Err(Fault::Depth),
            b'{' => self.container(Kind::Object, b'}', depth),
            b'[' => self.container(Kind::Array, b']', depth),
            b'"' => self.text(),
            b'n' => self.word(b"null", Kind::Null),
            b't' => self.word(b"true", Kind::Bool(true)),
            b'f' => self.word(b"false", Kind::Bool(false)),
            _ => self.number(),
        }
    }

    fn container(&mut self, kind: Kind, close: u8, depth: usize) -> Result<(), Fault> {
        let own = self.nodes.len();
        let start = self.at;
        self.at += 1;
        self.push(start, start, kind, false);
        self.space();
        if !self.take(close) {
            loop {
                if kind == Kind::Object {
                    self.space();
                    if self.peek() != Some(b'"') {
                        return Err(Fault::Syntax);
                    }
                    self.text()?;
                    self.space();
                    if !self.take(b':') {
                        return Err(Fault::Syntax);
                    }
                }
                self.value(depth + 1)?;
                self.space();
                if self.take(close) {
                    break;
                }
                if !self.take(b',') {
                    return Err(Fault::Syntax);
                }
            }
        }
        let (next, end) = (index(self.nodes.len()), index(self.at));
        if let Some(node) = self.nodes.get_mut(own) {
            (node.next, node.end) = (next, end);
        }
        Ok(())
    }

    fn push(&mut self, start: usize, end: usize, kind: Kind, is_escaped: bool) {
        let next = index(self.nodes.len() + 1);
        self.nodes.push(Node { start: index(start), end: index(end), next, kind, is_escaped });
    }

    fn word(&mut self, word: &[u8], kind: Kind) -> Result<(), Fault> {
        let start = self.at;
        if !self.bytes[start..].starts_with(word) {
            return Err(Fault::Syntax);
        }
        self.at += word.len();
        self.push(start, self.at, kind, false);
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(Fault::Syntax) }
    }

    fn number(&mut self) -> Result<(), Fault> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        self.push(start, self.at, Kind::Number, false);
        Ok(())
    }

    fn text(&mut self) -> Result<(), Fault> {
        self.at += 1;
        let start = self.at;
        let mut is_escaped = false;
        loop {
            match self.peek().ok_or(Fault::Syntax)? {
                b'"' => break,
                b'\\' => {
                    is_escaped = true;
                    self.escape()?;
                }
                0..=0x1f => return Err(Fault::Syntax),
                _ => self.at += 1,
            }
        }
        self.push(start, self.at, Kind::Text, is_escaped);
        self.at += 1;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), Fault> {
        let escape = self.bytes.get(self.at + 1).copied().ok_or(Fault::Syntax)?;
        if matches!(escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') {
            self.at += 2;
            return Ok(());
        }
        let unit = hex(self.bytes, self.at).filter(|_| escape == b'u').ok_or(Fault::Syntax)?;
        match unit {
            0xd800..=0xdbff => {
                let low = hex(self.bytes, self.at + 6).ok_or(Fault::Syntax)?;
                if !matches!(low, 0xdc00..=0xdfff) {
                    return Err(Fault::Syntax);
                }
                self.at += 12;
            }
            0xdc00..=0xdfff => return Err(Fault::Syntax),
            _ => self.at += 6,
        }
        Ok(())
    }
}

/// The code unit of `\uXXXX` at this place.
fn hex(bytes: &[u8], at: usize) -> Option<u32> {
    let escape = bytes.get(at..at + 6)?;
    let digits = escape.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, digit| Some(unit * 16 + char::from(*digit).to_digit(16)?))
}

/// The text of a literal whose escapes were checked.
fn unescaped(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let code = rest.as_bytes().get(at + 1).copied().unwrap_or_default();
        let (point, length) = match code {
            b'b' => (0x8, 2),
            b'f' => (0xc, 2),
            b'n' => (0xa, 2),
            b'r' => (0xd, 2),
            b't' => (0x9, 2),
            b'u' => {
                let unit = hex(rest.as_bytes(), at).unwrap_or(0xfffd);
                match hex(rest.as_bytes(), at + 6).filter(|_| (0xd800..0xdc00).contains(&unit)) {
                    Some(low) => (0x1_0000 + ((unit - 0xd800) << 10) + low.wrapping_sub(0xdc00), 12),
                    None => (unit, 6),
                }
            }
            other => (u32::from(other), 2),
        };
        text.push(char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER));
        rest = rest.get(at + length..).unwrap_or_default();
    }
    text.push_str(rest);
    text
}

/// Positions fit: a text has at most [`TEXT_BYTES_MAX`] bytes.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As serde_json reads it.
    fn tree(value: Value<'_>) -> serde_json::Value {
        match value.kind() {
            Kind::Null => serde_json::Value::Null,
            Kind::Bool(truth) => truth.into(),
            Kind::Number => serde_json::from_str(value.raw()).unwrap(),
            Kind::Text => value.text().into_owned().into(),
            Kind::Array => value.items().map(tree).collect(),
            Kind::Object => serde_json::Value::Object(
                value.entries().map(|(name, value)| (name.text().into_owned(), tree(value))).collect(),
            ),
        }
    }

    #[test]
    fn a_document_has_the_values_that_serde_reads() {
        for text in [
            r#" {"a": [1, -2.5e3, true, false, null, {}], "b\u00e9\ud83d\ude00\n\/": "x\"y", "": []} "#,
            "0",
            "\"\\\\u0041\"",
            "[[[]],[{}],[[1],2]]",
        ] {
            let document = Document::parse(text.as_bytes()).unwrap();
            assert_eq!(tree(document.root()), serde_json::from_str::<serde_json::Value>(text).unwrap());
        }
    }

    #[test]
    fn random_texts_are_accepted_and_refused_as_by_serde() {
        let alphabet = "{}[]\":,\\u0dD8e+-.1 ntrfalsé".as_bytes();
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut accepted = 0;
        for _ in 0..300_000 {
            let mut next = || {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                usize::try_from(seed >> 33).unwrap()
            };
            let length = next() % 9;
            let text: Vec<u8> = (0..length).map(|_| alphabet[next() % alphabet.len()]).collect();
            let ours = Document::parse(&text);
            let theirs = serde_json::from_slice::<serde_json::Value>(&text);
            // serde refuses numbers beyond a double, which a decimal may hold.
            let is_out_of_range =
                theirs.as_ref().is_err_and(|error| error.to_string().contains("out of range"));
            assert_eq!(ours.is_ok(), theirs.is_ok() || is_out_of_range, "{}", String::from_utf8_lossy(&text));
            if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
                assert_eq!(tree(ours.root()), theirs);
                accepted += 1;
            }
        }
        assert!(accepted > 1_000, "{accepted}");
    }

    #[test]
    fn nesting_is_limited() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Document::parse(nested(DEPTH_MAX).as_bytes()).is_ok());
        let deep = Document::parse(nested(2_000_000).as_bytes()).unwrap_err();
        assert_eq!(deep, "is nested more than 64 levels deep");
    }

    #[test]
    fn what_is_not_json_is_refused_with_its_place() {
        for (bytes, why) in [
            (&b"{\"a\":1,}"[..], "is not valid JSON at byte 7"),
            (b"\"\xff\"", "is not UTF-8 at byte 1"),
            (b"\"\\ud800\"", "is not valid JSON at byte 1"),
            (b"\"a\nb\"", "is not valid JSON at byte 2"),
            (b"01", "is not valid JSON at byte 1"),
            (b"", "is not valid JSON at byte 0"),
        ] {
            assert_eq!(Document::parse(bytes).unwrap_err(), why, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
