//! Compares an existing table with the shape of its layout.

use super::shape::is_compatible;
use super::{Ability, Column, Dialect, RowTable, Shape};

/// How an existing table differs from its layout. Differences are reported; the table is never altered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// A sentence that names the column or index.
    pub what: String,
    /// The store cannot use the table.
    pub is_harmful: bool,
}

impl Difference {
    pub(crate) fn harmful(what: String) -> Self {
        Self { what, is_harmful: true }
    }

    pub(crate) fn harmless(what: String) -> Self {
        Self { what, is_harmful: false }
    }
}

/// A column of an existing table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundColumn {
    /// Its name.
    pub name: String,
    /// Its type, as the database prints it.
    pub sql_type: String,
    /// Whether it may be NULL.
    pub is_nullable: bool,
    /// Whether an INSERT may omit it.
    pub has_default: bool,
}

/// An index of an existing table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundIndex {
    /// Its name.
    pub name: String,
    /// Its method and columns, as the database prints them after `USING`.
    pub definition: String,
}

/// All differences, the harmful ones first.
pub fn compare(
    table: &RowTable,
    shape: &Shape,
    dialect: Dialect,
    columns: &[FoundColumn],
    indexes: &[FoundIndex],
) -> Vec<Difference> {
    let name = shape.table.replace("{name}", table.name.as_str());
    let mut all = Vec::new();
    for column in shape.columns {
        match columns.iter().find(|found| found.name == column.name) {
            Some(found) => compare_column(&name, dialect, column, found, &mut all),
            None => all.push(Difference::harmful(format!("table {name:?} has no column {:?}", column.name))),
        }
    }
    for found in columns.iter().filter(|found| !found.is_nullable && !found.has_default) {
        if !shape.columns.iter().any(|column| column.name == found.name) {
            let what = format!("column {name}.{} is required, but it is not part of the layout", found.name);
            all.push(Difference::harmless(format!("{what}: Postrider cannot write to this table")));
        }
    }
    for index in shape.indexes.iter().filter(|index| !index.is_optional) {
        let name = index.name.replace("{name}", table.name.as_str());
        // The primary key may have any name. Without one, rows cannot be settled.
        let is_key = name.ends_with("_pkey") || name == "PRIMARY";
        let found =
            indexes.iter().find(|found| found.name == name || is_key && found.definition == index.definition);
        match found {
            Some(found) if found.definition == index.definition => {}
            Some(found) => all.push(Difference {
                what: format!("index {name:?} is over {}, not {}", found.definition, index.definition),
                is_harmful: is_key,
            }),
            None => all.push(Difference {
                what: format!("index {name:?} is missing: {}", index.definition),
                is_harmful: is_key,
            }),
        }
    }
    // The relay needs the outbox itself and its notifications: the inbox belongs to the consumers.
    if shape.table != "{name}" && !table.layout.has(Ability::Notifications) {
        all.iter_mut().for_each(|difference| difference.is_harmful = false);
    }
    all.sort_by_key(|difference| !difference.is_harmful);
    all
}

