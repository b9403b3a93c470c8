//! Layout `eventlog`: the fan-out to handlers that are registered with patterns, such as handlers of all types.

use std::collections::{BTreeMap, BTreeSet};

use super::super::row::{get, micros};
use super::super::session::{Params, Tx};
use super::notifications::{fan_out_events, since, timestamp, union, waiting_event, without};
use super::sql::literal;
use crate::layout::like;
use crate::store::Skipped;
use crate::store::row_state::handler_types::handler_types;
use crate::store::row_state::notifications::{Existing, RegisteredType, WaitingEvent};
use crate::{Result, Timestamp};

/// Types in one statement. With more, events are fanned out in groups of types, each in the order of its events.
const GROUPS_MAX: usize = 500;

/// The types of events that are not fanned out; one for those that the column's collation does not distinguish. Index:
/// events_undelivered (delivered, event_type, event_date), one step per type, for which GROUP BY must name the beginning
/// of the index.
const WAITING_GROUPS: &str = "
    SELECT event_type FROM {table}
    WHERE delivered = FALSE AND event_type IS NOT NULL
    GROUP BY delivered, event_type";

/// Those of them that match a pattern under the column's collation. Others are left out: nearly always, none of their events
/// matches, and each of them would be read to find that out. LIMIT keeps the server from moving the condition to where it
/// would read every entry of the index.
const MATCHING_GROUPS: &str = "
    SELECT waiting.event_type
    FROM (SELECT event_type FROM {table}
          WHERE delivered = FALSE AND event_type IS NOT NULL
          GROUP BY delivered, event_type
          LIMIT 1000000000) AS waiting
    WHERE {matches}";

/// The oldest events of such a group that are not fanned out and match a condition. Index: events_undelivered (delivered,
/// event_type, event_date), one range, in its order.
const OLDEST_MATCHING: &str = concat!(
    "(SELECT e.id, e.event_type, ",
    micros!("e.event_date"),
    " AS at, e.event_date
      FROM {table} AS e
      WHERE e.delivered = FALSE AND e.event_type = {type} AND ({matches})
      ORDER BY e.event_date, e.id
      LIMIT {events_max})"
);

/// How often the types are read again, because new ones were written meanwhile.
const ROUNDS_MAX: usize = 3;

/// The condition that an event goes to a registered handler.
fn matches(registered: &[RegisteredType], older_than: &BTreeMap<String, Timestamp>) -> String {
    const TYPE: &str = "CONVERT(e.event_type USING utf8mb4) COLLATE utf8mb4_bin";
    let mut starts: BTreeMap<&str, Option<Timestamp>> = BTreeMap::new();
    for entry in registered {
        let start = starts.entry(&entry.pattern).or_insert(entry.since);
        // No start is the earliest.
        *start = (*start).min(entry.since);
    }
    let any = match starts.get("*") {
        Some(None) => "TRUE".to_owned(),
        _ => {
            let each = starts.iter().map(|(pattern, start)| {
                format!("({TYPE} LIKE {}{})", literal(&like(pattern)), since(*start))
            });
            each.collect::<Vec<_>>().join(" OR ")
        }
    };
    let left_out = older_than.iter().map(|(name, date)| {
        format!(" AND ({TYPE} <> {} OR e.event_date >= {})", literal(name), timestamp(*date))
    });
    format!("({any}){}", left_out.collect::<String>())
}

/// The oldest events that are not fanned out and match a registered pattern.
pub(super) async fn list_matching(
    tx: &mut Tx<'_>,
    registered: &[RegisteredType],
    events_max: usize,
    skipped: &Skipped,
) -> Result<Vec<WaitingEvent>> {
    let groups_of = groups_statement(registered, skipped.unmatched_types);
    let matches = matches(registered, &skipped.older_than);
    let mut groups = waiting_groups(tx, &groups_of).await?;
    for round in 1.. {
        let mut oldest = oldest_of(tx, &groups, &matches, events_max, &skipped.ids).await?;
        // Each statement has its own snapshot. If an event of a new type was written before one of these, its type is
        // visible now.
        let now = waiting_groups(tx, &groups_of).await?;
        let new: BTreeSet<String> = now.difference(&groups).cloned().collect();
        if new.is_empty() {
            return Ok(oldest);
        }
        if round == ROUNDS_MAX {
            let first = oldest_of(tx, &new, &matches, 1, &[]).await?.into_iter().next();
            oldest.retain(|event| first.as_ref().is_none_or(|first| event.date < first.date));
            return Ok(oldest);
        }
        groups = now;
    }
    Ok(Vec::new())
}

/// The oldest events of these groups of types, except some.
async fn oldest_of(
    tx: &mut Tx<'_>,
    groups: &BTreeSet<String>,
    matches: &str,
    events_max: usize,
    excluded: &[String],
) -> Result<Vec<WaitingEvent>> {
    let groups: Vec<&String> = groups.iter().collect();
    let mut oldest: Vec<WaitingEvent> = Vec::new();
    for groups in groups.chunks(GROUPS_MAX) {
        let read_max = (events_max + excluded.len()).to_string();
        let selects = groups.iter().map(|name| {
            OLDEST_MATCHING
                .replace("{type}", &literal(name))
                .replace("{matches}", matches)
                .replace("{events_max}", &read_max)
        });
        let order = format!("\nORDER BY event_date, id LIMIT {read_max}");
        let rows = tx.query(&union(selects.collect(), &order), Params::new()).await?;
        oldest.extend(rows.iter().map(waiting_event).collect::<Result<Vec<_>>>()?);
    }
    Ok(without(oldest, excluded, events_max))
}

/// The statement for the groups of types to read.
fn groups_statement(registered: &[RegisteredType], without_unmatched: bool) -> String {
    let patterns: BTreeSet<&str> = registered.iter().map(|entry| entry.pattern.as_str()).collect();
    if !without_unmatched || patterns.contains("*") {
        return WAITING_GROUPS.to_owned();
    }
    let any = patterns.iter().map(|pattern| format!("waiting.event_type LIKE {}", literal(&like(pattern))));
    MATCHING_GROUPS.replace("{matches}", &any.collect::<Vec<_>>().join(" OR "))
}

async fn waiting_groups(tx: &mut Tx<'_>, statement: &str) -> Result<BTreeSet<String>> {
    tx.query(statement, Params::new()).await?.iter().map(|row| get(row, 0)).collect()
}

pub(super) async fn fan_out_matching(
    tx: &mut Tx<'_>,
    registered: &[RegisteredType],
    events_max: usize,
    skipped: &Skipped,
    existing: Existing,
) -> Result<(u64, u64)> {
    let picked = list_matching(tx, registered, events_max, skipped).await?;
    let types: BTreeSet<String> = picked.iter().map(|event| event.event_type.clone()).collect();
    let types: Vec<String> = types.into_iter().collect();
    fan_out_events(tx, &handler_types(registered.to_vec(), &types), &picked, existing).await
}
