//! What can be wrong with one key, in words.

use postrider::Code;

use super::kind::Kind;
use super::layer::Group;
use super::nearest;
use super::problem::Problem;
use super::protected::Protected;
use super::raw::Raw;
use super::schema::Entry;
use super::url;
use super::value::Value;

/// Whether a secret stands there for all to read.
pub(super) fn is_open(kind: Kind, value: &Value) -> bool {
    match (kind, value) {
        (Kind::Secret, Value::Protected(Protected::Inline { .. })) => true,
        (_, Value::Protected(Protected::Inline { secret, .. })) => url::may_be_secret(secret.expose_secret()),
        _ => false,
    }
}

pub(super) fn secret_open(group: &Group, entry: &Entry) -> Problem {
    let key = group.key(entry.name);
    Problem::new(Code::ConfigSecretOpen, format!("the secret of {key} stands on the command line"))
        .with_hint(format!(
            "put it into a variable and write --set {key}=env:NAME, or into a file and file:PATH"
        ))
        .key(key)
}

pub(super) fn wrong_value(group: &Group, entry: &Entry, raw: &Raw, found: &str) -> Problem {
    let key = group.key(entry.name);
    let nearest = match (entry.kind, raw.text()) {
        (Kind::Choice(words), Some(text)) => nearest::nearest(text, words.iter().copied()),
        _ => None,
    };
    let hint = match nearest {
        Some(word) => format!("did you mean \"{word}\"?"),
        None => format!("for example: {} = {}", entry.name, entry.example),
    };
    Problem::new(Code::ConfigValue, format!("{key} takes {}, found {found}", entry.kind.words()))
        .key(key)
        .with_hint(hint)
}

pub(super) fn missing(group: &Group, entry: &Entry) -> Problem {
    Problem::new(Code::ConfigKeyMissing, format!("{group} has no key \"{}\"", entry.name))
        .key(group.key(entry.name))
        .with_hint(format!("add for example: {} = {}", entry.name, entry.example))
}

pub(super) fn other_type(group: &Group, entry: &Entry, of_type: &str, of_table: &str) -> Problem {
    let what =
        format!("\"{}\" is a key of type \"{of_type}\", and {group} is of type \"{of_table}\"", entry.name);
    Problem::new(Code::ConfigKeyUnknown, what)
        .key(group.key(entry.name))
        .with_hint("remove it, or change the type")
}
