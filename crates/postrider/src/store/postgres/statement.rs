//! Statements and their parameters, for private connections and for pooled ones.
//!
//! On a private connection a statement is prepared under a name and planned once. Behind a pooler the next transaction
//! may run in another server process, which does not know the name; there every statement is sent unnamed, with the
//! types of its parameters, in one message.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures_util::StreamExt;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error as SqlError, Row, Statement};
use uuid::Uuid;

use super::failure::failed;
use super::time::Time;
use crate::layout::RowTable;
use crate::{Ident, Result};

/// Parameters of a statement, in the order of `$1`, `$2`, ...
pub(super) type Params<'a> = &'a [&'a dyn Param];

/// A value with its SQL type. Statements are parsed with these types on every kind of connection.
pub(super) trait Param: ToSql + Sync {
    fn sql_type(&self) -> Type;
    fn as_sql(&self) -> &(dyn ToSql + Sync);
}

impl<T: Typed + ToSql + Sync> Param for T {
    fn sql_type(&self) -> Type {
        T::TYPE
    }

    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        self
    }
}

/// A Rust type with its SQL type, and the SQL type of an array of it.
pub(super) trait Typed {
    const TYPE: Type;
    const ARRAY: Type;
}

macro_rules! typed {
    ($($rust:ty => $one:ident, $many:ident;)*) => {
        $(impl Typed for $rust {
            const TYPE: Type = Type::$one;
            const ARRAY: Type = Type::$many;
        })*
    };
}

typed! {
    bool => BOOL, BOOL_ARRAY;
    i32 => INT4, INT4_ARRAY;
    i64 => INT8, INT8_ARRAY;
    &str => TEXT, TEXT_ARRAY;
    String => TEXT, TEXT_ARRAY;
    Time => TIMESTAMPTZ, TIMESTAMPTZ_ARRAY;
    Uuid => UUID, UUID_ARRAY;
}

impl<T: Typed> Typed for Option<T> {
    const TYPE: Type = T::TYPE;
    const ARRAY: Type = T::ARRAY;
}

impl<T: Typed> Typed for &[T] {
    const TYPE: Type = T::ARRAY;
    const ARRAY: Type = T::ARRAY;
}

impl<T: Typed> Typed for Vec<T> {
    const TYPE: Type = T::ARRAY;
    const ARRAY: Type = T::ARRAY;
}

/// A parameter of a [`NamedStatement`].
pub(super) type NamedParam<'a> = (&'static str, &'a dyn Param);

/// A statement whose parameters have names: `{floor}` in its text is the parameter `floor`.
pub(super) struct NamedStatement {
    text: &'static str,
    /// The text with `$1`, `$2`, ... in place of the names, built at the first use.
    numbered: OnceLock<String>,
}

impl NamedStatement {
    pub(super) const fn new(text: &'static str) -> Self {
        Self { text, numbered: OnceLock::new() }
    }

    /// The text with numbers in place of the names, and the values in the order of the numbers. Every call must pass
    /// the same names in the same order.
    pub(super) fn with<'a>(&'static self, params: &[NamedParam<'a>]) -> (&'static str, Vec<&'a dyn Param>) {
        let numbered = self.numbered.get_or_init(|| {
            let mut text = self.text.to_owned();
            for (index, (name, _)) in params.iter().enumerate() {
                text = text.replace(&format!("{{{name}}}"), &format!("${}", index + 1));
            }
            text
        });
        (numbered, params.iter().map(|(_, value)| *value).collect())
    }
}

/// The statements of one connection, prepared at their first use.
pub(super) struct Statements {
    schema: Ident,
    /// The table with a state per row, if that is the outbox.
    rows: Option<Arc<RowTable>>,
    /// Whether statements may be prepared under a name.
    named: bool,
    received: RowsReceived,
    ready: Mutex<HashMap<&'static str, Ready>>,
}

/// The number of rows received over a connection: while it grows, the server is alive.
pub(super) type RowsReceived = Arc<AtomicU64>;

/// A statement that is ready to be sent.
#[derive(Clone)]
pub(super) struct Ready {
    how: How,
    received: RowsReceived,
}

#[derive(Clone)]
enum How {
    Named(Statement),
    Unnamed(Arc<str>),
}

impl Statements {
    pub(super) fn new(
        schema: Ident,
        rows: Option<Arc<RowTable>>,
        named: bool,
        received: RowsReceived,
    ) -> Self {
        Self { schema, rows, named, received, ready: Mutex::default() }
    }

    /// Replaces the table with one whose details were read from the database.
    pub(super) fn learn(&mut self, rows: RowTable) {
        self.rows = Some(Arc::new(rows));
    }

    /// The statement with the schema's name inserted. Preparing it under a name costs a round trip at the first use.
    pub(super) async fn get(
        &self,
        client: &Client,
        statement: &'static str,
        params: Params<'_>,
    ) -> Result<Ready> {
        let known = self.ready.lock().unwrap_or_else(PoisonError::into_inner).get(statement).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let of_rows = self.rows.as_ref().map(|rows| rows.put_into(statement));
        let text = self.schema.put_into(of_rows.as_deref().unwrap_or(statement));
        let how = if self.named {
            let types: Vec<Type> = params.iter().map(|param| param.sql_type()).collect();
            How::Named(client.prepare_typed(&text, &types).await.map_err(failed)?)
        } else {
            How::Unnamed(text.into())
        };
        let ready = Ready { how, received: self.received.clone() };
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).insert(statement, ready.clone());
        Ok(ready)
    }
}

impl Ready {
    /// Sends the statement when the future is first polled, and reads all rows.
    pub(super) async fn query(&self, client: &Client, params: Params<'_>) -> Result<Vec<Row>, SqlError> {
        let stream = match &self.how {
            How::Named(statement) => {
                let params: Vec<_> = params.iter().map(|param| param.as_sql()).collect();
                client.query_raw(statement, params).await?
            }
            How::Unnamed(text) => {
                let params: Vec<_> = params.iter().map(|param| (param.as_sql(), param.sql_type())).collect();
                client.query_typed_raw(text, params).await?
            }
        };
        let (mut stream, mut rows) = (pin!(stream), Vec::new());
        while let Some(row) = stream.next().await {
            rows.push(row?);
            self.received.fetch_add(1, Ordering::Relaxed);
        }
        Ok(rows)
    }

    /// The same for a statement that returns no rows. Returns how many rows it changed.
    pub(super) async fn execute(&self, client: &Client, params: Params<'_>) -> Result<u64, SqlError> {
        match &self.how {
            How::Named(statement) => {
                let params: Vec<_> = params.iter().map(|param| param.as_sql()).collect();
                client.execute(statement, &params).await
            }
            How::Unnamed(text) => {
                let params: Vec<_> = params.iter().map(|param| (param.as_sql(), param.sql_type())).collect();
                client.execute_typed(text, &params).await
            }
        }
    }
}

/// Runs a statement that a connection uses once. Works on every kind of connection.
pub(super) async fn query_unnamed(
    client: &Client,
    text: &str,
    params: Params<'_>,
) -> Result<Vec<Row>, SqlError> {
    let params: Vec<_> = params.iter().map(|param| (param.as_sql(), param.sql_type())).collect();
    client.query_typed(text, &params).await
}
