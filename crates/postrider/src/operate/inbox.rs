//! What consumers have processed: rows of the inbox, and of `processed_events`.

use serde::Serialize;
use uuid::Uuid;

use super::Operator;
use crate::{Result, Timestamp};

/// Rows per query.
const PAGE_ROWS: usize = 1_000;

/// A list reads at most this many rows: no index has the time at which a row was processed.
const READ_ROWS_MAX: usize = 100_000;

/// A list visits at most this many consumers.
const CONSUMERS_MAX: usize = 10_000;

/// A message that a consumer has processed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct InboxItem {
    /// The table that remembers it.
    pub table: InboxKind,
    /// The consumer group.
    pub consumer: String,
    /// The id of the event.
    pub id: Uuid,
    /// When it was processed, on the database's clock.
    pub processed_at: Timestamp,
    /// Until when it is remembered at least.
    pub expires_at: Timestamp,
}

impl InboxItem {
    /// For stores.
    #[cfg(feature = "_store")]
    pub(crate) fn new(
        table: InboxKind,
        (consumer, id): (String, Uuid),
        processed_at: Timestamp,
        expires_at: Timestamp,
    ) -> Self {
        Self { table, consumer, id, processed_at, expires_at }
    }
}

/// A table that serves as an inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InboxKind {
    /// Postrider's own.
    Inbox,
    /// The table of layout `outbox`.
    ProcessedEvents,
}

impl InboxKind {
    const ALL: [Self; 2] = [Self::Inbox, Self::ProcessedEvents];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inbox => "inbox",
            Self::ProcessedEvents => "processed_events",
        }
    }
}

/// One query of an inbox, along its key.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct InboxRead {
    /// The table. A table that the outbox does not have is empty.
    pub table: InboxKind,
    /// Which rows.
    pub rows: InboxRows,
}

/// See [`InboxRead`].
#[doc(hidden)]
#[derive(Debug, Clone)]
pub enum InboxRows {
    /// A row of the first consumer after this name.
    NextConsumer(String),
    /// The rows of a consumer, by id.
    Of {
        /// The consumer.
        consumer: String,
        /// From this id on.
        from: Uuid,
        /// Also this id.
        inclusive: bool,
        /// How many.
        rows_max: usize,
    },
}

/// Which processed messages to list, by consumer and id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InboxQuery {
    /// Of this consumer.
    pub consumer: Option<String>,
    /// Processed at or after this time.
    pub since: Option<Timestamp>,
    /// Processed at or before this time.
    pub until: Option<Timestamp>,
    /// After this one: [`InboxPage::next`] of the previous page.
    pub after: Option<InboxCursor>,
    /// The maximum number of messages.
    pub rows_max: usize,
}

crate::setters! { InboxQuery:
    consumer: Option<String>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    after: Option<InboxCursor>,
    rows_max: usize,
}

/// A place in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InboxCursor {
    /// The table.
    pub table: InboxKind,
    /// The consumer.
    pub consumer: String,
    /// The id of the last message that was read.
    pub id: Uuid,
}

/// `inbox/ID/CONSUMER`
impl std::fmt::Display for InboxCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.table.as_str(), self.id, self.consumer)
    }
}

impl std::str::FromStr for InboxCursor {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let wrong = "use the value that the previous page printed";
        let mut parts = text.splitn(3, '/');
        let mut part = || parts.next().ok_or(wrong);
        let (table, id, consumer) = (part()?, part()?, part()?);
        let table = InboxKind::ALL.into_iter().find(|known| known.as_str() == table).ok_or(wrong)?;
        Ok(Self { table, consumer: consumer.to_owned(), id: id.parse().map_err(|_| wrong)? })
    }
}

/// One page of the list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct InboxPage {
    /// The messages, by table, consumer and id.
    pub items: Vec<InboxItem>,
    /// Where the next page begins, if there may be one. A page may be shorter than its maximum, even empty, and have a
    /// next one: the number of rows that are read is limited, too.
    pub next: Option<InboxCursor>,
}

