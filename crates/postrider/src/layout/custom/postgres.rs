//! The pieces of statements that a map stands for on PostgreSQL. A row of the table is `t`, a note of ours `n`.

use super::field::is_without_zone;
use super::{ColumnMap, Delivered, Field, StateWord};
use crate::layout::Family;

/// A note that says that a row was given up.
const GIVEN_UP: &str = "n.state IN ('dead', 'expired', 'unrouted')";

/// Microseconds of `$1` ago.
const CUTOFF: &str = "statement_timestamp() - $1::bigint * interval '1 microsecond'";

impl ColumnMap {
    /// The statement with every `{c....}` replaced by what the map has for it.
    pub(crate) fn put_into_postgres(&self, statement: &str) -> String {
        let mut text = statement.to_owned();
        // What is made of several comes first: it holds others.
        for (name, piece) in self.actions().into_iter().chain(self.states_of_rows()).chain(self.values()) {
            if text.contains(name) {
                text = text.replace(name, &piece);
            }
        }
        text
    }

    /// What is done to rows.
    fn actions(&self) -> [(&'static str, String); 6] {
        [
            ("{c.done 7}", self.done("$7")),
            ("{c.done 5}", self.done("$5")),
            ("{c.retried}", self.counted("$9", "$11", None)),
            ("{c.ended}", self.counted("$13", "$15", self.failed().map(|word| self.has_state(word)))),
            ("{c.trim}", self.trim()),
            ("{c.order}", self.order()),
        ]
    }

    /// What rows say of themselves, as conditions.
    fn states_of_rows(&self) -> [(&'static str, String); 4] {
        let status = self.quoted(Field::Status);
        let time = self.quoted(Field::DeliveredAt);
        let noted = "(SELECT FROM {schema}.row_done AS d WHERE d.row_id = t.{c.id}::text)";
        let (pending, done) = match (self.delivered(), &self.states) {
            (Delivered::Status, Some(states)) => {
                (format!("t.{status} = {}", states.pending), format!("t.{status} = {}", states.done))
            }
            (Delivered::Time, _) => (format!("t.{time} IS NULL"), format!("t.{time} IS NOT NULL")),
            (Delivered::Noted, _) => (format!("NOT EXISTS {noted}"), format!("EXISTS {noted}")),
            // A row that is there is to be delivered, unless its state says otherwise.
            (_, Some(states)) => (format!("t.{status} = {}", states.pending), "false".to_owned()),
            _ => ("true".to_owned(), "false".to_owned()),
        };
        let (given_up, not_given_up) = match self.failed() {
            Some(word) => (format!("t.{status} = {word}"), "true".to_owned()),
            None => (
                GIVEN_UP.to_owned(),
                format!(
                    "NOT EXISTS (SELECT FROM {{schema}}.row_notes AS n
                                 WHERE n.row_id = t.{{c.id}}::text AND {GIVEN_UP})"
                ),
            ),
        };
        [
            ("{c.is_pending}", pending),
            ("{c.is_done}", done),
            ("{c.is_given_up}", given_up),
            ("{c.is_not_given_up}", not_given_up),
        ]
    }

    /// What rows hold.
    fn values(&self) -> [(&'static str, String); 14] {
        let text = |field| self.read(field, "::text", "NULL::text");
        let id = if self.column(Field::EventId).is_some() { Field::EventId } else { Field::Id };
        let note =
            "coalesce((SELECT n.attempts FROM {schema}.row_notes AS n WHERE n.row_id = t.{c.id}::text), 0)";
        [
            ("{c.event_id}", text(id)),
            ("{c.type}", text(Field::Type)),
            ("{c.aggregate_type}", text(Field::AggregateType)),
            ("{c.aggregate_id}", text(Field::AggregateId)),
            ("{c.key}", self.key()),
            ("{c.headers}", text(Field::Headers)),
            ("{c.topic}", text(Field::Topic)),
            ("{c.max_attempts}", self.read(Field::MaxAttempts, "::bigint", "NULL::bigint")),
            ("{c.attempts}", self.read(Field::Attempts, "::bigint", note)),
            ("{c.created}", self.time(Field::CreatedAt).unwrap_or_else(|| "NULL::timestamptz".to_owned())),
            ("{c.rank}", self.rank()),
            ("{c.payload}", self.quoted(Field::Payload)),
            ("{c.id_type}", self.id_type().to_owned()),
            ("{c.id}", self.quoted(Field::Id)),
        ]
    }

    fn quoted(&self, field: Field) -> String {
        self.column(field).map_or_else(|| "NULL".to_owned(), ToString::to_string)
    }

    fn read(&self, field: Field, cast: &str, otherwise: &str) -> String {
        self.column(field).map_or_else(|| otherwise.to_owned(), |column| format!("t.{column}{cast}"))
    }

    /// The key, else the aggregate.
    fn key(&self) -> String {
        let about = match (self.column(Field::AggregateType), self.column(Field::AggregateId)) {
            (Some(kind), Some(id)) => format!("t.{kind}::text || '/' || t.{id}::text"),
            _ => "NULL::text".to_owned(),
        };
        match self.column(Field::Key) {
            Some(key) => format!("coalesce(t.{key}::text, {about})"),
            None => about,
        }
    }

    /// A column with a time, as one with a zone.
    fn time(&self, field: Field) -> Option<String> {
        let column = self.column(field)?;
        Some(match is_without_zone(self.type_of(field)) {
            true => format!("(t.{column} AT TIME ZONE 'UTC')"),
            false => format!("t.{column}"),
        })
    }

    /// A type that the id can be compared with on its index.
    fn id_type(&self) -> &'static str {
        let found = self.type_of(Field::Id);
        match Family::of(found) {
            Some(Family::Number) => "bigint",
            Some(Family::Uuid) => "uuid",
            _ if found.starts_with("character(") => "bpchar",
            _ => "text",
        }
    }

    /// The order of rows. Rows of one transaction have one creation; numbers tell their order, and where there are none
    /// `cmin` does.
    fn order(&self) -> String {
        let is_number = Family::of(self.type_of(Field::Id)) == Some(Family::Number);
        let by = self.column(Field::Order).or_else(|| self.column(Field::CreatedAt));
        match by {
            Some(column) if is_number => format!("t.{column}, t.{{c.id}}"),
            Some(column) => format!("t.{column}, t.cmin::text::bigint, t.{{c.id}}"),
            None => "t.{c.id}".to_owned(),
        }
    }

    /// The place in that order as a time.
    fn rank(&self) -> String {
        let rank = match (self.column(Field::Order), Family::of(self.type_of(Field::Order))) {
            (Some(number), Some(Family::Number)) => Some(format!(
                // In two parts: an interval is multiplied in floating point.
                "timestamptz 'epoch' + (t.{number} / 1000000) * interval '1 second'
                                     + (t.{number} % 1000000) * interval '1 microsecond'"
            )),
            (Some(_), _) => self.time(Field::Order),
            _ => self.time(Field::CreatedAt),
        };
        rank.map_or_else(
            || "timestamptz 'epoch'".to_owned(),
            |rank| format!("coalesce({rank}, timestamptz 'epoch')"),
        )
    }

    /// `column = word`, to set or to ask.
    fn has_state(&self, word: &StateWord) -> String {
        format!("{} = {word}", self.quoted(Field::Status))
    }

    /// Rows of a parameter were delivered.
    fn done(&self, ids: &str) -> String {
        let rows = format!("fence, unnest((SELECT {ids}::text[])) AS c (id)");
        let row = "t.{c.id} = c.id::{c.id_type}";
        let mut sets = Vec::new();
        if let (Delivered::Status, Some(states)) = (self.delivered(), &self.states) {
            sets.push(self.has_state(&states.done));
        }
        if let Some(time) = self.column(Field::DeliveredAt) {
            let zone =
                if is_without_zone(self.type_of(Field::DeliveredAt)) { " AT TIME ZONE 'UTC'" } else { "" };
            sets.push(format!("{time} = clock_timestamp(){zone}"));
        }
        let sets = sets.join(", ");
        match self.delivered() {
            Delivered::Status | Delivered::Time => format!(
                "UPDATE {{table}} AS t SET {sets} FROM {rows} WHERE {row} AND NOT ({{c.is_done}})
                 RETURNING c.id"
            ),
            Delivered::Deleted => {
                format!("DELETE FROM {{table}} AS t USING {rows} WHERE {row} RETURNING c.id")
            }
            Delivered::Noted => format!(
                "INSERT INTO {{schema}}.row_done (row_id)
                 SELECT c.id FROM {rows} JOIN {{table}} AS t ON {row}
                 ON CONFLICT (row_id) DO NOTHING
                 RETURNING row_id"
            ),
        }
    }

    /// Rows of a parameter were tried once more; those that are given up have a state for it or not.
    fn counted(&self, ids: &str, attempts: &str, state: Option<String>) -> String {
        let rows = format!(
            "fence, unnest((SELECT {ids}::text[]), (SELECT {attempts}::bigint[])) AS c (id, attempts)"
        );
        // The number fits the column: it is at most the limit, or the largest number there is a column for.
        let count = self.column(Field::Attempts).map(|column| format!("{column} = least(c.attempts, 32767)"));
        let sets: Vec<String> = count.into_iter().chain(state).collect();
        if sets.is_empty() {
            return format!("SELECT c.id FROM {rows}");
        }
        format!(
            "UPDATE {{table}} AS t SET {} FROM {rows}
             WHERE t.{{c.id}} = c.id::{{c.id_type}} AND NOT ({{c.is_done}})
             RETURNING c.id",
            sets.join(", ")
        )
    }

    /// What is delivered and old goes. Without any time in the table, nothing does.
    fn trim(&self) -> String {
        let time = self.time(Field::DeliveredAt).or_else(|| self.time(Field::CreatedAt));
        match (self.delivered(), time) {
            (Delivered::Noted, _) => format!(
                "WITH old AS (
                     SELECT d.row_id
                     FROM {{schema}}.row_done AS d
                     WHERE d.done_at < {CUTOFF}
                     ORDER BY d.done_at
                     LIMIT $2
                     FOR UPDATE SKIP LOCKED
                 ), gone AS (
                     DELETE FROM {{table}} AS t USING old WHERE t.{{c.id}} = old.row_id::{{c.id_type}}
                 )
                 DELETE FROM {{schema}}.row_done AS d USING old WHERE d.row_id = old.row_id"
            ),
            (Delivered::Status | Delivered::Time, Some(time)) => format!(
                "DELETE FROM {{table}}
                 WHERE {{c.id}} IN (SELECT t.{{c.id}}
                                    FROM {{table}} AS t
                                    WHERE {{c.is_done}} AND {time} < {CUTOFF}
                                    ORDER BY {time}
                                    LIMIT $2
                                    FOR UPDATE SKIP LOCKED)"
            ),
            (Delivered::Deleted, _) | (_, None) => "SELECT 1 WHERE false".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_unsaid_in_a_statement() {
        let map = ColumnMap::debezium();
        for name in [
            "{c.done 7}",
            "{c.retried}",
            "{c.ended}",
            "{c.trim}",
            "{c.order}",
            "{c.is_not_given_up}",
            "{c.key}",
        ] {
            let text = map.put_into_postgres(name);
            assert!(!text.contains("{c."), "{text}");
        }
    }
}
