//! The INSERT into a table of another layout on PostgreSQL.

use super::rows::{text_of, utc, written};
use super::{Batch, Written};
use crate::Result;
use crate::event::columns::headers_to_json;
use crate::layout::{EventField, RowTable};

/// The columns of a batch whose events fit the layout.
pub(super) struct RowColumns {
    columns: [Vec<Option<String>>; 16],
    /// How many of them the INSERT takes.
    used: usize,
}

/// The columns of every layout; the others are those of an action.
const COMMON: usize = 10;

impl RowColumns {
    pub(super) fn of(batch: &Batch) -> Result<Self> {
        let mut columns: [Vec<Option<String>>; 16] = Default::default();
        let has_action = |table: &RowTable| table.layout().spec().has_column(EventField::Action);
        let used = if batch.row_table().is_some_and(has_action) { columns.len() } else { COMMON };
        for event in batch.events() {
            let aggregate = event.aggregate.as_ref();
            let action = event.action.as_ref();
            let payload = text_of(event)?;
            let row = [
                Some(event.id.to_string()),
                Some(event.event_type.clone()),
                aggregate.map(|aggregate| aggregate.kind.clone()),
                aggregate.map(|aggregate| aggregate.id.clone()),
                event.key.clone(),
                Some(payload.to_owned()),
                headers_to_json(&event.headers)?,
                event.topic.clone(),
                event.max_attempts.map(|number| number.to_string()),
                event.producer.clone(),
                event.namespace.clone(),
                action.map(|action| action.id.to_string()),
                action.map(|action| action.name.clone()),
                action.map(|action| action.params.clone()),
                action.map(|action| utc(action.started)),
                action.map(|action| utc(action.completed)),
            ];
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        Ok(Self { columns, used })
    }

    pub(super) fn statement(&self, table: &RowTable) -> String {
        // No event fits a layout without one; see `check` of rows.rs.
        table.put_into(table.layout().spec().inserts.postgres.unwrap_or_default())
    }

    /// The same with names for what the INSERT returns: `number` and `created`.
    #[cfg(feature = "diesel-postgres")]
    pub(super) fn named_statement(&self, table: &RowTable) -> String {
        let insert = self.statement(table);
        format!("WITH inserted (number, created) AS ({insert}) SELECT number, created FROM inserted")
    }

    /// The same for a driver without arrays: each parameter is the JSON of a column.
    ///
    /// # Errors
    /// Those of the serialiser.
    #[cfg(feature = "sea-orm")]
    pub(super) fn json_statement(&self, table: &RowTable) -> Result<(String, Vec<String>)> {
        let mut statement = self.statement(table);
        let mut values = Vec::with_capacity(self.used);
        // From the last one on, because `$1` is also the beginning of `$10`.
        for (index, column) in self.columns[..self.used].iter().enumerate().rev() {
            let parameter = format!("${}", index + 1);
            let array = format!(
                "ARRAY(SELECT j.value FROM pg_catalog.json_array_elements_text({parameter}::text::json)
                       WITH ORDINALITY AS j (value, ordinal) ORDER BY j.ordinal)"
            );
            statement = statement.replace(&format!("{parameter}::text[]"), &array);
            let json = serde_json::to_string(column).map_err(|e| {
                crate::Error::new(crate::Code::LayoutUnfit, "the events cannot be sent as JSON")
                    .with_source(e)
            })?;
            values.push(json);
        }
        values.reverse();
        Ok((statement, values))
    }

    /// The columns in the order of the parameters.
    #[cfg(feature = "_postgres_driver")]
    pub(super) fn all(&self) -> impl IntoIterator<Item = &Vec<Option<String>>> {
        &self.columns[..self.used]
    }

    /// Combines the events with the ids and creation times that the INSERT returned, in the same order. A row whose
    /// id is a UUID has no position.
    pub(super) fn written(&self, batch: &Batch, reported: Vec<(String, i64)>) -> Result<Vec<Written>> {
        let reported =
            reported.into_iter().map(|(row, created)| (row.parse().unwrap_or(0), created)).collect();
        match batch.row_table() {
            Some(table) => written(table, batch.events(), reported),
            None => Ok(Vec::new()),
        }
    }
}
