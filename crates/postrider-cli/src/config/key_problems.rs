//! Problems with one key.

use postrider::Code;

use super::kind::Kind;
use super::layer::Group;
use super::problem::Problem;
use super::raw::Raw;
use super::schema::KeySpec;
use super::secret_source::SecretSource;
use super::suggest;
use super::url;
use super::value::Value;

/// Whether a value is a secret in plain text.
pub(super) fn is_open_secret(kind: Kind, value: &Value) -> bool {
    match (kind, value) {
        (Kind::Secret, Value::Secret(SecretSource::Inline { .. })) => true,
        (_, Value::Secret(SecretSource::Inline { secret, .. })) => url::may_be_secret(secret.expose_secret()),
        _ => false,
    }
}

pub(super) fn secret_on_command_line(group: &Group, spec: &KeySpec) -> Problem {
    let key = group.key(spec.name);
    Problem::new(Code::ConfigSecretOpen, format!("the secret {key} is on the command line"))
        .with_hint(format!("put it into an environment variable and use --set {key}=env:NAME, or into a file and use file:PATH"))
        .key(key)
}

pub(super) fn invalid_value(group: &Group, spec: &KeySpec, raw: &Raw, found: &str) -> Problem {
    let key = group.key(spec.name);
    let closest = match (spec.kind, raw.text()) {
        (Kind::Choice(words), Some(text)) => suggest::closest(text, words.iter().copied()),
        _ => None,
    };
    let hint = match closest {
        Some(word) => format!("did you mean \"{word}\"?"),
        None => format!("for example: {} = {}", spec.name, spec.example),
    };
    Problem::new(Code::ConfigValue, format!("{key} takes {}, found {found}", spec.kind.words()))
        .key(key)
        .with_hint(hint)
}

pub(super) fn missing(group: &Group, spec: &KeySpec) -> Problem {
    Problem::new(Code::ConfigKeyMissing, format!("{group} has no key \"{}\"", spec.name))
        .key(group.key(spec.name))
        .with_hint(format!("add for example: {} = {}", spec.name, spec.example))
}

pub(super) fn other_type(group: &Group, spec: &KeySpec, types: &[&str], of_table: &str) -> Problem {
    let types: Vec<String> = types.iter().map(|of_type| format!("\"{of_type}\"")).collect();
    let types = types.join(", ");
    let what = format!("\"{}\" is a key of type {types}, but {group} is of type \"{of_table}\"", spec.name);
    Problem::new(Code::ConfigKeyUnknown, what)
        .key(group.key(spec.name))
        .with_hint("remove it, or change the type")
}
