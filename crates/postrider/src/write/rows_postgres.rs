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
        let used = if batch.rows().is_some_and(has_action) { columns.len() } else { COMMON };
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

    /// The columns in the order of the parameters.
    pub(super) fn all(&self) -> impl IntoIterator<Item = &Vec<Option<String>>> {
        &self.columns[..self.used]
    }

    /// Combines the events with the ids and creation times that the INSERT returned, in the same order. A row whose
    /// id is a UUID has no position.
    pub(super) fn written(&self, batch: &Batch, reported: Vec<(String, i64)>) -> Result<Vec<Written>> {
        let reported =
            reported.into_iter().map(|(row, created)| (row.parse().unwrap_or(0), created)).collect();
        match batch.rows() {
            Some(table) => written(table, batch.events(), reported),
            None => Ok(Vec::new()),
        }
    }
}
