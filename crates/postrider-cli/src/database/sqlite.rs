//! A SQLite file.

use std::path::PathBuf;
use std::time::Duration;

use postrider::BoxFuture;
use postrider::layout::RowTable;
use postrider::store::admin::{Admin, SqliteAdmin};

use super::{Address, Backend, Database, Refused};
use crate::doctor::{self, InboxHealth, Subject};

/// `sqlite:relative/path` or `sqlite:///absolute/path`.
pub(super) fn read(address: &Address) -> Result<Database, Refused> {
    let rest = address.url.expose_secret().trim_start_matches("sqlite:");
    let path = match rest.strip_prefix("//") {
        Some(absolute) if !absolute.starts_with('/') => {
            let why = "after sqlite:// the path must be absolute: sqlite:///path, or sqlite:path";
            return Err(Refused::url(why));
        }
        Some(absolute) => absolute,
        None => rest,
    };
    if path == ":memory:" {
        return Err(Refused::url("an in-memory database is not visible to other processes; use a file"));
    }
    if path.contains('?') {
        return Err(Refused::url("parameters after '?' are not supported; use only the path"));
    }
    if let Some(key) = address.first_of_server() {
        return Err(Refused::new(key, "not supported by SQLite; this key is for PostgreSQL"));
    }
    let path = PathBuf::from(path);
    let shown = format!("sqlite:{}", path.display());
    let admin = SqliteAdmin::new(&path, address.rows.clone()).map_err(|e| Refused::table(&e))?;
    if address.rows.as_ref().is_some_and(RowTable::has_schema) {
        let why = "not supported by SQLite; this key is for PostgreSQL, MySQL and MariaDB";
        return Err(Refused::new("table_schema", why));
    }
    Ok(Database { backend: Box::new(SqliteFile { admin, path }), shown })
}

#[derive(Debug)]
struct SqliteFile {
    admin: SqliteAdmin,
    path: PathBuf,
}

impl Backend for SqliteFile {
    fn admin(&self) -> &dyn Admin {
        &self.admin
    }

    fn is_server(&self) -> bool {
        false
    }

    fn exposed_by(&self) -> Option<&'static str> {
        None
    }

    fn location(&self, _: &str) -> String {
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        format!("sqlite:{}", path.display())
    }

    fn inbox_health(&self, kept: Duration) -> BoxFuture<'_, Result<InboxHealth, String>> {
        Box::pin(async move { doctor::sqlite::inbox_health(&self.path, kept) })
    }

    fn check<'a>(
        &'a self,
        _: &'a str,
        options: &'a doctor::Options,
        subject: &'a mut Subject<'_>,
    ) -> BoxFuture<'a, bool> {
        Box::pin(doctor::sqlite::check(&self.path, &self.admin, options.deep, subject))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    #[test]
    fn sqlite_paths_are_relative_or_absolute() {
        for (url, path) in [
            ("sqlite:shop.db", "shop.db"),
            ("sqlite:data/shop.db", "data/shop.db"),
            ("sqlite:/var/shop.db", "/var/shop.db"),
            ("sqlite:///var/shop.db", "/var/shop.db"),
        ] {
            let found = read(&Address { url: Secret::new(url), ..Address::default() }).unwrap();
            assert_eq!(found.to_string(), format!("sqlite:{path}"));
        }
    }
}
