//! Reading what `explain` needs, over the connection that reads parked events.

use super::session::Session;
use super::{MySqlStore, page};
use crate::operate::explain::EventFacts;
use crate::store::event_facts::{EVENT_BYTES_MAX, ReadEvent};
use crate::{Position, Result};
impl MySqlStore {
    pub(super) async fn about_event(&self, event: &str) -> Result<EventFacts> {
        let mut conn = self.0.reader.lock().await?;
        let mut tx = conn.begin_read().await?;
        let position = crate::store::event_facts::find(&mut tx, event).await;
        let position = tx.finish(position).await?;
        let read = match position {
            Some(position) => Some(read_event(conn.session()?, position).await?),
            None => None,
        };
        let mut tx = conn.begin_read().await?;
        let facts = crate::store::event_facts::about_event(&mut tx, event, read).await;
        tx.finish(facts).await
    }

    pub(super) async fn about_key(&self, key: &str) -> Result<EventFacts> {
        let mut conn = self.0.reader.lock().await?;
        let mut tx = conn.begin_read().await?;
        let found = crate::store::event_facts::of_key(&mut tx, key).await;
        let mut events = Vec::new();
        for (name, position) in tx.finish(found).await? {
            events.push((name, read_event(conn.session()?, position).await?));
        }
        let mut tx = conn.begin_read().await?;
        let facts = crate::store::event_facts::about_key(&mut tx, events).await;
        tx.finish(facts).await
    }
}

/// Reads one event to explain it.
async fn read_event(session: &mut Session, position: Position) -> Result<ReadEvent> {
    Ok(ReadEvent::of(position, page::fetch(session, &[position], EVENT_BYTES_MAX).await?))
}
