//! Rows that were delivered from here: noted while retention is set, and deleted when they are old.
//!
//! A row of somebody's table tells that it was delivered, and not by which program. So a relay with a retention notes
//! what it delivers in `row_done`, and nothing without such a note is deleted. A note that is lost keeps its row.

use super::super::connection::Guard;
use super::super::session::Tx;
use crate::Result;
use crate::layout::{RowLayout, RowTable};

/// Rows were delivered. Index: the primary key (row_id).
const NOTE: &str = "
    INSERT INTO {schema}.row_done AS d (row_id)
    SELECT unnest($1::text[])
    ON CONFLICT (row_id) DO UPDATE SET done_at = clock_timestamp()";

/// Rows were handed over to another outbox: their notes never grow old. Index: the primary key (row_id).
const HANDED_OVER: &str = "
    UPDATE {schema}.row_done
    SET done_at = timestamptz '9999-12-31 00:00:00+00'
    WHERE row_id = ANY ($1::text[])";

/// Deletes rows whose note is older than `$1` microseconds, `$2` at most, and these notes. Answers how many rows, and how
/// many notes. A row that was made a day after its note is another one, under a number that was given out again.
/// Indexes: row_done (done_at), from its begin, and the primary key of the table.
macro_rules! trim_own {
    ($row:literal, $is_done:literal, $made:literal, $is_ripe:literal) => {
        concat!(
            "WITH old AS (
                 SELECT n.row_id, n.done_at
                 FROM {schema}.row_done AS n
                 LEFT JOIN {table} AS t ON ",
            $row,
            "    WHERE n.done_at < statement_timestamp() - $1::bigint * interval '1 microsecond' AND ",
            $is_ripe,
            "    ORDER BY n.done_at
                 LIMIT $2::bigint
                 FOR UPDATE OF n SKIP LOCKED
             ), gone AS (
                 DELETE FROM {table} AS t
                 USING old AS n
                 WHERE ",
            $row,
            " AND ",
            $is_done,
            " AND coalesce(",
            $made,
            " <= n.done_at + interval '1 day', true)
                 RETURNING 1
             ), forgotten AS (
                 DELETE FROM {schema}.row_done AS d USING old WHERE d.row_id = old.row_id RETURNING 1
             )
             SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM forgotten)"
        )
    };
}

/// The same for rows of layout `outbox` past their own `expires_at`. Index: idx_outbox_expires (expires_at) WHERE
/// published, from its begin.
const EXPIRED: &str = "
    WITH old AS (
        SELECT t.id, n.row_id
        FROM {table} AS t
        JOIN {schema}.row_done AS n ON n.row_id = t.id::text
        WHERE t.status = 'published' AND t.expires_at < statement_timestamp() AND $1::bigint IS NOT NULL
          AND t.created_at <= n.done_at + interval '1 day'
        ORDER BY t.expires_at
        LIMIT $2::bigint
        FOR UPDATE OF t SKIP LOCKED
    ), gone AS (
        DELETE FROM {table} AS t USING old WHERE t.id = old.id RETURNING 1
    ), stale AS (
        SELECT n.row_id
        FROM (SELECT row_id FROM {schema}.row_done ORDER BY done_at LIMIT $2::bigint) AS n
        WHERE NOT EXISTS (SELECT FROM {table} AS t WHERE t.id = n.row_id::uuid)
    ), forgotten AS (
        DELETE FROM {schema}.row_done AS d
        WHERE d.row_id IN (SELECT row_id FROM old UNION ALL SELECT row_id FROM stale)
    )
    SELECT count(*), count(*) FROM gone";

/// The same where a note is all that tells of a delivery: it goes only with its row, or the row would be due again. A row
/// that its table keeps is looked at again after those that wait now. Indexes: as above.
const NOTED: &str = "
    WITH old AS (
        SELECT n.row_id, t.{c.id} IS NULL AS is_gone
        FROM {schema}.row_done AS n
        LEFT JOIN {table} AS t ON t.{c.id} = {c.row_id}
        WHERE n.done_at < statement_timestamp() - $1::bigint * interval '1 microsecond'
        ORDER BY n.done_at
        LIMIT $2::bigint
        FOR UPDATE OF n SKIP LOCKED
    ), gone AS (
        DELETE FROM {table} AS t USING old AS n WHERE t.{c.id} = {c.row_id} RETURNING n.row_id
    ), ended AS (
        SELECT row_id FROM gone UNION ALL SELECT row_id FROM old WHERE is_gone
    ), forgotten AS (
        DELETE FROM {schema}.row_done AS d USING ended WHERE d.row_id = ended.row_id RETURNING 1
    ), kept AS (
        UPDATE {schema}.row_done AS d
        SET done_at = clock_timestamp()
        FROM old
        WHERE d.row_id = old.row_id AND old.row_id NOT IN (SELECT row_id FROM ended)
    )
    SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM forgotten)";

/// Deletes what was delivered from here.
pub(super) fn trim(table: &RowTable, at_expiry: bool) -> &'static str {
    match table.layout {
        _ if table.only_notes_deliveries() => NOTED,
        RowLayout::EventOutbox => {
            trim_own!("t.id = n.row_id::bigint", "t.status = 'sent'", "t.created_at", "true")
        }
        RowLayout::Outbox if at_expiry => EXPIRED,
        RowLayout::Outbox => trim_own!(
            "t.id = n.row_id::uuid",
            "t.status = 'published'",
            "t.created_at",
            "coalesce(t.expires_at < statement_timestamp(), true)"
        ),
        RowLayout::OutboxEvents => {
            trim_own!("t.id = n.row_id::bigint", "t.status = 'PUBLISHED'", "t.created_at", "true")
        }
        RowLayout::Custom => trim_own!("t.{c.id} = {c.row_id}", "{c.is_done}", "{c.created}", "true"),
    }
}

/// Notes that these rows were delivered. They are settled already: a note that fails only keeps its row from being
/// deleted.
pub(super) async fn note(turn: &mut Guard<'_>, ids: &Vec<String>) {
    if ids.is_empty() {
        return;
    }
    if let Err(error) = turn.query(NOTE, &[ids]).await {
        let rows = ids.len();
        tracing::debug!(
            rows,
            "delivered rows were not recorded for retention and will not be deleted: {}",
            error.one_line()
        );
    }
}

/// These rows were handed over, and are not to be deleted.
pub(super) async fn keep(work: &Tx<'_>, ids: &Vec<String>) -> Result<()> {
    work.execute(HANDED_OVER, &[ids]).await.map(|_| ())
}
