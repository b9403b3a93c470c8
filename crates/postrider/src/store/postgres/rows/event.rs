//! From a row of any layout to an event.

use std::sync::Arc;

use bytes::Bytes;
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::row::get;
use super::super::time::Time;
use crate::event::columns;
use crate::{Aggregate, Code, Error, Event, Headers, Result, Timestamp};

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
            made_id(created, get(row, 0)?, &aggregate, &event_type)
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

/// An id for a row whose table has none that is unique everywhere: 48 bits of the milliseconds of its creation, 12
/// bits of what it is about, 62 bits of its number. The same at every delivery, and unique within its table.
fn made_id(created: Timestamp, row: &str, aggregate: &Aggregate, event_type: &str) -> Uuid {
    let number: i64 = row.parse().unwrap_or(0);
    let millis = created.as_micros().div_euclid(1_000).unsigned_abs() & 0xffff_ffff_ffff;
    let words = [aggregate.kind.as_str(), aggregate.id.as_str(), event_type];
    // FNV-1a: any function will do that is the same for ever.
    let mut about: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in words.iter().flat_map(|word| word.bytes().chain([0])) {
        about = (about ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let about = (about ^ about >> 12 ^ about >> 24 ^ about >> 36 ^ about >> 48) & 0xfff;
    let high = millis << 16 | 0x8 << 12 | about;
    let low = 0b10 << 62 | number.unsigned_abs() & 0x3fff_ffff_ffff_ffff;
    Uuid::from_u64_pair(high, low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_id_is_always_the_same_and_tells_rows_apart() {
        let order = |id: &str| Aggregate { kind: "Order".into(), id: id.into() };
        let at = Timestamp::from_micros(1_700_000_000_123_456);
        let id = made_id(at, "42", &order("7"), "order.placed");
        assert_eq!(id.to_string(), "018bcfe5-687b-8cf9-8000-00000000002a");
        assert_eq!(id, made_id(at, "42", &order("7"), "order.placed"));
        assert_ne!(id, made_id(at, "43", &order("7"), "order.placed"));
        assert_ne!(id, made_id(at, "42", &order("8"), "order.placed"));
        assert_eq!((id.get_version_num(), id.get_variant()), (8, uuid::Variant::RFC4122));
    }
}
