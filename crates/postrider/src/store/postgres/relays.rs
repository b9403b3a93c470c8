//! The reports of relays about themselves.

use super::connection::Guard;
use super::session::Tx;
use crate::Result;
use crate::clock::micros;
use crate::store::relays::{self, KEPT_AFTER, RelayOverview, RelayReport, RelayRole};

/// See [`Store::report`](crate::store::Store::report).
pub(super) async fn record(conn: &mut Guard<'_>, report: &RelayReport) -> Result<()> {
    let RelayReport { subscription, relay, role, duration, down } = report;
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
               INSERT INTO {schema}.relays (subscription, relay, leads, down, seen_at, expires_at)
               VALUES ($1, $2, $3, $4, clock_timestamp(),
                       clock_timestamp() + $5::bigint * interval '1 microsecond')
               ON CONFLICT (subscription, relay) DO UPDATE
               SET leads = excluded.leads, down = excluded.down,
                   seen_at = excluded.seen_at, expires_at = excluded.expires_at";
    let (leading, down) = (*role == RelayRole::Leading, relays::to_column(down));
    conn.query(sql, &[subscription, relay, &leading, &down, &micros(*duration), &micros(KEPT_AFTER)])
        .await
        .map(drop)
}

/// The relays whose report is still valid.
pub(super) async fn load(snapshot: &Tx<'_>, subscription: &str) -> Result<Vec<RelayOverview>> {
    // Index: the primary key (subscription, relay).
    let sql = "SELECT relay, leads, seen_at, expires_at, down FROM {schema}.relays
               WHERE subscription = $1 AND expires_at > clock_timestamp() ORDER BY relay";
    snapshot.query(sql, &[&subscription]).await?.iter().map(RelayOverview::read).collect()
}
