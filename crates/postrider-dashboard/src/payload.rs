//! Payloads: hostile text, shown exactly.

use serde_json::value::RawValue;

/// A payload as a page shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// JSON, indented. Numbers and texts are those of the payload, byte for byte.
    Json(String),
    /// Other text.
    Text(String),
    /// Bytes that are no text, in hexadecimal.
    Hex(String),
    /// It is not JSON, and some members must not be shown: nothing is.
    Withheld,
}

/// What stands for a value that is not shown.
const REDACTED: &str = "\"[redacted]\"";

/// Deeper JSON is shown as text: serde_json stops there too.
const DEPTH_MAX: usize = 120;

/// Indented JSON is at most this long: spaces can be many times the payload. Longer JSON is shown as text.
const INDENTED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A payload for a page. `redacted` are names of members in lower case.
pub(crate) fn shown(payload: &[u8], redacted: &[String]) -> Shown {
    let text = std::str::from_utf8(payload).ok();
    let json = text.and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
    if let Some(indented) = json.and_then(|json| indented(json, redacted)) {
        return Shown::Json(indented);
    }
    match text {
        _ if !redacted.is_empty() => Shown::Withheld,
        Some(text) => Shown::Text(visible(text)),
        None => Shown::Hex(hex(payload)),
    }
}

/// Control characters as their pictures, so that none is lost or acts.
fn visible(text: &str) -> String {
    let picture = |c: char| match c {
        '\n' | '\t' => c,
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + c as u32).unwrap_or(c),
        '\u{7f}' => '\u{2421}',
        c => c,
    };
    text.chars().map(picture).collect()
}

fn hex(bytes: &[u8]) -> String {
    let line = |(at, chunk): (usize, &[u8])| {
        let digits: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:08x}  {}", at * 16, digits.join(" "))
    };
    bytes.chunks(16).enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// Valid JSON with one member per line. `None` if it is nested too deeply.
fn indented(json: &RawValue, redacted: &[String]) -> Option<String> {
    let mut printer = Printer { out: String::new(), redacted };
    printer.value(json.get(), 0)?;
    Some(printer.out)
}

struct Printer<'a> {
    out: String,
    redacted: &'a [String],
}

/// The members of an object in their order, with those of the same name.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> serde::Deserialize<'de> for Members<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

impl Printer<'_> {
    fn value(&mut self, text: &str, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX || self.out.len() > INDENTED_BYTES_MAX {
            return None;
        }
        match text.as_bytes().first()? {
            b'{' => {
                let Members(members) = serde_json::from_str(text).ok()?;
                self.list('{', '}', depth, members.len(), |printer, at| {
                    let (name, value) = members.get(at)?;
                    printer.out.push_str(&serde_json::to_string(name).ok()?);
                    printer.out.push_str(": ");
                    match printer.redacted.contains(&name.to_lowercase()) {
                        true => printer.out.push_str(REDACTED),
                        false => printer.value(value.get(), depth + 1)?,
                    }
                    Some(())
                })
            }
            b'[' => {
                let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
                self.list('[', ']', depth, items.len(), |printer, at| {
                    printer.value(items.get(at)?.get(), depth + 1)
                })
            }
            _ => {
                self.out.push_str(text);
                Some(())
            }
        }
    }

    fn list(
        &mut self,
        open: char,
        close: char,
        depth: usize,
        items: usize,
        item: impl Fn(&mut Self, usize) -> Option<()>,
    ) -> Option<()> {
        self.out.push(open);
        for at in 0..items {
            self.out.push_str(if at == 0 { "\n" } else { ",\n" });
            self.out.push_str(&"  ".repeat(depth + 1));
            item(self, at)?;
        }
        if items > 0 {
            self.out.push('\n');
            self.out.push_str(&"  ".repeat(depth));
        }
        self.out.push(close);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str, redacted: &[&str]) -> String {
        let redacted: Vec<String> = redacted.iter().map(|name| (*name).to_owned()).collect();
        match shown(text.as_bytes(), &redacted) {
            Shown::Json(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_are_those_of_the_payload() {
        let shown = json(
            r#"{"big":9223372036854775808,"exact":1.10,"huge":1e999,"list":[],"of":[1, 2],"none":{}}"#,
            &[],
        );
        let expected = "{\n  \"big\": 9223372036854775808,\n  \"exact\": 1.10,\n  \"huge\": 1e999,\n  \"list\": [],\n  \
                        \"of\": [\n    1,\n    2\n  ],\n  \"none\": {}\n}";
        assert_eq!(shown, expected);
    }

    #[test]
    fn members_are_redacted_at_any_depth_and_in_any_case() {
        let shown = json(
            r#"{"Card":{"number":"4111"},"of":[{"card":1}],"card":2,"c\u0061rd":3,"cards":4}"#,
            &["card"],
        );
        assert_eq!(shown.matches("[redacted]").count(), 4, "{shown}");
        assert!(!shown.contains("4111") && shown.contains("\"cards\": 4"), "{shown}");
    }

    #[test]
    fn what_is_no_json_is_not_shown_if_something_must_be_redacted() {
        let card = ["card".to_owned()];
        assert_eq!(shown(b"card=4111", &card), Shown::Withheld);
        assert_eq!(shown(&[0xff, 0], &card), Shown::Withheld);
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        assert_eq!(shown(deep.as_bytes(), &card), Shown::Withheld);
        assert_eq!(shown(deep.as_bytes(), &[]), Shown::Text(deep));
    }

    #[test]
    fn every_byte_is_visible() {
        assert_eq!(shown(b"a\x00\x1b[2J\nb", &[]), Shown::Text("a\u{2400}\u{241b}[2J\nb".to_owned()));
        assert_eq!(shown(&[0xff, 0x00, 0x41], &[]), Shown::Hex("00000000  ff 00 41".to_owned()));
        assert_eq!(shown(b"", &[]), Shown::Text(String::new()));
    }
}
