//! The INSERT into a table of another layout on PostgreSQL.

use super::rows::{text_of, written};
use super::{Batch, Written};
use crate::Result;
use crate::event::columns::headers_to_json;
use crate::layout::RowTable;

/// The columns of a batch whose events fit the layout.
pub(super) struct RowColumns([Vec<Option<String>>; 10]);

impl RowColumns {
    pub(super) fn of(batch: &Batch) -> Result<Self> {
        let mut columns: [Vec<Option<String>>; 10] = Default::default();
        for event in batch.events() {
            let aggregate = event.aggregate.as_ref();
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
            ];
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        Ok(Self(columns))
    }

    pub(super) fn statement(&self, table: &RowTable) -> String {
        // No event fits a layout without one; see `check` of rows.rs.
        table.put_into(table.layout().spec().inserts.postgres.unwrap_or_default())
    }

    /// The columns in the order of the parameters.
    pub(super) fn all(&self) -> impl IntoIterator<Item = &Vec<Option<String>>> {
        &self.0
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
