//! `docs/src/config.md`

use std::fmt::Write;

use super::{GENERATED, cell};
use crate::config::kind::Kind;
use crate::config::schema::{Absent, KeySpec, Schema, Section};

const INTRODUCTION: &str = r#"
Values come from, in rising order:

1. the defaults below
2. the file: `--config FILE`, else `$POSTRIDER_CONFIG`, else `postrider.toml` in the working directory if there is one
3. variables: `POSTRIDER__SINK__OUT__PATH` sets `sink.out.path`. Case does not count, and `_` also stands for `-` and `.`
   in a name of the file. A list is written `a,b`
4. flags: `--set sink.out.path=events.jsonl`

A key that does not exist is an error in every layer. `postrider config init` writes a file to begin with, `postrider
config check` finds every mistake at once, and `postrider config show --origin` says where each value came from.

| type | how it is written |
|---|---|
| duration | a whole number and `ms`, `s`, `m`, `h` or `d`: `"250ms"`, `"5s"`, `"2m"` |
| size | a whole number and `B`, `KiB`, `MiB` or `GiB`: `"64KiB"`, `"1MiB"` |
| URL, secret | itself; or `"env:NAME"`, the value of a variable; or `"file:PATH"`, what is in a file |

Secrets, and users, passwords and parameters in URLs, are masked wherever they would be shown. On the command line a secret
or a URL with a password is refused: every user of a machine can read the arguments of its processes.

Names of sections are 1 to 100 letters, digits, `_`, `-` and `.`. Paths are relative to the working directory.
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
    let default = match spec.absent {
        Absent::Default(text) => format!("`{text}`"),
        Absent::Error => "required".to_owned(),
        Absent::Nothing => String::new(),
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
    }
}
