//! The statements of the inbox on PostgreSQL. They run in the application's session, which looks names up where it likes:
//! functions and operators are named with their schema.

/// Inserts the row of a group `$1` and an event `$2`, which expires `$3` microseconds from now. Waits for another
/// transaction that inserts the same row. Index: the primary key (consumer_group, event_id).
pub(crate) const RECEIVE: &str = "
    INSERT INTO {schema}.inbox (consumer_group, event_id, expires_at)
    VALUES ($1::text, $2::text::uuid,
            pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+)
            ($3::bigint OPERATOR(pg_catalog.*) interval '1 microsecond'))
    ON CONFLICT (consumer_group, event_id) DO NOTHING";

/// Deletes up to `$2` rows that have expired, and that were processed more than `$1` microseconds ago. Index:
/// inbox_expires_at (expires_at), from its begin, and the primary key.
pub(crate) const DELETE_EXPIRED: &str = "
    WITH old AS MATERIALIZED (
        SELECT consumer_group, event_id
        FROM {schema}.inbox
        WHERE expires_at OPERATOR(pg_catalog.<) pg_catalog.statement_timestamp()
          AND processed_at OPERATOR(pg_catalog.<=) (pg_catalog.statement_timestamp() OPERATOR(pg_catalog.-)
                                                    ($1::bigint OPERATOR(pg_catalog.*) interval '1 microsecond'))
        ORDER BY expires_at
        LIMIT $2::bigint
    )
    DELETE FROM {schema}.inbox AS i
    USING old
    WHERE i.consumer_group OPERATOR(pg_catalog.=) old.consumer_group
      AND i.event_id OPERATOR(pg_catalog.=) old.event_id";
