//! What a table looks like.

/// A table of a layout. In names, `{name}` stands for the name the outbox has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Its name.
    pub table: &'static str,
    /// Its columns.
    pub columns: &'static [Column],
    /// Its indexes, keys included.
    pub indexes: &'static [Index],
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type, as the database prints it.
    pub sql_type: &'static str,
    /// Whether it may be NULL.
    pub is_nullable: bool,
    /// Whether an INSERT may leave it out.
    pub has_default: bool,
}

/// Types that hold the same kind of thing: another of the same family is reported and works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// A whole number.
    Number,
    /// A text of some length.
    Text,
    /// JSON, or a text with a payload in it.
    Document,
    /// A moment.
    Time,
    /// A UUID.
    Uuid,
    /// Bytes.
    Bytes,
}

/// An index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Index {
    /// Its name; the primary key is called what the database calls it.
    pub name: &'static str,
    /// What it is over, as the database prints it after `USING`.
    pub definition: &'static str,
    /// Whether it is made only when asked for.
    pub is_optional: bool,
}

impl Column {
    pub(super) const fn new(name: &'static str, sql_type: &'static str) -> Self {
        Self { name, sql_type, is_nullable: false, has_default: false }
    }

    pub(super) const fn nullable(mut self) -> Self {
        self.is_nullable = true;
        self
    }

    pub(super) const fn defaulted(mut self) -> Self {
        self.has_default = true;
        self
    }

    /// Whether a value of this other type can be read and written in the column's place.
    pub fn takes(&self, other: &str) -> bool {
        match (Family::of(self.sql_type), Family::of(other)) {
            (Some(Family::Document), Some(Family::Text)) => true,
            (Some(own), Some(other)) => own == other,
            _ => false,
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
            // Only PostgreSQL has one without a zone of its own, and says so.
            "timestamp" if !sql_type.contains("without") => Self::Time,
            "timestamp with time zone" | "datetime" => Self::Time,
            _ => return None,
        })
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
    fn a_type_of_the_same_family_will_do_and_another_will_not() {
        let text = Column::new("event_type", "text");
        assert!(text.takes("character varying(255)") && !text.takes("bigint") && !text.takes("bytea"));
        let payload = Column::new("payload", "jsonb");
        assert!(payload.takes("text") && payload.takes("json") && !payload.takes("bytea"));
        let time = Column::new("created_at", "timestamp with time zone");
        assert!(time.takes("timestamp(6) with time zone") && !time.takes("timestamp without time zone"));
        assert!(!time.takes("timestamp(3) without time zone"));
        let mysql = Column::new("created_at", "datetime(6)");
        assert!(mysql.takes("timestamp") && mysql.takes("datetime") && !mysql.takes("varchar(30)"));
        let count = Column::new("attempts", "int");
        assert!(count.takes("int unsigned") && count.takes("bigint(20)") && !count.takes("decimal(10,0)"));
    }
}
