//! The reports of relays about themselves.

use super::connection::Guard;
use super::session::Tx;
use crate::Result;
use crate::clock::micros;
use crate::store::relays::{self, KEPT_AFTER, RELAYS_MAX, RelayOverview, RelayReport, RelayRole};
use crate::store::row_limit;

/// See [`Store::report`](crate::store::Store::report).
pub(super) async fn record(conn: &mut Guard<'_>, report: &RelayReport) -> Result<()> {
    let RelayReport { subscription, relay, role, duration, down, facts } = report;
    if *role == RelayRole::Gone {
        // Index: the primary key (subscription, relay).
        let sql = "DELETE FROM {schema}.relays WHERE subscription = $1 AND relay = $2";
        return conn.query(sql, &[subscription, relay]).await.map(drop);
    }
    // Index: the primary key (subscription, relay). Also deletes old reports.
    let sql = "WITH old AS (
                   DELETE FROM {schema}.relays
                   WHERE subscription = $1 AND relay <> $2
                     AND expires_at < clock_timestamp() - $6::bigint * interval '1 microsecond'
               )
               INSERT INTO {schema}.relays (subscription, relay, leads, down, facts, seen_at, expires_at)
               VALUES ($1, $2, $3, $4, $7, clock_timestamp(),
                       clock_timestamp() + $5::bigint * interval '1 microsecond')
               ON CONFLICT (subscription, relay) DO UPDATE
               SET leads = excluded.leads, down = excluded.down, facts = excluded.facts,
                   seen_at = excluded.seen_at, expires_at = excluded.expires_at";
    let (leading, down) = (*role == RelayRole::Leading, relays::to_column(down));
    let facts = relays::facts_to_column(facts);
    conn.query(sql, &[subscription, relay, &leading, &down, &micros(*duration), &micros(KEPT_AFTER), &facts])
        .await
        .map(drop)
}

/// The latest reports, also those that are no longer valid.
pub(super) async fn load(snapshot: &Tx<'_>, subscription: &str) -> Result<Vec<RelayOverview>> {
    // Index: the primary key (subscription, relay).
    let sql = "SELECT * FROM (SELECT relay, leads, seen_at, expires_at, down, facts FROM {schema}.relays
                              WHERE subscription = $1 ORDER BY expires_at DESC LIMIT $2) AS latest
               ORDER BY relay";
    snapshot
        .query(sql, &[&subscription, &row_limit(RELAYS_MAX)])
        .await?
        .iter()
        .map(RelayOverview::read)
        .collect()
}
