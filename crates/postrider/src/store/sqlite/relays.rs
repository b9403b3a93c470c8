//! The reports of relays about themselves.

use rusqlite::{Connection, params};

use super::failure::Attempt;
use super::lease::now;
use super::ledger::Ledger;
use crate::Timestamp;
use crate::clock::micros;
use crate::store::relays::{self, KEPT_AFTER, RelayOverview, RelayReport, RelayRole};

/// See [`Store::report`](crate::store::Store::report).
pub(super) fn record(tx: &Connection, ledger: Ledger, report: &RelayReport) -> Attempt<()> {
    let RelayReport { subscription, relay, role, duration, down } = report;
    if *role == RelayRole::Gone {
        // Index: the primary key (subscription, relay).
        let sql = ledger.put_into("DELETE FROM {relays} WHERE subscription = ?1 AND relay = ?2");
        tx.prepare_cached(&sql)?.execute(params![subscription, relay])?;
        return Ok(());
    }
    let now = Timestamp::from_micros(now(tx)?);
    // Index: the primary key (subscription, relay).
    let sql = "INSERT INTO {relays} (subscription, relay, leads, down, seen_at, expires_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)
               ON CONFLICT (subscription, relay) DO UPDATE
               SET leads = excluded.leads, down = excluded.down,
                   seen_at = excluded.seen_at, expires_at = excluded.expires_at";
    let (leading, down) = (*role == RelayRole::Leading, relays::to_column(down));
    let expires = now.after(*duration).as_micros();
    tx.prepare_cached(&ledger.put_into(sql))?.execute(params![
        subscription,
        relay,
        leading,
        down,
        now.as_micros(),
        expires
    ])?;
    // Index: the primary key (subscription, relay), its first part.
    let kept = micros(KEPT_AFTER);
    let old = ledger.put_into("DELETE FROM {relays} WHERE subscription = ?1 AND expires_at < ?2");
    tx.prepare_cached(&old)?.execute(params![subscription, now.as_micros().saturating_sub(kept)])?;
    Ok(())
}

/// The relays whose report is still valid.
pub(super) fn load(snapshot: &Connection, ledger: Ledger, subscription: &str) -> Attempt<Vec<RelayOverview>> {
    // Index: the primary key (subscription, relay).
    let sql = "SELECT relay, leads, seen_at, expires_at, down FROM {relays}
               WHERE subscription = ?1 AND expires_at > ?2 ORDER BY relay";
    let mut statement = snapshot.prepare_cached(&ledger.put_into(sql))?;
    let rows = statement.query_map(params![subscription, now(snapshot)?], |row| {
        Ok(RelayOverview {
            relay: row.get(0)?,
            leading: row.get(1)?,
            seen_at: Timestamp::from_micros(row.get(2)?),
            expires_at: Timestamp::from_micros(row.get(3)?),
            down: relays::from_column(row.get::<_, Option<String>>(4)?.as_deref()),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
