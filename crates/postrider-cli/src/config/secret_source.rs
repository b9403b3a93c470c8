//! A value that may be secret: given as it is, or by where it is kept.

use std::fmt;
use std::path::PathBuf;

use super::environment::Environment;
use super::secret::{MASK, Secret};
use super::url;

/// A secret or URL of the configuration. Shown, it names where it is kept or is masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// It stands there.
    Inline {
        /// The value.
        secret: Secret,
        /// What people see of it.
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

    /// Fetches the value from where it is kept.
    ///
    /// # Errors
    /// Why it cannot be had, without a word of what is in it.
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

/// `Some(None)`: it says so, but of nothing that could be read.
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
