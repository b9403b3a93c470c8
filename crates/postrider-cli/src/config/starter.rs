//! The file `config init` writes: works as it is, and names every key in a comment.

use std::fmt::Write;

use super::schema::{Absent, Entry, Schema, Section};

/// What the starter sets, by section: enough to carry events of a SQLite file to a text file.
const SET: [(Section, &str, &[(&str, &str)]); 5] = [
    (Section::Relay, "[relay]", &[]),
    (Section::Outbox, "[outbox.shop]", &[("url", r#""sqlite:shop.db""#)]),
    (Section::Sink, "[sink.out]", &[("type", r#""file""#), ("path", r#""events.jsonl""#)]),
    (Section::Subscription, "[subscription.orders]", &[("sink", r#""out""#), ("start", r#""beginning""#)]),
    (Section::Rule, "[[subscription.orders.rule]]", &[]),
];

/// The text of the starter file.
pub fn text(schema: Schema) -> String {
    let mut text = String::from(
        "# Postrider's configuration. Keys behind a # show their default, or an example if they have none.\n\
         # Check it with `postrider config check`; see what counts with `postrider config show --origin`.\n\
         # A variable such as POSTRIDER__OUTBOX__SHOP__URL goes before this file, a flag such as\n\
         # --set outbox.shop.url=sqlite:other.db before both.\n",
    );
    for (section, heading, set) in SET {
        // A rule without keys would be one that matches everything: it is shown, not set.
        let mark = if section == Section::Rule { "# " } else { "" };
        let _ = write!(text, "\n# {}\n{mark}{heading}\n", section.doc());
        for entry in schema.keys(section) {
            let _ = write!(text, "\n# {}\n{}\n", entry.doc, line(entry, set));
        }
    }
    text
}

fn line(entry: &Entry, set: &[(&str, &str)]) -> String {
    match set.iter().find(|(name, _)| *name == entry.name) {
        Some((name, value)) => format!("{name} = {value}"),
        None => format!("# {} = {}", entry.name, default_or_example(entry)),
    }
}

fn default_or_example(entry: &Entry) -> String {
    match entry.absent {
        Absent::Default(text) if entry.kind.is_bare() => text.to_owned(),
        Absent::Default(text) => format!("{text:?}"),
        Absent::Error | Absent::Nothing => entry.example.to_owned(),
    }
}
