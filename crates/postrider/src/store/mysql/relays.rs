//! The reports of relays about themselves.

use super::connection::Guard;
use super::row::micros;
use super::session::{Tx, params};
use crate::Result;
use crate::clock;
use crate::store::relays::{self, KEPT_AFTER, RELAYS_MAX, RelayOverview, RelayReport, RelayRole};
use crate::store::row_limit;

/// See [`Store::report`](crate::store::Store::report). Each statement is a separate transaction: no decision depends on
/// the reports.
pub(super) async fn record(conn: &mut Guard<'_>, report: &RelayReport) -> Result<()> {
    let RelayReport { subscription, relay, role, duration, down, facts } = report;
    let (subscription, relay) = (subscription.as_str(), relay.as_str());
    let session = conn.session()?;
    if *role == RelayRole::Gone {
        // Index: the primary key (subscription, relay).
        let sql = "DELETE FROM {schema}.relays WHERE subscription = ? AND relay = ?";
        return session.autocommit_changes(sql, params![subscription, relay]).await.map(drop);
    }
    // Index: the primary key (subscription, relay).
    let sql = "INSERT INTO {schema}.relays (subscription, relay, leads, down, facts, seen_at, expires_at)
               VALUES (?, ?, ?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)
               ON DUPLICATE KEY UPDATE
                   leads = VALUES(leads), down = VALUES(down), facts = VALUES(facts),
                   seen_at = VALUES(seen_at), expires_at = VALUES(expires_at)";
    let (leading, down) = (*role == RelayRole::Leading, relays::to_column(down));
    let facts = relays::facts_to_column(facts);
    session
        .autocommit_changes(sql, params![subscription, relay, leading, down, facts, clock::micros(*duration)])
        .await?;
    // Index: the primary key (subscription, relay), its first part.
    let old = "DELETE FROM {schema}.relays
               WHERE subscription = ? AND expires_at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND";
    session.autocommit_changes(old, params![subscription, clock::micros(KEPT_AFTER)]).await.map(drop)
}

/// The latest reports, also those that are no longer valid.
pub(super) async fn load(snapshot: &mut Tx<'_>, subscription: &str) -> Result<Vec<RelayOverview>> {
    // Index: the primary key (subscription, relay).
    let sql = concat!(
        "SELECT * FROM (SELECT relay, leads, ",
        micros!("seen_at"),
        " AS seen, ",
        micros!("expires_at"),
        " AS expires, down, facts FROM {schema}.relays
                       WHERE subscription = ? ORDER BY expires_at DESC LIMIT ?) AS latest
         ORDER BY relay"
    );
    snapshot
        .query(sql, params![subscription, row_limit(RELAYS_MAX)])
        .await?
        .iter()
        .map(RelayOverview::read)
        .collect()
}
