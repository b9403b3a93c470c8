//! Timestamps in PostgreSQL's binary format, in microseconds.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::Timestamp;

/// PostgreSQL counts from 2000-01-01.
const YEAR_2000_MICROS: i64 = 946_684_800_000_000;

/// A `timestamptz`. `infinity` is converted to the highest timestamp, and back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time(pub(super) Timestamp);

impl Time {
    /// Whether it is `infinity`, which is PostgreSQL's highest number.
    pub(super) fn is_infinity(&self) -> bool {
        self.0.as_micros() == i64::MAX
    }
}

impl<'a> FromSql<'a> for Time {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let micros = i64::from_sql(ty, raw)?;
        Ok(Self(Timestamp::from_micros(micros.saturating_add(YEAR_2000_MICROS))))
    }

    accepts!(TIMESTAMPTZ);
}

impl ToSql for Time {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let micros = self.0.as_micros();
        let micros = if self.is_infinity() { micros } else { micros.saturating_sub(YEAR_2000_MICROS) };
        micros.to_sql(ty, out)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}
