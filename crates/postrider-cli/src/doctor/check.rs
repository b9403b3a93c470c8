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

            /// What it looks at, and why that matters.
            pub fn meaning(self) -> &'static str { match self { $(Self::$name => concat!($($doc),+).trim_ascii()),+ } }

            /// What to do if it is not as it should be.
            pub const fn fix(self) -> &'static str { match self { $(Self::$name => $fix),+ } }
        }
    };
}

checks! {
    /// Every sink can be written to: the folder of a file exists and takes files, a Kafka broker takes connections.
    SinkReachable = 1, "see what was found: a file needs a folder that can be written, a broker or an endpoint must take connections";
    /// Every subscription of the configuration is in the database; a relay creates it at its start.
    SubscriptionCreated = 2, "start a relay with this configuration";
    /// Every subscription of the database is in the configuration. One that nobody serves falls behind.
    SubscriptionConfigured = 3, "add it to the configuration of a relay, or remove it if nobody needs it";

    /// The database is there and can be read.
    Readable = 101, "check address, login and permissions; `postrider migrate up` creates what is missing";
    /// The database can be written to: a relay settles there.
    Writable = 102, "give write access to the file and to its folder";
    /// The tables are there, of the version this program knows.
    SchemaCurrent = 103, "older or missing schema: run `postrider migrate up`; newer schema: update this program; a table that was dropped or altered: restore it";
    /// SQLite is new enough for the tables, 3.37 or later.
    SqliteVersion = 104, "update SQLite";
    /// The file is in WAL mode: without it relay and writers wait for each other.
    SqliteJournal = 105, "run `postrider migrate up`, or `PRAGMA journal_mode = WAL` while nothing else uses the file";
    /// The relay's own commits survive a power failure. How durable the events are, their writers decide.
    SqliteSynchronous = 106, "in the application, set `PRAGMA synchronous = FULL` on connections that write events";
    /// The WAL is small. A large one means that some reader has kept it from being emptied for long.
    SqliteWal = 107, "look for a connection with a long transaction, and end it";
    /// There is room on the disk. A full disk stops writers and relay alike.
    DiskSpace = 108, "make room on the disk";
    /// The file is not damaged. Only with `--deep`.
    Undamaged = 109, "restore a backup, then see `postrider status`: a changed history halts the subscriptions";

    /// The server is PostgreSQL 14 or later, and a primary.
    PostgresVersion = 121, "update the server, or connect to the primary";
    /// The connection is encrypted, or does not leave this machine.
    PostgresEncrypted = 122, "take sslmode=disable out of the URL; docs/src/postgres.md tells about certificates";
    /// This user may do what a relay does.
    PostgresRights = 123, "grant the user the role made by `postrider migrate roles`";
    /// This user may do no more than a relay does: neither superuser, nor owner, nor writer of events.
    PostgresExcess = 124, "log in as a user with the relay role alone; `postrider migrate roles` makes it";
    /// Nobody but the owner may change events, or choose their tx and position. Order and completeness rest on both.
    PostgresWriters = 125, "take those rights back; a writer needs INSERT alone, see `postrider migrate roles`";
    /// The clock of the server is that of this machine, within a minute.
    PostgresClock = 126, "set both clocks, best by NTP";
    /// No transaction is open for long. One that has written events delays only these, but any keeps the server from cleaning up.
    PostgresTransactions = 127, "look at the application behind the backend that is named; `SELECT pg_terminate_backend(pid)` ends its transaction, idle_in_transaction_session_timeout ends such transactions by itself";
    /// No prepared transaction was left behind. It holds its locks for ever, even over a restart.
    PostgresPrepared = 128, "COMMIT PREPARED or ROLLBACK PREPARED it, as its application meant";
    /// The tables are cleaned up: dead rows make every look slower.
    PostgresBloat = 129, "see that autovacuum is on and not kept from its work by a long transaction; VACUUM the table";
    /// A commit that was confirmed survives a crash of the server. Otherwise an event may be delivered that the database then loses.
    PostgresDurable = 130, "set fsync and full_page_writes to on, and synchronous_commit to on where events are written";
    /// The connection leads to the server itself. A transaction pooler works, too: statements are then planned at
    /// every use, and notifications of writers are not heard.
    PostgresPooler = 131, "nothing, if it is meant: set pooler = \"transaction\" and listen = false; or connect to the server itself";

    /// The table with a state per row is as its layout has it. What differs is told and never altered.
    LayoutTable = 132, "make the column or index that is named, if it is missed; a relay works without the indexes, only slower";
    /// Every consumer group can process every event. A unique key of `processed_events` without the group's name, as in seed 003, lets the first group keep all others out.
    LayoutInbox = 133, "make the key of processed_events (consumer_group, event_id), or use it for one group only";
    /// No row of `outbox_events` is in the hands of somebody else. Seed 004 has no lease: a publisher that dies leaves its rows PUBLISHING for ever.
    LayoutClaims = 134, "if its publisher is dead, set foreign_claim_timeout on the outbox, or the rows back to PENDING";
    /// No policy of row-level security hides rows of the outbox from this user. Hidden events would count as rolled back.
    PostgresRowSecurity = 135, "ALTER TABLE ... DISABLE ROW LEVEL SECURITY on the table that is named, or give the user BYPASSRLS";
    /// The database holds its texts in UTF-8. In another encoding one row could keep all others from being read.
    PostgresEncoding = 136, "put the outbox into a database made with ENCODING 'UTF8'";
    /// The table `events` gives positions as the migrations have it: one by one, after the transaction's number, without child tables.
    PostgresShape = 137, "undo the change that is named; after a CACHE of the sequence also end the connections that wrote meanwhile";
    /// The sequence has given no position twice: it is at or above every position that a subscription has seen.
    PostgresSequence = 138, "set the sequence above every position that is named (setval), then `postrider accept-history NAME --from position:FIRST` with the first of the later events";

    /// The server is MySQL 8.0.16 or MariaDB 10.6 or later, a primary that writes alone, and tells who has the outbox open.
    MySqlServer = 141, "change the setting that the finding names, or connect to the primary; docs/src/mysql.md lists what is needed";
    /// The connection is encrypted, or does not leave this machine.
    MySqlEncrypted = 142, "take ssl-mode=disabled out of the URL";
    /// This user may do what a relay does.
    MySqlRights = 143, "grant the user the role made by `postrider migrate roles`";
    /// This user may do no more than a relay does.
    MySqlExcess = 144, "log in as a user with the relay role alone; `postrider migrate roles` makes it";
    /// The clock of the server is that of this machine, within a minute.
    MySqlClock = 146, "set both clocks, best by NTP";
    /// No transaction is open for long. One that has written events delays only these, but any keeps the server from cleaning up.
    MySqlTransactions = 147, "look at the application behind the connection that is named, and end its transaction";
    /// No prepared transaction was left behind. It holds its locks for ever, even over a restart.
    MySqlPrepared = 148, "XA COMMIT or XA ROLLBACK it, as its application meant";
    /// A commit that was confirmed survives a crash of the server. Otherwise an event may be delivered that the database then loses.
    MySqlDurable = 150, "set innodb_flush_log_at_trx_commit = 1, sync_binlog = 1 and innodb_doublewrite = ON";

    /// What retention deletes, and after how long. In a table with a state per row it deletes nothing unless `retention` is set, and then only what Postrider delivered unless `retention_scope = \"all\"`.
    RetentionDeletes = 151, "nothing, if it is meant; else set `retention = \"forever\"`";
    /// No row stands where a subscription has settled that no event is. Whoever may INSERT can choose a position (`SET insert_id`); such an event was not delivered.
    MySqlChosen = 160, "find who writes so; a relay that runs parks such rows as dead: set their state in `parked` to 'retry' to deliver them";
    /// There are positions left. A writer can use them up by choosing one near the end; then nobody can write events.
    MySqlCounter = 161, "delete the row at the end, run ALTER TABLE events AUTO_INCREMENT = 1 (the server takes the next that is free), then accept-history";
    /// No trigger is on the tables of the outbox: it runs with the relay's work, and may change or drop what a promise rests on.
    MySqlTriggers = 162, "drop the trigger, or be sure of what it does";
    /// No trigger is on the tables of the outbox: it runs with the relay's work, and may change or drop what a promise rests on.
    SqliteTriggers = 163, "drop the trigger, or be sure of what it does";

    /// The clock is not behind the events: times in the future make ages and expiry wrong.
    ClockEvents = 201, "set the clocks of this machine and of the writers, best by NTP";
    /// No lease ends later than one can: that shows that the clock was set back, and a dead relay is replaced late.
    ClockLeases = 202, "set the clock right, best by NTP; the lease ends at the time shown";
    /// A relay works the subscription, or nothing waits to be delivered.
    Served = 203, "start a relay with this configuration";
    /// The last relay left in good order. Otherwise it died, and another goes on after the end of its lease.
    LeftInOrder = 204, "see the log of the relay that held the lease; start another if none runs";
    /// The subscription is not paused.
    NotPaused = 205, "`postrider resume NAME` when its reason is gone";
    /// The subscription is not halted. It is when the history of the database changed, and then nothing is delivered.
    NotHalted = 206, "compare the database with the consumers, then `postrider accept-history NAME --from floor` where the reason offers it (it may repeat events and skips none), else --from position:N";
    /// There is room for more parked events. At the limit nothing new is read.
    ParkedRoom = 207, "see the last error in `postrider status` and mend its cause, or raise parked_max";
    /// No event was given up or is without a route.
    NothingGivenUp = 208, "see the last error in `postrider status` and mend its cause; unrouted ones go on when a rule matches them, dead ones stay where they are";
    /// No subscription is far behind all others: what it still needs cannot be cleaned up.
    NobodyFarBehind = 209, "serve it or remove it";
    /// The endpoint of every webhook takes connections from this machine: its name is resolved, every address passes the address guard, TCP connects, and TLS with its certificate for https. No request is sent, so token, path and signature are not tried.
    EndpointReachable = 210, "check the host and port of `url`, the network between, and the certificate (`ca_file`); `allow_networks` lets a private network through";
    /// The relay that serves the subscription takes no destination for down.
    DestinationUp = 220, "mend the destination or the way to it; nothing is lost meanwhile, and the relay tries it again by itself";
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
