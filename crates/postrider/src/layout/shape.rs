//! The shape of a table: its columns and indexes on each database.

use super::Dialect;

/// A table of a layout. In names, `{name}` is replaced by the name of the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Its name.
    pub table: &'static str,
    /// Its columns.
    pub columns: &'static [Column],
    /// Its indexes and keys.
    pub indexes: &'static [Index],
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type on PostgreSQL, MySQL and SQLite; empty if the layout does not exist there.
    types: [&'static str; 3],
    /// Its type on MariaDB, where that differs from MySQL.
    mariadb: Option<&'static str>,
    /// Whether it may be NULL.
    pub is_nullable: bool,
    /// Whether an INSERT may omit it.
    pub has_default: bool,
}

/// Types that store the same kind of value. A column of another type of the same family works; the difference is
/// reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// A whole number.
    Number,
    /// A text, with or without a limit of its length.
    Text,
    /// JSON, or a text with a payload.
    Document,
    /// A point in time.
    Time,
    /// A point in time without a zone.
    LocalTime,
    /// True or false. On MySQL and MariaDB it is a number.
    Boolean,
    /// A UUID.
    Uuid,
    /// Bytes.
    Bytes,
}

/// An index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Index {
    /// Its name; for the primary key, the name that the database gives it.
    pub name: &'static str,
    /// Its method and columns, as the database prints them after `USING`.
    pub definition: &'static str,
    /// Whether it is created only on request.
    pub is_optional: bool,
}

impl Column {
    /// A column with its type on each database, as the database prints it.
    pub(super) const fn new(
        name: &'static str,
        postgres: &'static str,
        mysql: &'static str,
        sqlite: &'static str,
    ) -> Self {
        Self { name, types: [postgres, mysql, sqlite], mariadb: None, is_nullable: false, has_default: false }
    }

    /// The type on MariaDB.
    pub(super) const fn on_mariadb(mut self, sql_type: &'static str) -> Self {
        self.mariadb = Some(sql_type);
        self
    }

    pub(super) const fn nullable(mut self) -> Self {
        self.is_nullable = true;
        self
    }

    pub(super) const fn defaulted(mut self) -> Self {
        self.has_default = true;
        self
    }

    /// Its type, as the database prints it.
    pub fn sql_type(&self, dialect: Dialect) -> &'static str {
        let [postgres, mysql, sqlite] = self.types;
        match (dialect, self.mariadb) {
            (Dialect::Postgres, _) => postgres,
            (Dialect::MariaDb, Some(mariadb)) => mariadb,
            // MariaDB stores JSON as text, and prints it so.
            (Dialect::MariaDb, None) if mysql == "json" => "longtext",
            (Dialect::MySql | Dialect::MariaDb, _) => mysql,
            (Dialect::Sqlite, _) => sqlite,
        }
    }
}

impl Family {
    /// The family of a type, as the database prints it.
    pub fn of(sql_type: &str) -> Option<Self> {
        let base = sql_type.split('(').next().unwrap_or_default().trim();
        Some(match base.strip_suffix(" unsigned").unwrap_or(base) {
            "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" => Self::Number,
            "text" | "character varying" | "character" => Self::Text,
            "char" | "varchar" | "tinytext" | "mediumtext" | "longtext" | "enum" => Self::Text,
            "json" | "jsonb" => Self::Document,
            "uuid" => Self::Uuid,
            "bytea" | "blob" | "tinyblob" | "mediumblob" | "longblob" | "varbinary" => Self::Bytes,
            // Only PostgreSQL has a timestamp without a time zone, and prints it as such.
            "timestamp" if !sql_type.contains("without") => Self::Time,
            "timestamp with time zone" | "datetime" => Self::Time,
            "timestamp without time zone" => Self::LocalTime,
            // Only PostgreSQL prints the type so, with a precision.
            "timestamp" => Self::LocalTime,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }
}

/// Whether a column of type `found` can be used where a layout has type `expected`.
pub(super) fn is_compatible(expected: &str, found: &str) -> bool {
    match (Family::of(expected), Family::of(found)) {
        (Some(Family::Document), Some(Family::Text)) => true,
        (Some(expected), Some(found)) => expected == found,
        _ => false,
    }
}

impl Index {
    pub(super) const fn new(name: &'static str, definition: &'static str) -> Self {
        Self { name, definition, is_optional: false }
    }

    pub(super) const fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_type_of_the_same_family_is_compatible() {
        let text = |found| is_compatible("text", found);
        assert!(text("character varying(255)") && !text("bigint") && !text("bytea"));
        let payload = |found| is_compatible("jsonb", found);
        assert!(payload("text") && payload("json") && !payload("bytea"));
        let time = |found| is_compatible("timestamp with time zone", found);
        assert!(time("timestamp(6) with time zone") && !time("timestamp without time zone"));
        assert!(!time("timestamp(3) without time zone"));
        let mysql_time = |found| is_compatible("datetime(6)", found);
        assert!(mysql_time("timestamp") && mysql_time("datetime") && !mysql_time("varchar(30)"));
        let count = |found| is_compatible("int", found);
        assert!(count("int unsigned") && count("bigint(20)") && !count("decimal(10,0)"));
    }
}
