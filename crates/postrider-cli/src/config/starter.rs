//! The file that `config init` writes: it works unchanged, and contains all applicable keys in comments.

use std::fmt::Write;

use postrider::layout::{Ability, RowLayout};

use super::schema::{IfUnset, KeySpec, Schema, Section};

/// A table of the starter file: its heading and the keys that are set.
struct Set {
    section: Section,
    heading: &'static str,
    keys: &'static [(&'static str, &'static str)],
}

/// Delivers events from a SQLite file to a text file.
const SETS: [Set; 8] = [
    Set { section: Section::Relay, heading: "[relay]", keys: &[] },
    Set { section: Section::Http, heading: "[http]", keys: &[] },
    Set { section: Section::Dashboard, heading: "[dashboard]", keys: &[] },
    Set { section: Section::Traces, heading: "[traces]", keys: &[] },
    Set { section: Section::Outbox, heading: "[outbox.shop]", keys: &[("url", r#""sqlite:shop.db""#)] },
    Set {
        section: Section::Sink,
        heading: "[sink.out]",
        keys: &[("type", r#""file""#), ("path", r#""events.jsonl""#)],
    },
    Set {
        section: Section::Subscription,
        heading: "[subscription.orders]",
        keys: &[("sink", r#""out""#), ("start", r#""beginning""#)],
    },
    // A rule without keys would match everything, so it is commented out.
    Set { section: Section::Rule, heading: "# [[subscription.orders.rule]]", keys: &[] },
];

const POSTGRES: &str = r#""postgres://relay@localhost/shop""#;

/// The layouts that a starter file can be written for, in addition to `postrider`.
pub fn layouts() -> impl Iterator<Item = &'static str> {
    RowLayout::ALL.iter().map(|layout| layout.name())
}

/// The text of the starter file, for an outbox of this layout.
pub fn text(schema: Schema, layout: &str) -> String {
    let rows = RowLayout::from_name(layout);
    let quoted = format!("{layout:?}");
    let mut of_rows = vec![("url", POSTGRES), ("layout", quoted.as_str())];
    // The rule of this layout: published rows are deleted at their `expires_at`.
    if rows.is_some_and(|rows| rows.has(Ability::Expiry)) {
        of_rows.push(("retention", r#""expires_at""#));
    }
    let of_rows = rows.map(|_| of_rows.as_slice());
    let mut text = String::from(
        "# Postrider configuration. Commented keys show their default, or an example if they have none.\n\
         # Check it with `postrider config check`; show effective values with `postrider config show --origin`.\n\
         # A variable such as POSTRIDER__OUTBOX__SHOP__URL overrides this file, and a flag such as\n\
         # --set outbox.shop.url=sqlite:other.db overrides both.\n",
    );
    for Set { section, heading, keys } in SETS {
        let keys = of_rows.filter(|_| section == Section::Outbox).unwrap_or(keys);
        let _ = write!(text, "\n# {}\n{heading}\n", section.doc());
        // Keys of other types do not apply.
        let chosen = keys.iter().find(|(name, _)| *name == "type").map(|(_, value)| value.trim_matches('"'));
        let fits = |spec: &&KeySpec| spec.of_type.is_none() || spec.of_type == chosen;
        for spec in schema.keys(section).filter(fits) {
            let _ = write!(text, "\n# {}\n{}\n", spec.doc, line(spec, keys, rows));
        }
    }
    text
}

fn line(spec: &KeySpec, set: &[(&str, &str)], layout: Option<RowLayout>) -> String {
    match set.iter().find(|(name, _)| *name == spec.name) {
        Some((name, value)) => format!("{name} = {value}"),
        None => format!("# {} = {}", spec.name, default_or_example(spec, layout)),
    }
}

fn default_or_example(spec: &KeySpec, layout: Option<RowLayout>) -> String {
    let on_eventlog = spec.default_on_eventlog.filter(|_| layout == Some(RowLayout::Eventlog));
    match on_eventlog.map_or(spec.if_unset, IfUnset::Default) {
        IfUnset::Default(text) if spec.kind.is_bare() => text.to_owned(),
        IfUnset::Default(text) => format!("{text:?}"),
        IfUnset::Error | IfUnset::Nothing => spec.example.to_owned(),
    }
}
