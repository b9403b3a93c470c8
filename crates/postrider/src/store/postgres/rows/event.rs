//! From a row of any layout to an event.

use std::sync::Arc;

use bytes::Bytes;
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::row::get;
use super::super::time::Time;
use crate::event::columns;
use crate::layout::made_id;
use crate::{Aggregate, Code, Error, Event, Headers, Result};

/// What a statement told of one row, in the order of its columns.
pub(super) struct Told {
    pub(super) id: Arc<str>,
    /// Failed tries so far.
    pub(super) attempts: i64,
    /// Tries after which it is given up.
    pub(super) limit: u32,
    /// It may be handed out by a claim.
    pub(super) is_due: bool,
    /// Nobody has settled it as delivered.
    pub(super) is_open: bool,
    /// Bytes of its payload, headers included.
    pub(super) bytes: usize,
    /// The payload stayed behind.
    pub(super) is_bare: bool,
}

impl Told {
    pub(super) fn of(row: &Row) -> Result<Self> {
        let body: Option<&str> = get(row, 6)?;
        let headers: Option<&str> = get(row, 8)?;
        let length = match body {
            Some(body) => body.len(),
            None => usize::try_from(get::<Option<i64>>(row, 7)?.unwrap_or(0)).unwrap_or(0),
        };
        Ok(Self {
            id: get::<&str>(row, 0)?.into(),
            attempts: get(row, 13)?,
            limit: u32::try_from(get::<i64>(row, 11)?).unwrap_or(1).max(1),
            is_due: get::<Option<bool>>(row, 14)?.unwrap_or(false),
            is_open: get(row, 15)?,
            bytes: length + headers.map_or(0, str::len),
            is_bare: body.is_none(),
        })
    }

    /// Failed tries as the relay counts them.
    pub(super) fn tried(&self) -> u32 {
        u32::try_from(self.attempts).unwrap_or(0)
    }
}

/// The event of a row; `max_attempts` is what is left of its tries.
pub(super) fn event(row: &Row, max_attempts: u32) -> Result<Event> {
    read(row, max_attempts).map_err(|cause| {
        let id = get::<&str>(row, 0).unwrap_or("?").to_owned();
        Error::new(Code::RowDamaged, format!("row {id} cannot be read"))
            .hint("repair or delete the row; the subscription goes on from there")
            .source(cause)
    })
}

fn read(row: &Row, max_attempts: u32) -> Result<Event> {
    let created = get::<Time>(row, 9)?.0;
    let aggregate = Aggregate { kind: get(row, 3)?, id: get(row, 4)? };
    let event_type: String = get(row, 2)?;
    let mut headers = match get::<Option<&str>>(row, 8)? {
        Some(json) if json != "null" => columns::headers_from_json(json)?,
        _ => Headers::default(),
    };
    let key = get::<Option<&str>>(row, 1)?.map(str::trim);
    let id = match key.map(Uuid::parse_str) {
        Some(Ok(id)) => id,
        other => {
            if let (Some(Err(_)), Some(key)) = (other, key) {
                headers = headers.into_iter().chain([("event_key".to_owned(), key.to_owned())]).collect();
            }
            made_id(created, get::<&str>(row, 0)?.parse().unwrap_or(0), &aggregate, &event_type)
        }
    };
    Ok(Event {
        id,
        event_type,
        key: get(row, 5)?,
        payload: Bytes::copy_from_slice(get::<Option<&str>>(row, 6)?.unwrap_or_default().as_bytes()),
        headers,
        time: created,
        topic: get(row, 10)?,
        max_attempts: Some(max_attempts.max(1)),
        expires_at: None,
        action: None,
        namespace: None,
        producer: get(row, 12)?,
        aggregate: Some(aggregate),
    })
}
