//! Which database a URL means.

use std::path::PathBuf;

use crate::config::secret::Secret;
use crate::config::url;

/// A database this program can open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    /// A SQLite file.
    Sqlite(PathBuf),
}

impl Database {
    /// Reads `sqlite:relative/path` or `sqlite:///absolute/path`.
    ///
    /// # Errors
    /// What is wrong with it, without a word of it.
    pub fn parse(url: &Secret) -> Result<Self, &'static str> {
        let url = url.expose_secret();
        let rest = match (url::scheme(url), url.split_once(':')) {
            (Some("sqlite"), Some((_, rest))) => rest,
            (Some("postgres" | "postgresql" | "mysql" | "mariadb"), _) => {
                return Err("this program can open SQLite only; the database of the URL is not built yet");
            }
            _ => return Err("this is not a sqlite: URL"),
        };
        let path = match rest.strip_prefix("//") {
            Some(absolute) if !absolute.starts_with('/') => {
                return Err("after sqlite:// the path must be absolute: sqlite:///path, or sqlite:path");
            }
            Some(absolute) => absolute,
            None => rest,
        };
        if path == ":memory:" {
            return Err("a database in memory can be seen by nobody else; give it a file");
        }
        if path.contains('?') {
            return Err("parameters after '?' are not supported; give the path only");
        }
        Ok(Self::Sqlite(PathBuf::from(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlite_paths_are_relative_or_absolute() {
        for (url, path) in [
            ("sqlite:shop.db", "shop.db"),
            ("sqlite:data/shop.db", "data/shop.db"),
            ("sqlite:/var/shop.db", "/var/shop.db"),
            ("sqlite:///var/shop.db", "/var/shop.db"),
        ] {
            assert_eq!(Database::parse(&Secret::new(url)), Ok(Database::Sqlite(path.into())));
        }
    }

    #[test]
    fn what_cannot_be_opened_is_refused() {
        for url in
            ["sqlite://shop.db", "sqlite::memory:", "sqlite:a?mode=ro", "postgres://h/db", "redis://h", "x"]
        {
            assert!(Database::parse(&Secret::new(url)).is_err(), "{url}");
        }
    }
}
