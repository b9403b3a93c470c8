//! What operators read and change, for the store of a table with a state per row.

use super::dialect::{Role, RowConnection, RowDialect};
use super::event_facts::{self, AboutKey, AboutLogged, AboutRow, FindRow};
use super::parked::{self, ChangeParked, ReadParked};
use super::read::ReadScope;
use super::store::Shared;
use super::term_rows::RowId;
use crate::layout::Ability;
use crate::operate::explain::EventFacts;
use crate::operate::{EventSelector, ParkedChange, ParkedChanged, ParkedItem, ParkedQuery};
use crate::store::Budget;
use crate::{Code, Result};

/// Up to this many parked rows are listed with the ids and types of their events.
const SHOWN_EVENTS_MAX: usize = 500;

/// Maximum number of bytes of events that are read at once to list them.
const EVENT_BYTES_MAX: usize = 16 << 20;

impl<D: RowDialect> Shared<D> {
    /// Rows with a note that match a query, with their events if the filter or the reader needs them.
    pub(super) async fn list_parked(&self, query: &ParkedQuery) -> Result<Vec<ParkedItem>> {
        let ParkedQuery { subscription, filter, after, rows_max, search_max } = query;
        let mut connection = self.dialect.connection(Role::Reader).await?;
        let verb = ReadParked { subscription: subscription.clone() };
        let mut items = connection.read_snapshot(verb).await?;
        items.retain(|item| {
            filter.matches_row(item)
                && after.as_deref().is_none_or(|after| parked::order(&item.row) > parked::order(after))
        });
        items.truncate(search_max.unwrap_or(usize::MAX));
        let needs_events = filter.event_type.is_some() || !filter.events.is_empty();
        if !needs_events {
            items.truncate(*rows_max);
        }
        // A change of many events does not need them.
        if needs_events || items.len() <= SHOWN_EVENTS_MAX {
            self.add_events(&mut connection, &mut items).await?;
        }
        items.retain(|item| filter.matches_event(item));
        items.truncate(*rows_max);
        Ok(items)
    }

    /// Changes rows in one transaction. If the table does not change all of them, each is changed separately, so that one
    /// row does not prevent the others.
    pub(super) async fn change_parked(&self, change: ParkedChange) -> Result<ParkedChanged> {
        let mut connection = self.dialect.connection(Role::Settler).await?;
        let verb = |change| ChangeParked { change, table: self.table() };
        match connection.write(verb(change.clone())).await {
            Err(error) if error.code() == Code::RowRefused => {}
            changed => return changed,
        }
        let mut total = ParkedChanged::default();
        for row in &change.rows {
            match connection.write(verb(parked::single(&change, row, total.changed))).await {
                Ok(changed) => total.add(changed),
                Err(error) if error.code() == Code::RowRefused => total.not_applicable += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    /// What the table knows about one event.
    pub(super) async fn event_facts(&self, sought: EventSelector) -> Result<EventFacts> {
        let mut connection = self.dialect.connection(Role::Reader).await?;
        let event = match sought {
            EventSelector::Key(key) => return connection.read_snapshot(AboutKey { key }).await,
            EventSelector::Event(event) => event,
        };
        let table = self.table();
        if table.layout().has(Ability::Notifications) {
            return connection.read_snapshot(AboutLogged { id: event }).await;
        }
        let mut ids = event_facts::candidates(&table, &event);
        ids.extend(connection.read_snapshot(FindRow { id: event.clone() }).await?);
        let mut found = None;
        for id in ids {
            let budget = Budget::new(1, EVENT_BYTES_MAX);
            let read = match connection.read(&[RowId::from(id.as_str())], budget, ReadScope::Any).await {
                // The column of ids of a user-defined table may not accept the text.
                Err(error) if table.columns().is_some() && error.code() == Code::RowRefused => continue,
                read => read?,
            };
            found = read.rows.into_iter().find(|row| event_facts::is_meant(row, &event));
            if found.is_some() {
                break;
            }
        }
        connection.read_snapshot(AboutRow { row: found, table }).await
    }

    /// Adds ids and types of events to items.
    async fn add_events(&self, connection: &mut D::Connection<'_>, items: &mut [ParkedItem]) -> Result<()> {
        let mut left: Vec<RowId> = items.iter().map(|item| RowId::from(item.row.as_str())).collect();
        let mut events = std::collections::HashMap::new();
        while !left.is_empty() {
            let page: Vec<RowId> = left.drain(..left.len().min(SHOWN_EVENTS_MAX)).collect();
            let read =
                connection.read(&page, Budget::new(page.len(), EVENT_BYTES_MAX), ReadScope::Any).await?;
            // What did not fit is read with the next page.
            if let Some(at) =
                read.first_unread.as_ref().and_then(|id| page.iter().position(|other| other == id))
            {
                left = page[at..].iter().cloned().chain(left).collect();
            }
            events.extend(read.rows.into_iter().filter_map(|row| Some((row.state.id, row.event.ok()?))));
        }
        for item in items {
            if let Some(event) = events.remove(item.row.as_str()) {
                (item.id, item.event_type) = (Some(event.id.to_string()), Some(event.event_type));
            }
        }
        Ok(())
    }
}
