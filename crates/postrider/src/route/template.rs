//! Templates: text with fields of an event.

use std::sync::Arc;

use super::field::{NAMES, TemplateField};
use crate::{Code, Error, Event, Result};

/// Limits the length of a rendered template, together with the limits on an event's texts.
const TEMPLATE_BYTES_MAX: usize = 1_000;

/// A parsed template. `{field}` is the event's value, `{field|text}` is the value or the text if there is none, `{{`
/// and `}}` are braces. An empty value counts as none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    parts: Vec<Part>,
    /// How values and defaults are written.
    escape: Escape,
}

/// How values of an event are written into a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    /// As they are.
    Nothing,
    /// Percent-encoded as a part of a URL.
    Url,
    /// Percent-encoded where a character would change the levels of an MQTT topic.
    Topic,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    TemplateField { field: TemplateField, default: Option<String> },
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// [`Code::TemplateSyntax`] and [`Code::TemplateField`], both with the column, counted in characters
    /// from 1.
    pub(super) fn parse(text: &str) -> Result<Self> {
        if text.len() > TEMPLATE_BYTES_MAX {
            let what = format!("a template has {} bytes; the limit is {TEMPLATE_BYTES_MAX}", text.len());
            return Err(Error::new(Code::TemplateSyntax, what).with_hint("shorten it"));
        }
        let mut parser = Parser { text, at: 0, parts: Vec::new() };
        if let Some(at) = text.find(char::is_control) {
            parser.at = at;
            return Err(parser.error("there is a control character").with_hint("remove it"));
        }
        while parser.at < text.len() {
            parser.part()?;
        }
        Ok(Self { parts: parser.parts, escape: Escape::Nothing })
    }

    /// As [`Template::parse`], for a text that must not be empty.
    pub(super) fn parse_filled(text: &str) -> Result<Self> {
        let template = Self::parse(text)?;
        let filled = |part: &Part| match part {
            Part::Literal(text) => !text.is_empty(),
            Part::TemplateField { default, .. } => default.as_ref().is_none_or(|default| !default.is_empty()),
        };
        if template.parts.iter().any(filled) {
            return Ok(template);
        }
        let what = format!("the template {text:?} can produce an empty text");
        Err(Error::new(Code::TemplateSyntax, what)
            .with_hint("add a text, or a default such as {topic|orders}"))
    }

    /// A template that renders this text for every event.
    pub(super) fn of_literal(text: &str) -> Self {
        Self { parts: vec![Part::Literal(text.to_owned())], escape: Escape::Nothing }
    }

    /// The text, if no event can change it.
    pub(super) fn literal(&self) -> Option<&str> {
        match &self.parts[..] {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Appends the text for an event. `false` if the event lacks a field that has no default; the text is then
    /// incomplete.
    pub(super) fn render(&self, event: &Event, text: &mut String) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Literal(literal) => {
                text.push_str(literal);
                true
            }
            Part::TemplateField { field, default } => {
                let before = text.len();
                let has_value = field.write(event, text)
                    || default.as_ref().is_some_and(|default| {
                        text.push_str(default);
                        true
                    });
                match self.escape {
                    Escape::Nothing => {}
                    Escape::Url => percent_encode(text, before, stays_in_url),
                    Escape::Topic => percent_encode(text, before, stays_in_topic),
                }
                has_value
            }
        })
    }

    /// The template of a URL: every value becomes one path segment or one query value. Also returns scheme, host and
    /// port if no event can change them. A template that consists of a single field is a URL chosen by the event.
    ///
    /// # Errors
    /// [`Code::DestinationUrl`] if it cannot become the URL of an endpoint.
    pub(super) fn into_url(self) -> Result<(Self, Option<Arc<str>>)> {
        let [first, others @ ..] = &self.parts[..] else { return Err(not_url("it is empty")) };
        let Part::Literal(text) = first else {
            let why = "it begins with a value of the event, followed by other text";
            return if others.is_empty() { Ok((self, None)) } else { Err(not_url(why)) };
        };
        let scheme = ["https://", "http://"]
            .into_iter()
            .find(|scheme| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
            .ok_or_else(|| not_url("it does not begin with https:// or http://"))?;
        // Where scheme, host and port end. A value before this point is part of them.
        let end = text[scheme.len()..].find(['/', '?', '#']).map(|end| scheme.len() + end);
        if self.parts.iter().any(|part| matches!(part, Part::Literal(text) if text.contains('\\'))) {
            return Err(not_url("it has a backslash"));
        }
        let is_whole = end.is_some() || others.is_empty();
        let authority = &text[scheme.len()..end.unwrap_or(text.len())];
        let user = "it has a user or password; use `authorization` of the sink instead";
        let mut later = others.iter().take_while(|_| !is_whole).filter_map(Part::authority);
        if authority.contains('@') || later.any(|text| text.contains('@')) {
            return Err(not_url(user));
        }
        if is_whole && authority.is_empty() {
            return Err(not_url("it has no host"));
        }
        let origin = is_whole.then(|| Arc::from(&text[..end.unwrap_or(text.len())]));
        Ok((Self { escape: Escape::Url, ..self }, origin))
    }

    /// The template of an MQTT topic: every value becomes one level, or a part of one. A template that consists of a single
    /// field is a topic chosen by the event.
    ///
    /// # Errors
    /// [`Code::TemplateSyntax`] if it contains a wildcard.
    pub(super) fn into_topic(self) -> Result<Self> {
        let text = |part: &Part| match part {
            Part::Literal(text) => Some(text.clone()),
            Part::TemplateField { default, .. } => default.clone(),
        };
        let texts: Vec<String> = self.parts.iter().filter_map(text).collect();
        if let Some(text) = texts.iter().find(|text| text.contains(['+', '#'])) {
            let what =
                format!("the destination has a wildcard (+ or #) in {text:?}, which a topic must not have");
            return Err(Error::new(Code::TemplateSyntax, what).with_hint("remove it"));
        }
        let is_chosen = matches!(&self.parts[..], [Part::TemplateField { .. }]);
        Ok(Self { escape: if is_chosen { Escape::Nothing } else { Escape::Topic }, ..self })
    }
}

