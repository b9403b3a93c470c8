//! The statements that begin transactions on one connection.

use super::pooler::{newer_settings, settings_here};
use super::session::Sharing;
use crate::Ident;

/// The statements that begin a transaction, built once per connection.
pub(super) struct Begins {
    /// For one statement that writes, on a pooled connection.
    pub(super) write: String,
    /// For one statement that reads, on a pooled connection.
    pub(super) read: String,
    /// For a transaction that is held open for its locks.
    pub(super) hold: String,
    /// For one snapshot of the events.
    pub(super) events: String,
    /// Sent right after the `BEGIN` of a transaction of several statements: one that writes, one that reads.
    pub(super) after: [String; 2],
}

impl Begins {
    /// `events_in` is the schema of the table `events`, if that is the outbox.
    ///
    /// A query that must wait for the lock of a table takes its snapshot before it waits. If the table is rewritten
    /// meanwhile (`ALTER TABLE`, `VACUUM FULL`, `CLUSTER`), that snapshot shows none of its rows, and every event would
    /// appear deleted. A separate `LOCK TABLE` waits without a snapshot; the snapshot that follows shows the table.
    pub(super) fn new(sharing: Sharing, version: i32, events_in: Option<&Ident>) -> Self {
        let all = format!("{}{}", settings_here!(), newer_settings(version, "SET LOCAL"));
        let settings = if sharing == Sharing::Own { "" } else { all.as_str() };
        let lock = events_in.map(lock).unwrap_or_default();
        let begin = |how: &str, more: &[&str]| {
            let mut parts = vec![format!("BEGIN ISOLATION LEVEL {how}")];
            parts.extend(more.iter().filter(|part| !part.is_empty()).map(|part| (*part).to_owned()));
            parts.join("; ")
        };
        let (writes, reads) = ("READ COMMITTED, READ WRITE", "REPEATABLE READ, READ ONLY");
        Self {
            write: begin(writes, &[settings]),
            read: begin(reads, &[settings]),
            hold: begin(writes, &[&all, "SET LOCAL idle_in_transaction_session_timeout = '60s'"]),
            events: begin(reads, &[settings, &lock]),
            after: [settings.to_owned(), format!("{settings}; {lock}").trim_matches([';', ' ']).to_owned()],
        }
    }
}

/// The statement that waits until no process rewrites the table, and prevents rewrites until the transaction ends. It
/// does not conflict with readers and writers.
fn lock(schema: &Ident) -> String {
    schema.put_into(LOCK)
}

/// See [`Begins::new`].
pub(super) const LOCK: &str = "LOCK TABLE ONLY {schema}.events IN ACCESS SHARE MODE";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pooled_connection_gets_all_settings_per_transaction_and_a_private_one_gets_none() {
        let schema = Ident::new("shop").unwrap();
        let own = Begins::new(Sharing::Own, 150_000, Some(&schema));
        assert_eq!(own.read, "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY");
        assert!(own.events.ends_with("READ ONLY; LOCK TABLE ONLY \"shop\".events IN ACCESS SHARE MODE"));
        assert_eq!(own.after[0], "");
        assert!(own.after[1].starts_with("LOCK"), "{}", own.after[1]);
        let pooled = Begins::new(Sharing::Pooled, 180_000, None);
        for text in
            [&pooled.write, &pooled.read, &pooled.hold, &pooled.events, &pooled.after[0], &pooled.after[1]]
        {
            assert!(
                text.contains("search_path = pg_catalog") && text.contains("transaction_timeout = 0"),
                "{text}"
            );
            assert!(!text.contains("LOCK TABLE"), "{text}");
        }
    }
}
