//! How transactions begin on one connection.

use super::pooler::{newer_settings, settings_here};
use super::session::Sharing;
use crate::Ident;

/// The statements that begin a transaction, made once per connection.
pub(super) struct Begins {
    /// One statement that writes, on a shared connection.
    pub(super) write: String,
    /// One statement that reads, on a shared connection.
    pub(super) read: String,
    /// A transaction that is held open for its locks.
    pub(super) hold: String,
    /// One snapshot of the events.
    pub(super) events: String,
    /// What is said right after the `BEGIN` of a transaction of several statements: of one that writes, of one that reads.
    pub(super) after: [String; 2],
}

impl Begins {
    /// `events_in` is the schema of the table `events`, where that is the outbox.
    ///
    /// A transaction that has to wait for the lock of a table takes its snapshot before it waits. If the table was rewritten
    /// meanwhile (`ALTER TABLE`, `VACUUM FULL`, `CLUSTER`), that snapshot shows none of its rows, and every event would
    /// look deleted. A lock of its own is waited for without a snapshot; the one that follows shows the table as it is.
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

/// The statement that waits until no process rewrites the events, and keeps others from it until the transaction ends. Readers
/// and writers are not disturbed.
fn lock(schema: &Ident) -> String {
    schema.put_into(LOCK)
}

/// See [`Begins::new`].
pub(super) const LOCK: &str = "LOCK TABLE ONLY {schema}.events IN ACCESS SHARE MODE";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_connection_is_told_everything_and_an_own_one_only_what_is_new() {
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
