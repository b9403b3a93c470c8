//! The reports of relays about themselves.

use rusqlite::{Connection, params};

use super::failure::Attempt;
use super::lease::now;
use super::ledger::Ledger;
use crate::Timestamp;
use crate::clock::micros;
use crate::store::relays::{self, KEPT_AFTER, RELAYS_MAX, RelayOverview, RelayReport, RelayRole};
use crate::store::row_limit;

/// See [`Store::report`](crate::store::Store::report).
pub(super) fn record(tx: &Connection, ledger: Ledger, report: &RelayReport) -> Attempt<()> {
    let RelayReport { subscription, relay, role, duration, down, facts } = report;
    if *role == RelayRole::Gone {
        // Index: the primary key (subscription, relay).
        let sql = ledger.put_into("DELETE FROM {relays} WHERE subscription = ?1 AND relay = ?2");
        tx.prepare_cached(&sql)?.execute(params![subscription, relay])?;
        return Ok(());
    }
    let now = Timestamp::from_micros(now(tx)?);
    // Index: the primary key (subscription, relay).
    let sql = "INSERT INTO {relays} (subscription, relay, leads, down, facts, seen_at, expires_at)
               VALUES (?1, ?2, ?3, ?4, ?7, ?5, ?6)
               ON CONFLICT (subscription, relay) DO UPDATE
               SET leads = excluded.leads, down = excluded.down, facts = excluded.facts,
                   seen_at = excluded.seen_at, expires_at = excluded.expires_at";
    let (leading, down) = (*role == RelayRole::Leading, relays::to_column(down));
    let expires = now.after(*duration).as_micros();
    tx.prepare_cached(&ledger.put_into(sql))?.execute(params![
        subscription,
        relay,
        leading,
        down,
        now.as_micros(),
        expires,
        relays::facts_to_column(facts)
    ])?;
    // Index: the primary key (subscription, relay), its first part.
    let kept = micros(KEPT_AFTER);
    let old = ledger.put_into("DELETE FROM {relays} WHERE subscription = ?1 AND expires_at < ?2");
    tx.prepare_cached(&old)?.execute(params![subscription, now.as_micros().saturating_sub(kept)])?;
    Ok(())
}

/// The latest reports, also those that are no longer valid.
pub(super) fn load(snapshot: &Connection, ledger: Ledger, subscription: &str) -> Attempt<Vec<RelayOverview>> {
    // Index: the primary key (subscription, relay).
    let sql = "SELECT * FROM (SELECT relay, leads, seen_at, expires_at, down, facts FROM {relays}
                              WHERE subscription = ?1 ORDER BY expires_at DESC LIMIT ?2)
               ORDER BY relay";
    let mut statement = snapshot.prepare_cached(&ledger.put_into(sql))?;
    let rows = statement.query_map(params![subscription, row_limit(RELAYS_MAX)], |row| {
        Ok(RelayOverview {
            relay: row.get(0)?,
            leading: row.get(1)?,
            seen_at: Timestamp::from_micros(row.get(2)?),
            expires_at: Timestamp::from_micros(row.get(3)?),
            down: relays::from_column(row.get::<_, Option<String>>(4)?.as_deref()),
            facts: relays::facts_from_column(row.get::<_, Option<String>>(5)?.as_deref()),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