impl Operator {
    /// Messages that consumers have processed. Reads a limited number of rows along the key, and writes nothing.
    ///
    /// # Errors
    /// The database's error.
    pub async fn list_inbox(&self, query: &InboxQuery) -> Result<InboxPage> {
        let mut page = InboxPage::default();
        let (mut read, mut consumers) = (0, 0);
        let start = query.after.as_ref().map_or(InboxKind::Inbox, |after| after.table);
        for table in InboxKind::ALL.into_iter().skip_while(|table| *table != start) {
            let mut after = query.after.clone().filter(|after| after.table == table);
            let mut consumer = match (&after, &query.consumer) {
                (Some(after), _) => Some(after.consumer.clone()),
                (None, Some(only)) => Some(only.clone()),
                (None, None) => self.consumer_after(table, "").await?,
            };
            while let Some(name) = consumer {
                let from = after.take().filter(|after| after.consumer == name).map(|after| after.id);
                let mut from = (from.unwrap_or(Uuid::nil()), from.is_none());
                consumers += 1;
                loop {
                    let rows = InboxRows::Of {
                        consumer: name.clone(),
                        from: from.0,
                        inclusive: from.1,
                        rows_max: PAGE_ROWS,
                    };
                    let found = self.store().read_inbox(InboxRead { table, rows }).await?;
                    let is_last = found.len() < PAGE_ROWS;
                    for item in found {
                        read += 1;
                        from = (item.id, false);
                        let cursor = InboxCursor { table, consumer: name.clone(), id: item.id };
                        if query.since.is_none_or(|since| item.processed_at >= since)
                            && query.until.is_none_or(|until| item.processed_at <= until)
                        {
                            page.items.push(item);
                        }
                        if page.items.len() >= query.rows_max || read >= READ_ROWS_MAX {
                            page.next = Some(cursor);
                            return Ok(page);
                        }
                    }
                    if is_last {
                        break;
                    }
                }
                if consumers >= CONSUMERS_MAX {
                    page.next = Some(InboxCursor { table, consumer: name, id: Uuid::max() });
                    return Ok(page);
                }
                consumer = match &query.consumer {
                    Some(_) => None,
                    None => self.consumer_after(table, &name).await?,
                };
            }
        }
        Ok(page)
    }

    /// Which consumers have processed an event. Visits a limited number of consumers, each with its key.
    ///
    /// # Errors
    /// The database's error.
    pub async fn find_in_inbox(&self, id: Uuid) -> Result<Vec<InboxItem>> {
        let mut found = Vec::new();
        for table in InboxKind::ALL {
            let mut consumer = self.consumer_after(table, "").await?;
            for _ in 0..CONSUMERS_MAX {
                let Some(name) = consumer else { break };
                let rows = InboxRows::Of { consumer: name.clone(), from: id, inclusive: true, rows_max: 1 };
                let rows = self.store().read_inbox(InboxRead { table, rows }).await?;
                found.extend(rows.into_iter().filter(|item| item.id == id));
                consumer = self.consumer_after(table, &name).await?;
            }
        }
        Ok(found)
    }

    async fn consumer_after(&self, table: InboxKind, name: &str) -> Result<Option<String>> {
        let rows = InboxRows::NextConsumer(name.to_owned());
        let found = self.store().read_inbox(InboxRead { table, rows }).await?;
        Ok(found.into_iter().next().map(|item| item.consumer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_whatever_the_consumer_is_called() {
        for consumer in ["mail", "a/b", "", "\u{1b}[2J"] {
            let cursor = InboxCursor {
                table: InboxKind::ProcessedEvents,
                consumer: consumer.to_owned(),
                id: Uuid::max(),
            };
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        assert!("inbox/7".parse::<InboxCursor>().is_err());
        assert!("other/00000000-0000-0000-0000-000000000000/mail".parse::<InboxCursor>().is_err());
    }
}
