//! What of an event does not come along with its row: a large payload, headers, action.
//!
//! A payload comes in slices, each an answer of its own. So a network that is slow costs time and nothing else, for each
//! slice shows that it is not dead; and nothing of the server's is held for longer than one of them takes. An event of
//! which the server cannot read some any more is distinguished from the others.

use bytes::{Bytes, BytesMut};
use tokio_postgres::Row;
use uuid::Uuid;

use super::row::{Json, get};
use super::session::{Access, Session};
use crate::event::columns;
use crate::{Action, Code, Error, Event, Headers, Result};

/// Bytes of a payload in one answer.
const SLICE_BYTES: i32 = 1024 * 1024;

/// With the id, so that an event never gets the payload of another. Index: the primary key (position).
const FIRST: &str = "
    SELECT substring(payload, 1, $3), headers, action
    FROM unnest($1::bigint[], $2::uuid[]) WITH ORDINALITY AS asked (position, id, place)
    JOIN ONLY {schema}.events USING (position, id)
    ORDER BY place";

/// Index: the primary key (position).
const NEXT: &str =
    "SELECT substring(payload, $3, $4) FROM ONLY {schema}.events WHERE position = $1 AND id = $2";

/// What stayed behind of one event.
pub(super) struct Rest {
    payload: Bytes,
    headers: Headers,
    action: Option<Action>,
}

impl Rest {
    /// The columns `payload, headers, action`.
    fn of(row: &Row) -> Result<Self> {
        let json = |column| get::<Option<Json<'_>>>(row, column).map(|json| json.map(|json| json.0));
        Ok(Self {
            payload: Bytes::copy_from_slice(get(row, 0)?),
            headers: json(1)?.map(columns::headers_from_json).transpose()?.unwrap_or_default(),
            action: json(2)?.map(columns::action_from_json).transpose()?,
        })
    }

    pub(super) fn put_into(self, event: &mut Event) {
        (event.payload, event.headers, event.action) = (self.payload, self.headers, self.action);
    }

    /// The same with the whole of its payload.
    async fn whole(mut self, session: &Session, position: i64, id: Uuid) -> Result<Self> {
        if self.payload.len() < SLICE_BYTES.unsigned_abs() as usize {
            return Ok(self);
        }
        let mut payload = BytesMut::from(&self.payload[..]);
        loop {
            let from = i32::try_from(payload.len() + 1).unwrap_or(i32::MAX);
            let rows =
                session.autocommit(Access::Reads, NEXT, &[&position, &id, &from, &SLICE_BYTES]).await?;
            let slice: &[u8] = get(rows.first().ok_or_else(deleted)?, 0)?;
            payload.extend_from_slice(slice);
            if slice.len() < SLICE_BYTES.unsigned_abs() as usize {
                self.payload = payload.freeze();
                return Ok(self);
            }
        }
    }
}

/// The rests of events by position and id, in this order. One that cannot be read is an error of its own.
pub(super) async fn of(session: &Session, positions: &[i64], ids: &[Uuid]) -> Result<Vec<Result<Rest>>> {
    let mut rests = Vec::with_capacity(positions.len());
    match first(session, positions, ids).await {
        Ok(rows) => {
            for ((row, position), id) in rows.iter().zip(positions).zip(ids) {
                let rest = async { Rest::of(row)?.whole(session, *position, *id).await };
                rests.push(apart(rest.await)?);
            }
        }
        // Which of them it is tells only one at a time.
        Err(error) if error.code() == Code::RowDamaged => {
            for (position, id) in positions.iter().zip(ids) {
                let rest = async {
                    let rows = first(session, &[*position], &[*id]).await?;
                    Rest::of(rows.first().ok_or_else(deleted)?)?.whole(session, *position, *id).await
                };
                rests.push(apart(rest.await)?);
            }
        }
        Err(error) => return Err(error),
    }
    Ok(rests)
}

async fn first(session: &Session, positions: &[i64], ids: &[Uuid]) -> Result<Vec<Row>> {
    let (positions, ids) = (positions.to_vec(), ids.to_vec());
    let rows = session.autocommit(Access::Reads, FIRST, &[&positions, &ids, &SLICE_BYTES]).await?;
    if rows.len() == positions.len() { Ok(rows) } else { Err(deleted()) }
}

/// The event's own error apart from that of the connection.
fn apart(rest: Result<Rest>) -> Result<Result<Rest>> {
    match rest {
        Err(error) if error.code() != Code::RowDamaged => Err(error),
        rest => Ok(rest),
    }
}

fn deleted() -> Error {
    Error::new(Code::StoreBusy, "an event was deleted while it was read")
}
