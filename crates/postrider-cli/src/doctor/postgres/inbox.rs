//! The inbox, and the inbox table of the layout `outbox`.

use std::time::Duration;

use postrider::Ident;
use postrider::layout::{Ability, RowTable};
use postrider::store::postgres::{PostgresConfig, PostgresRowStore};
use tokio_postgres::types::{ToSql, Type};

use super::{Check, Queries, Subject};
use crate::doctor::{INBOX_EXPIRED, INBOX_ROWS_MAX, InboxHealth};

/// Rows that expired a while ago and are no longer kept. Index: inbox_expires_at (expires_at), from its begin.
const EXPIRED: &str = "
    SELECT count(*)
    FROM (SELECT FROM {schema}.inbox
          WHERE expires_at < clock_timestamp() - make_interval(secs => $1)
            AND processed_at < clock_timestamp() - make_interval(secs => $2)
          LIMIT $3) AS expired";

/// Unique keys of the inbox with exactly the columns of its key. Index: those of the catalog.
const KEYS: &str = "
    SELECT count(*)
    FROM pg_index AS i
    WHERE i.indrelid = to_regclass('{schema}.inbox') AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
      AND (SELECT array_agg(a.attname::text ORDER BY a.attname) FROM pg_attribute AS a
           WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::int2[])) = '{consumer_group,event_id}'";

/// See [`crate::database::Database::inbox_health`].
pub(crate) async fn inbox_health(
    config: &PostgresConfig,
    schema: &Ident,
    kept: Duration,
) -> Result<InboxHealth, String> {
    let (client, _) = config.guarded_client().await.map_err(|error| error.one_line())?;
    let (expired, kept) = (INBOX_EXPIRED.as_secs_f64(), kept.as_secs_f64());
    let params: [(&(dyn ToSql + Sync), Type); 3] =
        [(&expired, Type::FLOAT8), (&kept, Type::FLOAT8), (&INBOX_ROWS_MAX, Type::INT8)];
    let queries = Queries { client, schema };
    let expired: Vec<i64> = queries.query_with(EXPIRED, &params).await?;
    let keys: Vec<i64> = queries.query(KEYS).await?;
    let first = |rows: Vec<i64>| rows.first().copied().unwrap_or_default();
    Ok(InboxHealth { expired: first(expired), has_key: first(keys) > 0 })
}

/// Whether `processed_events`, if it exists, lets every consumer group process an event.
pub(super) async fn check(config: &PostgresConfig, rows: &RowTable, subject: &mut Subject<'_>) {
    if !rows.layout().has(Ability::Inbox) {
        return;
    }
    let check = Check::LayoutInbox;
    match PostgresRowStore::inbox_keys_of_one_group(config, rows).await {
        Ok(None) => {}
        Ok(Some(keys)) if keys.is_empty() => {
            subject.ok(check, "every consumer group can process every event");
        }
        Ok(Some(keys)) => {
            let keys = keys.join(", ");
            subject.warn(
                check,
                format!("processed_events has the key {keys}: only one consumer group can process an event"),
            );
        }
        Err(error) => subject.unchecked(check, &error.one_line()),
    }
}