fn compare_column(
    table: &str,
    dialect: Dialect,
    column: &Column,
    found: &FoundColumn,
    all: &mut Vec<Difference>,
) {
    let name = format!("column {table}.{}", column.name);
    let sql_type = column.sql_type(dialect);
    // Like on MySQL. Debezium reads some values of the type UUID wrongly.
    let is_text_id = dialect == Dialect::MariaDb && sql_type == "uuid" && found.sql_type == "char(36)";
    if !is_text_id && !is_compatible(sql_type, &found.sql_type) {
        all.push(Difference::harmful(format!("{name} is {}, not {sql_type}", found.sql_type)));
    } else if found.sql_type != sql_type {
        all.push(Difference::harmless(format!("{name} is {}, not {sql_type}", found.sql_type)));
    }
    if found.is_nullable != column.is_nullable {
        let (is, should) = if found.is_nullable { ("may", "must not") } else { ("must not", "may") };
        let what = format!("{name} {is} be NULL, but {should}");
        // The relay could not write NULL to the column.
        all.push(Difference { what, is_harmful: !found.is_nullable });
    }
    if column.has_default && !found.has_default {
        all.push(Difference::harmless(format!("{name} has no default")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::RowLayout;

    fn found(layout: RowLayout) -> (RowTable, Vec<FoundColumn>, Vec<FoundIndex>) {
        let (table, shape) = (RowTable::new(layout), &layout.shapes()[0]);
        let columns = shape.columns.iter().map(|column| FoundColumn {
            name: column.name.to_owned(),
            sql_type: column.sql_type(Dialect::Postgres).to_owned(),
            is_nullable: column.is_nullable,
            has_default: column.has_default,
        });
        let indexes = shape.indexes.iter().map(|index| FoundIndex {
            name: index.name.replace("{name}", layout.table_name()),
            definition: index.definition.to_owned(),
        });
        (table, columns.collect(), indexes.collect())
    }

    fn reported(
        (table, columns, indexes): (RowTable, Vec<FoundColumn>, Vec<FoundIndex>),
    ) -> Vec<(String, bool)> {
        let shape = &table.layout.shapes()[0];
        let all = compare(&table, shape, Dialect::Postgres, &columns, &indexes);
        all.into_iter().map(|difference| (difference.what, difference.is_harmful)).collect()
    }

    #[test]
    fn a_table_that_matches_its_layout_has_no_differences() {
        for &layout in RowLayout::ALL {
            assert_eq!(reported(found(layout)), []);
        }
    }

    #[test]
    fn missing_columns_and_other_types_are_reported() {
        let (table, mut columns, mut indexes) = found(RowLayout::OutboxEvents);
        columns.retain(|column| column.name != "attempt_count");
        columns.iter_mut().find(|column| column.name == "payload").unwrap().sql_type = "bytea".into();
        columns.iter_mut().find(|column| column.name == "event_type").unwrap().sql_type =
            "character varying(20)".into();
        indexes.retain(|index| index.name.ends_with("_pkey"));
        assert_eq!(
            reported((table, columns, indexes)),
            [
                ("column outbox_events.payload is bytea, not jsonb".to_owned(), true),
                ("table \"outbox_events\" has no column \"attempt_count\"".to_owned(), true),
                ("column outbox_events.event_type is character varying(20), not text".to_owned(), false),
                (
                    "index \"idx_outbox_events_status_created_at\" is missing: btree (status, created_at)"
                        .to_owned(),
                    false
                ),
            ]
        );
    }

    #[test]
    fn an_additional_column_is_reported_only_if_it_is_required() {
        let (table, mut columns, indexes) = found(RowLayout::EventOutbox);
        let additional = FoundColumn {
            name: "tenant".into(),
            sql_type: "text".into(),
            is_nullable: true,
            has_default: false,
        };
        columns.push(additional.clone());
        assert_eq!(reported((table.clone(), columns.clone(), indexes.clone())), []);
        columns.pop();
        columns.push(FoundColumn { is_nullable: false, ..additional });
        let [(what, false)] = &reported((table, columns, indexes))[..] else { panic!("one difference") };
        assert!(what.contains("event_outbox.tenant"), "{what}");
    }

    #[test]
    fn no_difference_of_the_inbox_is_harmful() {
        let (table, shape) = (RowTable::new(RowLayout::Outbox), &RowLayout::Outbox.shapes()[1]);
        assert_eq!(shape.table, "processed_events");
        let key = FoundIndex {
            name: "processed_events_pkey".to_owned(),
            definition: "btree (consumer_group, event_id)".to_owned(),
        };
        let different = compare(&table, shape, Dialect::Postgres, &[], &[key]);
        assert!(
            !different.is_empty() && different.iter().all(|different| !different.is_harmful),
            "{different:?}"
        );
    }
}
