//! A value that may be secret: inline, or a reference to a variable or file.

use std::fmt;
use std::path::PathBuf;

use super::environment::Environment;
use super::secret::{MASK, Secret};
use super::url;

/// A secret or URL in the configuration. Its `Display` is the reference, or the masked value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// In the configuration itself.
    Inline {
        /// The value.
        secret: Secret,
        /// The masked value.
        shown: String,
    },
    /// `env:NAME`
    Env(String),
    /// `file:PATH`
    File(PathBuf),
}

impl SecretSource {
    pub(super) fn url(text: &str) -> Option<Self> {
        let inline = || Self::Inline { secret: Secret::new(text), shown: url::masked(text) };
        kept_elsewhere(text).unwrap_or_else(|| url::scheme(text).map(|_| inline()))
    }

    pub(super) fn secret(text: &str) -> Option<Self> {
        let inline = || Self::Inline { secret: Secret::new(text), shown: MASK.to_owned() };
        kept_elsewhere(text).unwrap_or_else(|| Some(inline()))
    }

    /// Reads the value from the variable or file.
    ///
    /// # Errors
    /// Why it cannot be read, without its content.
    pub fn resolve(&self, environment: &Environment) -> Result<Secret, String> {
        let text = match self {
            Self::Inline { secret, .. } => return Ok(secret.clone()),
            Self::Env(name) => {
                environment.get(name).ok_or_else(|| format!("the variable {name} is not set"))?.to_owned()
            }
            Self::File(path) => std::fs::read_to_string(path)
                .map_err(|e| format!("cannot read {}: {e}", path.display()))?
                .trim_end_matches(['\n', '\r'])
                .to_owned(),
        };
        if text.is_empty() { Err(format!("{self} is empty")) } else { Ok(Secret::new(text)) }
    }
}

/// The reference that a text contains. `None`: the text is not a reference; `Some(None)`: the reference is invalid.
fn kept_elsewhere(text: &str) -> Option<Option<SecretSource>> {
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match text.split_once(':')? {
        ("env", variable) => {
            let valid = !variable.is_empty() && variable.chars().all(name);
            Some(valid.then(|| SecretSource::Env(variable.to_owned())))
        }
        ("file", path) => Some((!path.is_empty()).then(|| SecretSource::File(PathBuf::from(path)))),
        _ => None,
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline { shown, .. } => f.write_str(shown),
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}
