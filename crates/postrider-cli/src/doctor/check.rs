//! Every check there is.

use std::fmt;

macro_rules! checks {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal, $fix:literal;)+) => {
        /// A check. Its code never changes its meaning and is never reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Check { $($(#[doc = $doc])+ $name,)+ }

        impl Check {
            /// All, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The number in `PD-0000`.
            pub const fn number(self) -> u16 { match self { $(Self::$name => $number),+ } }

            /// Its name in words, such as `sink reachable`.
            pub fn name(self) -> String { match self { $(Self::$name => words(stringify!($name))),+ } }

            /// What it checks, and why that matters.
            pub fn meaning(self) -> &'static str { match self { $(Self::$name => concat!($($doc),+).trim_ascii()),+ } }

            /// What to do if the check fails.
            pub const fn fix(self) -> &'static str { match self { $(Self::$name => $fix),+ } }
        }
    };
}

checks! {
    /// Every sink is writable: the folder of a file exists and is writable, a broker accepts connections, and a Kafka broker knows the topic of the sink.
    SinkReachable = 1, "see the finding: a file needs a writable folder, a broker or endpoint must accept connections, and the topic must exist";
    /// Every subscription in the configuration exists in the database; a relay creates it when it starts.
    SubscriptionCreated = 2, "start a relay with this configuration";
    /// Every subscription in the database is also in the configuration. A subscription without a relay falls behind.
    SubscriptionConfigured = 3, "if it is a handler of a program, nothing: start that program; otherwise add it to the configuration of a relay, or remove it if it is not needed";
    /// No subscription of the configuration has the name of a handler that a program registered. Its sink would take the handler's events, so a relay refuses to start.
    SubscriptionNotHandler = 4, "rename the subscription in the configuration; if the sink shall replace the handler, start the relay with --replace-handlers";
    /// The schema files of a sink exist and can be used.
    SchemasReadable = 5, "correct the file or the key that the finding names; docs/src/schemas.md describes them";
    /// The schema registry of a sink answers and knows the schemas, or would accept them. A relay does not start with a schema that it refuses, and waits while it does not answer.
    SchemasRegistered = 6, "run `postrider schemas check`; check the URL and the login, register the schema, or make it compatible";
    /// The settings of a broker do not lose events that it has acknowledged: it writes to disk or to replicas first, and deletes nothing that was not read.
    SinkDurable = 7, "change the setting that the finding names, or accept the loss that it describes; docs/src/sinks.md lists what each destination promises";
    /// The exchange, queue or stream that the configuration names exists at the destination.
    DestinationExists = 8, "create it at the destination, or correct its name in the configuration; docs/src/sinks.md says which of them a sink can create";

    /// The database exists and is readable.
    Readable = 101, "check address, login and permissions; `postrider migrate up` creates missing tables";
    /// The database is writable: a relay records its progress there.
    Writable = 102, "grant write access to the file and to its folder";
    /// The tables exist and have the schema version that this program needs.
    SchemaCurrent = 103, "older or missing schema: run `postrider migrate up`; newer schema: upgrade this program; dropped or altered table: restore it";
    /// SQLite is version 3.37 or later, which the tables need.
    SqliteVersion = 104, "upgrade SQLite";
    /// The file is in WAL mode: without it, relay and writers block each other.
    SqliteJournal = 105, "run `postrider migrate up`, or `PRAGMA journal_mode = WAL` while nothing else uses the file";
    /// The relay's own commits survive a power failure. The durability of the events depends on the settings of their writers.
    SqliteSynchronous = 106, "in the application, set `PRAGMA synchronous = FULL` on connections that write events";
    /// The WAL is small. A large WAL means that a long-running reader prevents checkpoints.
    SqliteWal = 107, "find the connection with a long-running transaction, and end the transaction";
    /// There is free disk space. A full disk stops writers and relay.
    DiskSpace = 108, "free disk space";
    /// The file is not corrupt. Only with `--deep`.
    NotCorrupt = 109, "restore a backup, then run `postrider status`: subscriptions halt when the history changed";

    /// The server is PostgreSQL 14 or later, and a primary.
    PostgresVersion = 121, "upgrade the server, or connect to the primary";
    /// The connection is encrypted, or does not leave this machine.
    PostgresEncrypted = 122, "remove sslmode=disable from the URL; docs/src/postgres.md explains certificates";
    /// The database user has the privileges a relay needs.
    PostgresPrivileges = 123, "grant the user the role that `postrider migrate roles` creates";
    /// The database user has only the privileges a relay needs: it is not a superuser, not the owner, and cannot write events.
    PostgresExcessPrivileges = 124, "use a database user that has only the relay role; `postrider migrate roles` creates it";
    /// Only the owner of the table can change events or choose their tx and position. Order and completeness depend on both.
    PostgresWriters = 125, "revoke these privileges; a writer needs only INSERT, see `postrider migrate roles`";
    /// The clocks of the server and of this machine differ by less than a minute.
    PostgresClock = 126, "synchronise both clocks, preferably with NTP";
    /// No transaction is open for a long time. A transaction that wrote events delays only those events, but every open transaction blocks the server's clean-up.
    PostgresTransactions = 127, "check the application behind the backend that the finding names; `SELECT pg_terminate_backend(pid)` ends its transaction; the setting idle_in_transaction_session_timeout ends such transactions automatically";
    /// There is no old prepared transaction. It holds its locks permanently, even across a restart.
    PostgresPrepared = 128, "run COMMIT PREPARED or ROLLBACK PREPARED, whichever its application intended";
    /// The tables are vacuumed: dead rows slow down every query.
    PostgresBloat = 129, "check that autovacuum is on and not blocked by a long-running transaction; run VACUUM on the table";
    /// A confirmed commit survives a crash of the server. Otherwise an event could be delivered and then lost by the database.
    PostgresDurable = 130, "set fsync and full_page_writes to on, and synchronous_commit to on for connections that write events";
    /// The connection goes directly to the server. A pooler in transaction mode also works: statements are
    /// then planned at every use, and the writers' notifications do not arrive.
    PostgresPooler = 131, "if the pooler is intended, set pooler = \"transaction\" and listen = false; otherwise connect directly to the server";

    /// The table with a state per row matches its layout. Differences are reported; the table is not modified.
    LayoutTable = 132, "create the column or index that the finding names, if you need it; a relay works without the indexes, but more slowly";
    /// Every consumer group can process every event. A unique key of `processed_events` without the group's name blocks every group except the first.
    LayoutInbox = 133, "change the key of processed_events to (consumer_group, event_id), or use the table for one consumer group only";
    /// No row of `outbox_events` is claimed by another publisher. This layout has no lease: a publisher that crashes leaves its rows PUBLISHING permanently.
    LayoutClaims = 134, "if its publisher no longer runs, set foreign_claim_timeout on the outbox, or set the rows back to PENDING";
    /// No row-level security policy hides rows of the outbox from this user. Hidden events would be treated as rolled back.
    PostgresRowSecurity = 135, "run ALTER TABLE ... DISABLE ROW LEVEL SECURITY on the table that the finding names, or grant the user BYPASSRLS";
    /// The encoding of the database is UTF-8. In another encoding a single row could make all others unreadable.
    PostgresEncoding = 136, "use a database created with ENCODING 'UTF8' for the outbox";
    /// The table `events` assigns positions as the migrations define it: one by one, after the transaction id, without child tables.
    PostgresPositions = 137, "undo the change that the finding names; if the sequence had a CACHE, also close the connections that wrote in the meantime";
    /// The sequence has not assigned a position twice: it is at or above every position that a subscription has seen.
    PostgresSequence = 138, "set the sequence above every position that the finding names (setval), then run `postrider accept-history NAME --from position:FIRST` with the first of the later events";

    /// An outbox of layout `eventlog` has the tables and the index that handlers need. Without them events are written, but not fanned out, or the fan-out reads the whole table.
    LayoutHandlers = 139, "run `postrider migrate up --with handlers`; not needed if only another program reads the events";
    /// Every open notification of layout `eventlog` belongs to a handler that is registered here. Others belong to another program: Postrider does not change them.
    LayoutOtherHandlers = 140, "check that the program that serves the handler runs; if it is an old name of a subscription, add it to its `aliases`";

    /// The server is MySQL 8.0.16 or MariaDB 10.6 or later, is the only primary, and reports which sessions use the outbox.
    MySqlServer = 141, "change the setting that the finding names, or connect to the primary; docs/src/mysql.md lists what is needed";
    /// The connection is encrypted, or does not leave this machine.
    MySqlEncrypted = 142, "remove ssl-mode=disabled from the URL";
    /// The database user has the privileges a relay needs.
    MySqlPrivileges = 143, "grant the user the role that `postrider migrate roles` creates";
    /// The database user has only the privileges a relay needs.
    MySqlExcessPrivileges = 144, "use a database user that has only the relay role; `postrider migrate roles` creates it";
    /// The clocks of the server and of this machine differ by less than a minute.
    MySqlClock = 146, "synchronise both clocks, preferably with NTP";
    /// No transaction is open for a long time. A transaction that wrote events delays only those events, but every open transaction blocks the server's clean-up.
    MySqlTransactions = 147, "check the application behind the connection that the finding names, and end its transaction";
    /// There is no old prepared transaction. It holds its locks permanently, even across a restart.
    MySqlPrepared = 148, "run XA COMMIT or XA ROLLBACK, whichever its application intended";
    /// A confirmed commit survives a crash of the server. Otherwise an event could be delivered and then lost by the database.
    MySqlDurable = 150, "set innodb_flush_log_at_trx_commit = 1, sync_binlog = 1 and innodb_doublewrite = ON";

    /// Which events retention deletes, and after how long. In a table with a state per row it deletes nothing unless `retention` is set, and then only rows that Postrider delivered unless `retention_scope = "all"`.
    RetentionDeletes = 151, "nothing, if this is intended; otherwise set `retention = \"forever\"`";
    /// No notification is open under an alias, the earlier name of a handler. Until then the alias must stay in the configuration.
    LayoutAliases = 152, "keep the alias until none is open, then remove it from `aliases`";
    /// A relay serves every handler of layout `eventlog` that is registered and has open notifications.
    LayoutServed = 153, "start the program that registered the handler; if it no longer exists, ask its owners what happens to its notifications";
    /// No event is at a position that a subscription has already settled as empty. Any user with INSERT can choose a position (`SET insert_id`); such an event was not delivered.
    MySqlChosenPositions = 160, "find the writer that sets positions; a running relay parks such rows as dead: set their state in `parked` to 'retry' to deliver them";
    /// There are free positions. A writer can exhaust them by choosing a position near the maximum; after that no event can be written.
    MySqlFreePositions = 161, "delete the row with the highest position, run ALTER TABLE events AUTO_INCREMENT = 1 (the server then uses the next free value), then run `postrider accept-history`";
    /// There is no trigger on the tables of the outbox: it would run inside the relay's transactions and could break a guarantee.
    MySqlTriggers = 162, "drop the trigger, or verify what it does";
    /// There is no trigger on the tables of the outbox: it would run inside the relay's transactions and could break a guarantee.
    SqliteTriggers = 163, "drop the trigger, or verify what it does";
    /// Expired rows of the inbox are deleted. A relay does it every minute; where none runs, the table grows.
    InboxCleaned = 164, "start a relay on this database, or run `postrider inbox clean` daily; see `inbox_retention` for how long rows are kept";
    /// The table of the inbox has its key `(consumer_group, event_id)`. Without it, an event that arrives twice has its effect twice.
    InboxKey = 165, "find and remove duplicate rows, then create the primary key (consumer_group, event_id) again";

    /// The clock is not behind the events: event times in the future make ages and expiry wrong.
    ClockEvents = 201, "synchronise the clocks of this machine and of the writers, preferably with NTP";
    /// No lease expires later than its maximum duration allows. If one does, the clock was set back, and a crashed relay is replaced late.
    ClockLeases = 202, "correct the clock, preferably with NTP; the lease expires at the time shown";
    /// A relay serves the subscription, or no event waits for delivery.
    Served = 203, "start a relay with this configuration";
    /// The last relay shut down cleanly. Otherwise it crashed, and another relay continues when its lease expires.
    ShutDownCleanly = 204, "see the log of the relay that held the lease; start another relay if none runs";
    /// The subscription is not paused.
    NotPaused = 205, "run `postrider resume NAME` when the reason is resolved";
    /// The subscription is not halted. It halts when the history of the database changes; then nothing is delivered.
    NotHalted = 206, "compare the database with the consumers, then run `postrider accept-history NAME --from floor` if the reason suggests it (it may repeat events and skips none), otherwise --from position:N";
    /// The number of parked events is below the limit. At the limit the subscription reads no new events.
    ParkedBelowLimit = 207, "see the last error in `postrider status` and fix its cause, or raise parked_max";
    /// No event is dead or unrouted.
    NoneGivenUp = 208, "see the last error in `postrider status` and fix its cause; unrouted events are delivered when a rule matches them, dead events stay parked";
    /// No subscription is far behind all others: events that it still needs cannot be deleted.
    NoneFarBehind = 209, "serve it with a relay, or remove it";
    /// Every webhook endpoint accepts connections from this machine: its name resolves, every address passes the address guard, TCP connects, and for https TLS verifies the certificate. No request is sent, so token, path and signature are not checked.
    EndpointReachable = 210, "check the host and port of `url`, the network between, and the certificate (`ca_file`); `allow_networks` lets a private network through";
    /// All relays of a subscription have the settings of this configuration, and the version of this program. Otherwise the next takeover changes limits, routing or destination.
    SameSettings = 211, "give all relays the same configuration and version, and restart those that differ; secrets are not compared";
    /// The relay that serves the subscription considers no destination down.
    DestinationUp = 220, "repair the destination or the network path to it; no event is lost in the meantime, and the relay retries by itself";
}

