//! `docs/src/config.md`

use std::fmt::Write;

use super::{GENERATED, cell};
use crate::config::kind::{Field, Kind};
use crate::config::schema::{IfUnset, KeySpec, Schema, Section};

const INTRODUCTION: &str = r#"
Values come from these sources; a later source overrides an earlier one:

1. the defaults below
2. the file: `--config FILE`, otherwise `$POSTRIDER_CONFIG`, otherwise `postrider.toml` in the working directory if it exists
3. environment variables: `POSTRIDER__SINK__OUT__PATH` sets `sink.out.path`. Case is ignored, and `_` also matches `-` and `.`
   in a name of the file. A list is written `a,b`
4. flags: `--set sink.out.path=events.jsonl`

An unknown key is an error in every source. `postrider config init` writes a starter file, `postrider
config check` reports every mistake at once, and `postrider config show --origin` shows where each value comes from.

| type | format |
|---|---|
| duration | a whole number and `ms`, `s`, `m`, `h` or `d`: `"250ms"`, `"5s"`, `"2m"` |
| size | a whole number and `B`, `KiB`, `MiB` or `GiB`: `"64KiB"`, `"1MiB"` |
| URL, secret | the value; or `"env:NAME"`, the value of an environment variable; or `"file:PATH"`, the content of a file |

Secrets, and users, passwords and parameters in URLs, are masked in all output. On the command line a secret
or a URL with a password is rejected: every user of a machine can read the arguments of its processes.

Section names have 1 to 100 letters, digits, `_`, `-` and `.`. Paths are relative to the working directory.
"#;

/// Every section with its keys.
pub fn config(schema: Schema) -> String {
    let mut page = format!("# Configuration\n\n{GENERATED}\n{INTRODUCTION}");
    for section in Section::ALL {
        let _ = write!(page, "\n## `{section}`\n\n{}\n\n", section.doc());
        page.push_str("| key | type | default | meaning | example |\n|---|---|---|---|---|\n");
        for spec in schema.keys(section) {
            page.push_str(&row(spec));
        }
    }
    page
}

fn row(spec: &KeySpec) -> String {
    let default = match spec.if_unset {
        IfUnset::Default(text) => match spec.default_on_eventlog {
            Some(other) => format!("`{text}`; `{other}` with layout `eventlog`"),
            None => format!("`{text}`"),
        },
        IfUnset::Error => "required".to_owned(),
        IfUnset::Nothing => String::new(),
    };
    let only = spec.of_type.map(|of_type| format!(" Only for type `{of_type}`.")).unwrap_or_default();
    let (name, kind, example) = (spec.name, kind(spec.kind), cell(spec.example));
    format!("| `{name}` | {kind} | {default} | {}{only} | `{example}` |\n", cell(spec.doc))
}

fn kind(kind: Kind) -> String {
    match kind {
        Kind::Text => "text".into(),
        Kind::Bool => "`true`, `false`".into(),
        Kind::Number { min } => format!("number, at least {min}"),
        Kind::Duration => "duration".into(),
        Kind::Retention => "duration, `forever` or `expires_at`".into(),
        Kind::Size => "size".into(),
        Kind::Choice(words) => format!("`{}`", words.join("`, `")),
        Kind::List => "list of texts".into(),
        Kind::Map => "table of texts".into(),
        Kind::Path => "path".into(),
        Kind::Reference(section) => format!("name of {}", section.a_word()),
        Kind::Start => "start".into(),
        Kind::Url => "URL".into(),
        Kind::Secret => "secret".into(),
        Kind::Urls => "table of URLs".into(),
        Kind::Fields(fields) => format!("table of {}", names(fields)),
        Kind::Tables(fields) => format!("list of tables of {}", names(fields)),
    }
}

fn names(fields: &[Field]) -> String {
    fields.iter().map(|field| format!("`{}`", field.name)).collect::<Vec<_>>().join(", ")
}
