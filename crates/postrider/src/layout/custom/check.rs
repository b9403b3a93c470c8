//! A map beside the live table.

use super::{ColumnMap, Delivered, Field, Found, StateWord};
use crate::layout::{Difference, Family, FoundColumn};

/// How many characters a column of this type holds, if it is a text with a length.
pub(crate) fn length(sql_type: &str) -> Option<usize> {
    let (base, rest) = sql_type.split_once('(')?;
    let is_text = matches!(base.trim(), "character varying" | "character" | "varchar" | "char");
    if is_text { rest.trim_end_matches(')').parse().ok() } else { None }
}

/// What moments are, beside columns of such a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Times {
    /// Nothing else.
    Typed,
    /// Texts, too.
    Texts,
}

impl Times {
    fn takes(self, field: Field, sql_type: &str) -> bool {
        self == Self::Texts && field.is_time() && Family::of(sql_type) == Some(Family::Text)
    }
}

impl ColumnMap {
    /// What keeps the table from being worked on by this map, each naming its column.
    pub(crate) fn differences(&self, table: &str, found: &[FoundColumn], times: Times) -> Vec<Difference> {
        let mut all = Vec::new();
        for (field, column) in &self.columns {
            let (name, holds) = (column.as_str(), field.name());
            let what = match found.iter().find(|found| found.name == name) {
                None => format!(
                    "table {table:?} has no column {name:?}, which the column map names for `{holds}`"
                ),
                Some(column) if !field.takes(&column.sql_type) && !times.takes(*field, &column.sql_type) => {
                    let (is, wanted) = (&column.sql_type, field.wanted());
                    format!("column {table}.{name} is {is}, but `{holds}` needs {wanted}")
                }
                Some(column)
                    if *field == Field::DeliveredAt
                        && self.delivered() == Delivered::Time
                        && !column.is_nullable =>
                {
                    format!(
                        "column {table}.{name} is NOT NULL, but `{holds}` is NULL until a row is delivered"
                    )
                }
                Some(_) => continue,
            };
            all.push(Difference { what, is_harmful: true });
        }
        all.extend(self.unfit_word(table, found));
        all.extend(self.unfit_time(table, found));
        if all.is_empty() && !self.defines_order() {
            let what =
                "no column defines the order of rows with the same key, so a relay starts only with `order = \
                        \"none\"` on its subscription: name a column for `order` or `created_at` in `columns`"
                    .to_owned();
            all.push(Difference { what, is_harmful: false });
        }
        all
    }

    /// Refuses a key of two columns where it is not worked.
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    pub(crate) fn refuse_key_of_two(&self) -> Option<Difference> {
        let column = self.column(Field::SecondId)?.as_str();
        let what = format!(
            "the column map names {column:?} for `id_2`, but a key of two columns is supported on PostgreSQL only"
        );
        Some(Difference { what, is_harmful: true })
    }

    /// The type of the column with the headers, if one of them tells the type of events.
    #[cfg(feature = "postgres")]
    pub(crate) fn type_header_in<'a>(&self, found: &'a [FoundColumn]) -> Option<&'a str> {
        let Some(super::TypeFrom::Header(_)) = self.kind else { return None };
        let name = self.column(Field::Headers)?.as_str();
        found.iter().find(|found| found.name == name).map(|found| found.sql_type.as_str())
    }

    /// A row that is not given up has no time of it.
    fn unfit_time(&self, table: &str, found: &[FoundColumn]) -> Option<Difference> {
        let name = self.column(Field::GivenUpAt)?.as_str();
        found.iter().find(|found| found.name == name).filter(|found| !found.is_nullable)?;
        let what =
            format!("column {table}.{name} is NOT NULL, but `given_up_at` is NULL until a row is dead");
        Some(Difference { what, is_harmful: true })
    }

    /// A word for a state that its column would cut or take for a number.
    fn unfit_word(&self, table: &str, found: &[FoundColumn]) -> Option<Difference> {
        let column = self.column(Field::Status)?;
        let is = &found.iter().find(|found| found.name == column.as_str())?.sql_type;
        let unfit = |word: &&StateWord| match Family::of(is) {
            Some(Family::Number) => word.as_str().parse::<i64>().is_err(),
            _ => length(is).is_some_and(|most| word.as_str().chars().count() > most),
        };
        self.words().find(unfit).map(|word| {
            let name = column.as_str();
            let what = format!("column {table}.{name} cannot hold the status value {word}: it is {is}");
            Difference { what, is_harmful: true }
        })
    }

    /// The same map, knowing the types of its columns.
    #[must_use]
    pub(crate) fn with_types(mut self, found: &[FoundColumn]) -> Self {
        let typed = self.columns.iter().filter_map(|(field, column)| {
            let found = found.iter().find(|found| found.name == column.as_str())?;
            Some((*field, found.sql_type.clone()))
        });
        self.found = Found { types: typed.collect(), ..self.found };
        self
    }

    /// The same map, knowing how ids are compared.
    #[cfg(feature = "mysql")]
    #[must_use]
    pub(crate) fn with_id_collation(mut self, collation: Option<String>) -> Self {
        // It becomes part of a statement; a server's own names are such.
        let is_plain = |name: &String| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        self.found.id_collation = collation.filter(is_plain);
        self
    }

    /// The same map, knowing whether rows have a number of their own.
    #[cfg(feature = "sqlite")]
    #[must_use]
    pub(crate) fn with_rowid(mut self, has_rowid: bool) -> Self {
        self.found.has_rowid = has_rowid;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, sql_type: &str) -> FoundColumn {
        FoundColumn { name: name.into(), sql_type: sql_type.into(), is_nullable: false, has_default: false }
    }

    #[test]
    fn a_word_that_does_not_fit_its_column_is_told() {
        let word = |text| StateWord::new(text).unwrap();
        let map = ColumnMap::debezium().with(Field::Status, "state").unwrap();
        let map = map.states(crate::layout::States {
            pending: word("no"),
            also_pending: Vec::new(),
            done: word("done"),
            failed: None,
        });
        let reported =
            |sql_type| map.unfit_word("shop", &[column("state", sql_type)]).map(|reported| reported.what);
        assert_eq!(reported("varchar(4)"), None);
        assert!(reported("character varying(3)").unwrap().contains("cannot hold the status value 'done'"));
        assert!(reported("tinyint").unwrap().contains("cannot hold the status value 'no'"));
    }

    #[test]
    fn what_is_missing_or_mistyped_is_named() {
        let map = ColumnMap::debezium().with(Field::DeliveredAt, "sent").unwrap();
        let found = [
            column("id", "uuid"),
            column("aggregatetype", "text"),
            column("aggregateid", "jsonb"),
            column("payload", "bigint"),
            column("sent", "timestamp with time zone"),
        ];
        let reported: Vec<String> =
            map.differences("shop", &found, Times::Typed).into_iter().map(|reported| reported.what).collect();
        assert_eq!(
            reported,
            [
                "table \"shop\" has no column \"type\", which the column map names for `type`",
                "column shop.aggregateid is jsonb, but `aggregate_id` needs a text, a number or a UUID",
                "column shop.payload is bigint, but `payload` needs JSON, a text or bytes",
                "column shop.sent is NOT NULL, but `delivered_at` is NULL until a row is delivered",
            ]
        );
    }
}