impl Part {
    /// The text that still belongs to the host, in a part that is not the first.
    fn authority(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => text.split(['/', '?', '#']).next(),
            Self::TemplateField { .. } => None,
        }
    }
}

fn not_url(why: &str) -> Error {
    Error::new(Code::DestinationUrl, format!("the destination is not the URL of an endpoint: {why}"))
}

/// Letters, digits, `-`, `.`, `_` and `~`.
fn stays_in_url(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~')
}

/// Everything except the separator of levels, wildcards, `$` (topics of the broker), control characters, and `%` itself.
fn stays_in_topic(c: char) -> bool {
    !c.is_control() && !matches!(c, '/' | '+' | '#' | '$' | '%')
}

/// Percent-encodes a text from a byte on, except characters that stay.
fn percent_encode(text: &mut String, from: usize, stays: fn(char) -> bool) {
    if text[from..].chars().all(stays) {
        return;
    }
    let value = text.split_off(from);
    for c in value.chars() {
        if stays(c) {
            text.push(c);
        } else {
            c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push_str(&format!("%{byte:02X}")));
        }
    }
}

/// Parses one part after the other.
struct Parser<'a> {
    text: &'a str,
    /// Byte of the next part.
    at: usize,
    parts: Vec<Part>,
}

impl<'a> Parser<'a> {
    fn part(&mut self) -> Result<()> {
        let rest = &self.text[self.at..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            self.literal(&rest[..1]);
            self.at += 2;
        } else if rest.starts_with('}') {
            return Err(self
                .error("the closing brace has no opening brace")
                .with_hint("write }} for a brace"));
        } else if let Some(inside) = rest.strip_prefix('{') {
            let end = inside.find(['{', '}']).filter(|end| inside[*end..].starts_with('}'));
            let Some(end) = end else {
                return Err(self
                    .error("the brace is not closed")
                    .with_hint("close it, or write {{ for a brace"));
            };
            self.field(&inside[..end])?;
            self.at += end + 2;
        } else {
            let end = rest.find(['{', '}']).unwrap_or(rest.len());
            self.literal(&rest[..end]);
            self.at += end;
        }
        Ok(())
    }

    fn literal(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Literal(before)) => before.push_str(text),
            _ => self.parts.push(Part::Literal(text.to_owned())),
        }
    }

    fn field(&mut self, inside: &'a str) -> Result<()> {
        let (name, default) = match inside.split_once('|') {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (inside, None),
        };
        let Some(field) = TemplateField::parse(name) else { return Err(self.unknown(name)) };
        self.parts.push(Part::TemplateField { field, default });
        Ok(())
    }

    fn unknown(&self, name: &str) -> Error {
        let fields = format!("fields are {}", NAMES.join(", "));
        let hint = match TemplateField::closest(name) {
            Some(closest) => format!("did you mean {{{closest}}}? {fields}"),
            None => fields,
        };
        self.error_of(Code::TemplateField, &format!("there is no field {name:?}")).with_hint(hint)
    }

    fn error(&self, why: &str) -> Error {
        self.error_of(Code::TemplateSyntax, why)
    }

    fn error_of(&self, code: Code, why: &str) -> Error {
        let column = self.text[..self.at].chars().count() + 1;
        Error::new(code, format!("template {:?}, column {column}: {why}", self.text))
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
