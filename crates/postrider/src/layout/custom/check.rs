//! Compares a column map with the live table.

use super::{ColumnMap, DeliveryRecord, Found, MappedField, StateWord};
use crate::layout::{Difference, Family, FoundColumn};

/// The most characters of a column of this type, if it is a text with a limit.
pub(crate) fn length(sql_type: &str) -> Option<usize> {
    let (base, rest) = sql_type.split_once('(')?;
    let is_text = matches!(base.trim(), "character varying" | "character" | "varchar" | "char");
    if is_text { rest.trim_end_matches(')').parse().ok() } else { None }
}

/// Which columns can contain times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeColumns {
    /// Columns of a time type.
    #[cfg(any(test, feature = "_server"))]
    TimeTypes,
    /// Columns of a text type, too.
    TimeTypesAndTexts,
}

impl TimeColumns {
    fn accept(self, field: MappedField, sql_type: &str) -> bool {
        self == Self::TimeTypesAndTexts && field.is_time() && Family::of(sql_type) == Some(Family::Text)
    }
}

impl ColumnMap {
    /// How the table differs from the map. Each difference names its column.
    pub(crate) fn differences(
        &self,
        table: &str,
        found: &[FoundColumn],
        times: TimeColumns,
    ) -> Vec<Difference> {
        let mut all = Vec::new();
        for (field, column) in &self.columns {
            let (name, field_name) = (column.as_str(), field.name());
            let what = match found.iter().find(|found| found.name == name) {
                None => format!(
                    "table {table:?} has no column {name:?}, which the column map names for `{field_name}`"
                ),
                Some(column)
                    if !field.accepts(&column.sql_type) && !times.accept(*field, &column.sql_type) =>
                {
                    let (is, wanted) = (&column.sql_type, field.accepted_types());
                    format!("column {table}.{name} is {is}, but `{field_name}` needs {wanted}")
                }
                Some(column)
                    if *field == MappedField::DeliveredAt
                        && self.delivery_record() == DeliveryRecord::Time
                        && !column.is_nullable =>
                {
                    format!(
                        "column {table}.{name} is NOT NULL, but `{field_name}` is NULL until a row is delivered"
                    )
                }
                Some(_) => continue,
            };
            all.push(Difference::harmful(what));
        }
        all.extend(self.unfit_status(table, found));
        all.extend(self.unfit_given_up_at(table, found));
        if all.is_empty() && !self.defines_order() {
            let what =
                "no column defines the order of rows with the same key, so a relay starts only with `order = \
                        \"none\"` on its subscription: name a column for `order` or `created_at` in `columns`"
                    .to_owned();
            all.push(Difference::harmless(what));
        }
        all
    }

    /// The difference for a key of two columns, on a database that does not support it.
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    pub(crate) fn unsupported_second_id(&self) -> Option<Difference> {
        let column = self.column(MappedField::SecondId)?.as_str();
        let what = format!(
            "the column map names {column:?} for `id_2`, but a key of two columns is supported on PostgreSQL only"
        );
        Some(Difference::harmful(what))
    }

    /// The type of the headers column, if a header contains the event type.
    #[cfg(feature = "postgres")]
    pub(crate) fn headers_with_event_type<'a>(&self, found: &'a [FoundColumn]) -> Option<&'a str> {
        let Some(super::TypeSource::Header(_)) = self.event_type else { return None };
        let name = self.column(MappedField::Headers)?.as_str();
        found.iter().find(|found| found.name == name).map(|found| found.sql_type.as_str())
    }

    /// The difference for a `given_up_at` column that cannot be NULL.
    fn unfit_given_up_at(&self, table: &str, found: &[FoundColumn]) -> Option<Difference> {
        let name = self.column(MappedField::GivenUpAt)?.as_str();
        found.iter().find(|found| found.name == name).filter(|found| !found.is_nullable)?;
        let what =
            format!("column {table}.{name} is NOT NULL, but `given_up_at` is NULL until a row is dead");
        Some(Difference::harmful(what))
    }

    /// The difference for a status value that is too long for its column, or is not a number in a column of numbers.
    fn unfit_status(&self, table: &str, found: &[FoundColumn]) -> Option<Difference> {
        let column = self.column(MappedField::Status)?;
        let is = &found.iter().find(|found| found.name == column.as_str())?.sql_type;
        let unfit = |word: &&StateWord| match Family::of(is) {
            Some(Family::Number) => word.as_str().parse::<i64>().is_err(),
            _ => length(is).is_some_and(|chars_max| word.as_str().chars().count() > chars_max),
        };
        self.words().find(unfit).map(|word| {
            let name = column.as_str();
            let what = format!("column {table}.{name} cannot hold the status value {word}: it is {is}");
            Difference::harmful(what)
        })
    }

    /// The same map, with the types of its columns.
    #[must_use]
    pub(crate) fn with_types(mut self, found: &[FoundColumn]) -> Self {
        let typed = self.columns.iter().filter_map(|(field, column)| {
            let found = found.iter().find(|found| found.name == column.as_str())?;
            Some((*field, found.sql_type.clone()))
        });
        self.found = Found { types: typed.collect(), ..self.found };
        self
    }

    /// The same map, with the collation of its id column.
    #[cfg(feature = "mysql")]
    #[must_use]
    pub(crate) fn with_id_collation(mut self, collation: Option<String>) -> Self {
        // It becomes part of a statement, so any other text is ignored. Names of collations consist of these
        // characters.
        let is_plain = |name: &String| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        self.found.id_collation = collation.filter(is_plain);
        self
    }

    /// The same map, with whether the table has a rowid.
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
    fn a_status_value_that_does_not_fit_its_column_is_reported() {
        let word = |text| StateWord::new(text).unwrap();
        let map = ColumnMap::debezium().with(MappedField::Status, "state").unwrap();
        let map = map.states(crate::layout::States {
            pending: word("no"),
            also_pending: Vec::new(),
            done: word("done"),
            failed: None,
        });
        let reported =
            |sql_type| map.unfit_status("shop", &[column("state", sql_type)]).map(|reported| reported.what);
        assert_eq!(reported("varchar(4)"), None);
        assert!(reported("character varying(3)").unwrap().contains("cannot hold the status value 'done'"));
        assert!(reported("tinyint").unwrap().contains("cannot hold the status value 'no'"));
    }

    #[test]
    fn missing_columns_and_wrong_types_are_reported() {
        let map = ColumnMap::debezium().with(MappedField::DeliveredAt, "sent").unwrap();
        let found = [
            column("id", "uuid"),
            column("aggregatetype", "text"),
            column("aggregateid", "jsonb"),
            column("payload", "bigint"),
            column("sent", "timestamp with time zone"),
        ];
        let reported: Vec<String> = map
            .differences("shop", &found, TimeColumns::TimeTypes)
            .into_iter()
            .map(|reported| reported.what)
            .collect();
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