impl Check {
    /// The runbook in `docs/src/runbooks` for a finding, without its ending.
    pub const fn runbook(self) -> &'static str {
        use Check::*;
        match self {
            SinkReachable | SinkDurable | DestinationExists | EndpointReachable | DestinationUp => {
                "destination-down"
            }
            Served | SubscriptionCreated | LayoutServed => "no-relay",
            ShutDownCleanly => "takeovers-often",
            NotPaused => "paused-for-long",
            NotHalted | NotCorrupt | PostgresSequence => "halted",
            ParkedBelowLimit => "parking-nearly-full",
            NoneGivenUp => "dead-events",
            NoneFarBehind => "retention-behind",
            PostgresTransactions | PostgresPrepared | MySqlTransactions | MySqlPrepared => {
                "open-transaction-old"
            }
            SchemasReadable
            | SchemasRegistered
            | SubscriptionConfigured
            | SubscriptionNotHandler
            | SameSettings => "configuration",
            Readable | Writable | PostgresVersion | PostgresPooler | MySqlServer | SqliteVersion => {
                "database-unreachable"
            }
            SqliteJournal | SqliteSynchronous | PostgresDurable | MySqlDurable | PostgresEncrypted
            | MySqlEncrypted | PostgresEncoding => "database-settings",
            SqliteWal | DiskSpace | PostgresBloat | RetentionDeletes => "table-growing",
            PostgresPrivileges
            | PostgresExcessPrivileges
            | PostgresWriters
            | PostgresRowSecurity
            | MySqlPrivileges
            | MySqlExcessPrivileges => "privileges",
            SchemaCurrent | PostgresPositions | MySqlChosenPositions | MySqlFreePositions | MySqlTriggers
            | SqliteTriggers => "schema",
            LayoutTable | LayoutClaims | LayoutHandlers | LayoutOtherHandlers | LayoutAliases => "layout",
            LayoutInbox | InboxCleaned | InboxKey => "inbox",
            PostgresClock | MySqlClock | ClockEvents | ClockLeases => "clocks",
        }
    }
}

/// `SinkReachable` as `sink reachable`. The names of databases stay whole.
fn words(name: &str) -> String {
    let name = name.replace("MySql", "Mysql");
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PD-{:04}", self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_has_a_name_in_words() {
        assert_eq!(Check::SinkReachable.name(), "sink reachable");
        assert_eq!(Check::MySqlServer.name(), "mysql server");
    }

    #[test]
    fn codes_are_unique_and_in_order() {
        assert!(Check::ALL.windows(2).all(|pair| pair[0].number() < pair[1].number()));
    }
}
