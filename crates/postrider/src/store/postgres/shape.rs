//! Checks the properties of the table `events` that the guarantees depend on: how it assigns positions, and that all of
//! its rows are visible.
//!
//! The check runs for every connection, for every lease that is taken or renewed, and in every claim that may declare a
//! position empty: altering the outbox under a running relay stops that relay, as it would prevent a new one from
//! starting.

use tokio_postgres::Row;

use super::row::get;
use crate::{Code, Error, Result};

/// What was altered, and which tables hide rows from this user; two empty texts if nothing is wrong.
///
/// A sequence with a cache assigns positions long after they were taken from it; a cycling one assigns them twice. With
/// tx after position, or with another default, a writer would have a position before its transaction id. A writer to a
/// child table or a partition holds no lock on the table itself, so it would not be waited for. Indexes: those of the
/// catalog.
pub(super) const SHAPE: &str = "
    SELECT concat_ws('; ',
               CASE WHEN c.relkind <> 'r' THEN 'events is not a plain table' END,
               CASE WHEN EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhparent = c.oid)
                    THEN 'events has a child table or a partition' END,
               CASE WHEN EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhrelid = c.oid)
                    THEN 'events is a child table or a partition of another' END,
               CASE WHEN s.seqrelid IS NULL THEN 'the sequence events_position_seq does not exist'
                    WHEN s.seqcache <> 1 OR s.seqincrement <> 1 OR s.seqcycle
                    THEN 'the sequence of positions has CACHE ' || s.seqcache::text || ', INCREMENT '
                         || s.seqincrement::text || CASE WHEN s.seqcycle THEN ', CYCLE' ELSE '' END END,
               CASE WHEN p.attidentity IS DISTINCT FROM 'a'::\"char\"
                    THEN 'position is not GENERATED ALWAYS AS IDENTITY' END,
               CASE WHEN t.attnum < p.attnum AND t.attgenerated = '' AND pg_get_expr(d.adbin, d.adrelid)
                         IN ('pg_current_xact_id()', 'pg_catalog.pg_current_xact_id()')
                    THEN NULL
                    ELSE 'tx is not before position with the default pg_current_xact_id()' END),
           coalesce((SELECT string_agg(hidden.name, ', ' ORDER BY hidden.name)
                     FROM unnest(ARRAY['events', 'subscriptions', 'parked', 'leases']) AS hidden (name)
                     JOIN pg_class AS h ON h.oid = to_regclass('{schema}.' || hidden.name)
                     WHERE row_security_active(h.oid)), '')
    FROM (SELECT to_regclass('{schema}.events') AS events,
                 to_regclass('{schema}.events_position_seq') AS positions) AS named
    JOIN pg_class AS c ON c.oid = named.events
    LEFT JOIN pg_sequence AS s ON s.seqrelid = named.positions
    LEFT JOIN pg_attribute AS p ON p.attrelid = c.oid AND p.attname = 'position' AND NOT p.attisdropped
    LEFT JOIN pg_attribute AS t ON t.attrelid = c.oid AND t.attname = 'tx' AND NOT t.attisdropped
    LEFT JOIN pg_attrdef AS d ON d.adrelid = t.attrelid AND d.adnum = t.attnum";

/// Refuses an outbox that differs from what the migrations created, or of which this user would not see every row.
pub(super) fn check(rows: &[Row]) -> Result<()> {
    let Some(row) = rows.first() else {
        return Err(Error::new(Code::SchemaMissing, "the table events does not exist"));
    };
    let (altered, hidden): (&str, &str) = (get(row, 0)?, get(row, 1)?);
    if !hidden.is_empty() {
        return Err(rows_hidden(hidden));
    }
    if altered.is_empty() {
        return Ok(());
    }
    let what = format!("the table events differs from what the migrations created: {altered}");
    Err(Error::new(Code::SchemaAltered, what).with_hint(
        "position must be GENERATED ALWAYS AS IDENTITY with INCREMENT 1 CACHE 1 NO CYCLE, after tx with its default, in a \
         table without children; undo the change; if the sequence had a CACHE, also close the connections that wrote in the meantime",
    ))
}

/// The error for tables of which a policy would hide rows.
pub(super) fn rows_hidden(tables: &str) -> Error {
    Error::new(Code::RowsHidden, format!("row-level security would hide rows of {tables} from this user"))
}
