//! Every error code: its number, what it means for the data, what to do, and what the relay does about it.

use std::fmt;

/// How the relay reacts to a database error. [`Code::recovery`] is the only place that decides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// Nothing happened; the call can be retried as it is.
    Retry,
    /// The outcome is unknown, or the connection is lost: drop the state of the lease and load it again.
    Reload,
    /// An operator has to change something first.
    Operator,
}

impl Recovery {
    /// What a running relay does, for documentation.
    #[doc(hidden)]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Retry => "retries by itself",
            Self::Reload => "reloads its progress and continues by itself",
            Self::Operator => "waits until an operator has changed something",
        }
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal, $recovery:ident, $effect:literal, $hint:literal;)+) => {
        /// Every error code there is. A code never changes its meaning and is never reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code { $($(#[doc = $doc])+ $name,)+ }

        impl Code {
            /// All codes, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The number in `PR-0000`.
            pub const fn number(self) -> u16 { match self { $(Self::$name => $number),+ } }

            /// What the code means, in one or more sentences.
            pub const fn meaning(self) -> &'static str { match self { $(Self::$name => concat!($($doc),+)),+ } }

            /// What it means for the data.
            pub const fn effect(self) -> &'static str { match self { $(Self::$name => $effect),+ } }

            /// What to do next.
            pub const fn hint(self) -> &'static str { match self { $(Self::$name => $hint),+ } }

            /// What the relay does about it.
            pub const fn recovery(self) -> Recovery { match self { $(Self::$name => Recovery::$recovery),+ } }
        }
    };
}

impl Code {
    /// Whether the same call may succeed later, without a change of the program's settings.
    pub fn may_recover_by_itself(self) -> bool {
        self.recovery() != Recovery::Operator || self == Self::StoreReadOnly
    }
}

codes! {
    /// The event has no type.
    TypeEmpty = 101, Operator, "nothing was written; the transaction is unchanged and still usable", "give the event a type such as \"order.placed\"";
    /// A text field of the event is longer than its limit.
    TextTooLong = 102, Operator, "nothing was written; the transaction is unchanged and still usable", "shorten it, or raise the limit in `Limits`";
    /// A text field of the event contains a control character.
    ControlCharacter = 103, Operator, "nothing was written; the transaction is unchanged and still usable", "remove the character; free text belongs in the payload";
    /// A header has no name, or a name that is not a token (letters, digits and `-_.`).
    HeaderName = 104, Operator, "nothing was written; the transaction is unchanged and still usable", "name the header with letters, digits, '-', '_' and '.'";
    /// The event has more headers than allowed.
    TooManyHeaders = 105, Operator, "nothing was written; the transaction is unchanged and still usable", "move the data into the payload";
    /// The payload is larger than the limit.
    PayloadTooLarge = 106, Operator, "nothing was written; the transaction is unchanged and still usable", "store the large part elsewhere and send a reference to it, or raise the limit in `Limits`";
    /// More events in one call than allowed.
    TooManyEvents = 107, Operator, "nothing was written; the transaction is unchanged and still usable", "write them in several calls; they may share one transaction";
    /// Two events in one call have the same id.
    DuplicateId = 108, Operator, "nothing was written; the transaction is unchanged and still usable", "give each event a different id, or omit it: the writer then generates one";
    /// A key, aggregate type or aggregate id is an empty text.
    TextEmpty = 109, Operator, "nothing was written; the transaction is unchanged and still usable", "omit it instead of passing an empty text";
    /// The payload could not be serialised.
    PayloadSerialise = 110, Operator, "nothing was written; the transaction is unchanged and still usable", "fix the Serialize implementation of the event's type";
    /// `max_attempts` is zero, or a time is outside what the database can hold.
    NumberOutOfRange = 111, Operator, "nothing was written; the transaction is unchanged and still usable", "use a number within the range, or omit it";
    /// The parameters of an action are not valid JSON.
    ParamsInvalid = 112, Operator, "nothing was written; the transaction is unchanged and still usable", "pass the parameters as JSON text; use \"{}\" if there are none";
    /// A header's name starts with `postrider-`, which is reserved for the relay.
    HeaderReserved = 113, Operator, "nothing was written; the transaction is unchanged and still usable", "rename the header";
    /// A trace context does not follow the W3C Trace Context format.
    TraceInvalid = 114, Operator, "nothing was written; the event has no trace", "pass the value that your tracing library's W3C propagator produces";
    /// An input line or field is not a valid event: not JSON, an unknown field, or a field of the wrong type.
    EventUnreadable = 115, Operator, "its batch was not written; earlier batches were", "correct it; `postrider write --help` lists the fields";
    /// There was no event to read: the input is empty, or the file is not readable.
    InputMissing = 116, Operator, "nothing was written", "pass an event with flags, or one event per line on standard input";
    /// The event does not fit the columns of the outbox layout.
    LayoutUnfit = 120, Operator, "nothing was written; the transaction is unchanged and still usable", "change the field the message names, or use the layout `postrider`, which can hold every event";

    /// No transaction is open on the connection: the inbox row would be committed before its effect.
    TransactionMissing = 121, Operator, "nothing was written", "begin a transaction, and pass it instead of the connection";

    /// The database has no Postrider tables, or their schema version is older than this program needs.
    SchemaMissing = 201, Operator, "nothing was read or changed", "run the migrations: `postrider migrate up`, or the store's `migrate`";
    /// The database was migrated by a newer version of Postrider.
    SchemaNewer = 202, Operator, "nothing was read or changed", "upgrade this program";
    /// A row in Postrider's tables is not valid.
    RowDamaged = 203, Operator, "the row was left as it is", "inspect the row; it was not written by Postrider, or it was changed afterwards";
    /// The name of a table, subscription, relay or consumer group is not valid.
    NameInvalid = 204, Operator, "nothing was read or changed", "use letters, digits, '_', '-' and '.', starting with a letter";
    /// Postrider's tables differ from what its migrations created, so order or completeness could not be guaranteed.
    SchemaAltered = 205, Operator, "nothing was read or changed", "undo the change that the message names";

    /// The table does not match the configured layout, or Postrider's own tables belong to another outbox.
    LayoutDiffers = 220, Operator, "nothing was read or changed", "configure the layout that the table has, or change what the message names; Postrider does not alter your tables";

    /// The database is busy or locked.
    StoreBusy = 301, Retry, "nothing was changed", "the call is retried; if the error persists, look for a long-running transaction";
    /// The database is unreachable or returned an error.
    StoreFailed = 302, Reload, "work that was not confirmed is repeated after the relay has reloaded its progress", "see the database's message above: check that the server is running, the address is right and the file or network is accessible";
    /// The outcome of a commit is unknown.
    OutcomeUnknown = 303, Reload, "the relay reloads its progress before it does anything else", "nothing to do; the number of duplicates stays within its limit";
    /// The database is read-only or its disk is full.
    StoreReadOnly = 304, Operator, "nothing was changed", "free disk space or grant write access; the relay then continues without a restart";
    /// The subscription does not exist.
    SubscriptionUnknown = 305, Operator, "nothing was changed", "check the name; a relay creates its subscriptions when it starts, so restart the relay if the tables were recreated while it ran";
    /// The history of the database changed: it was restored from a backup, failed over to a replica, or its sequence
    /// was reset.
    HistoryChanged = 306, Operator, "the subscription stopped; nothing was skipped", "compare the outbox with what the consumers received, then run `postrider accept-history`";

    /// The database user lacks a privilege that it needs.
    PrivilegeMissing = 307, Operator, "nothing was changed", "grant the privilege that the database's message names";
    /// The server refused the login: wrong user or password, no such database, or the user may not connect from this
    /// host.
    LoginRefused = 308, Operator, "nothing was read or changed", "check user, password and database name, and the server's access rules (pg_hba.conf on PostgreSQL, the host part of the account on MySQL and MariaDB)";
    /// The database server is too old.
    ServerTooOld = 309, Operator, "nothing was read or changed", "upgrade the server";
    /// The connection to the database could not be encrypted, or the server's certificate could not be verified.
    TlsFailed = 311, Operator, "only the TLS request was sent; no password or event left this host", "configure the server's root certificate, or sslmode=disable on a trusted network; see docs/src/postgres.md, section TLS";
    /// A setting of the database server makes it impossible to guarantee that no event is lost.
    ServerUnfit = 312, Operator, "nothing was read or changed", "change the server setting that the message names";
    /// The SQLite file was deleted, or another file took its place, while a relay had it open.
    StoreReplaced = 313, Reload, "nothing more is written to the old file; events in it that were not delivered are only there", "put the right file in place, with `-wal` and `-shm` of the same file or without them; the relay opens it by itself. See docs/src/runbooks/restored-from-backup.md";

    /// Another publisher works on a table that is not configured as shared.
    ForeignPublisher = 320, Operator, "nothing was published; the other publisher's rows were not touched", "stop the other publisher, or set `shared = true` on the outbox";
    /// A table with a state per row supports one subscription only, and it already has one.
    SecondSubscription = 321, Operator, "nothing was changed", "use the existing subscription, or the layout `postrider`, which supports many";
    /// A table with a state per row contains undelivered rows that the configured start would skip.
    StartRefused = 322, Operator, "nothing was changed", "set `start = \"beginning\"`, or mark the old rows as delivered first";

    /// There is no event with this id, position or row id, or not in the state that the command is about.
    EventUnknown = 323, Operator, "nothing was changed", "check the id; `postrider events list` shows the events of the outbox";

    /// The table to adopt contains undelivered events, and no option specifies which of them to move.
    AdoptionStart = 330, Operator, "nothing was changed", "pass --start beginning (move all), --start time:RFC3339 (move events written at or after that time) or --start now (move none)";
    /// A relay or another adoption holds the lease of the subscription.
    LeaseHeld = 331, Operator, "nothing was changed", "stop it, or wait until its lease expires, then run this command again";
    /// Some of the events to adopt do not fit the target layout, or are not readable.
    EventsUnfit = 332, Operator, "nothing was changed", "change what the message names, or deliver those events from the old table first";
    /// Adoption works only between a table with a state per row and the layout `postrider`, in either direction and
    /// within one database.
    AdoptionRefused = 333, Operator, "nothing was changed", "adopt into an outbox with the layout `postrider` in the same database first, then from there";

    /// Row-level security would hide rows of the outbox from this user, and hidden events would be treated as rolled
    /// back.
    RowsHidden = 340, Operator, "nothing was read or changed", "run ALTER TABLE ... DISABLE ROW LEVEL SECURITY on the table that the message names, or grant the user BYPASSRLS";
    /// The encoding of the database is not UTF-8, so a single row could make all others unreadable.
    EncodingUnfit = 341, Operator, "nothing was read or changed", "use a database created with ENCODING 'UTF8' for the outbox";

    /// The retention setting needs a column that the layout does not have.
    RetentionUnfit = 350, Operator, "nothing was read or changed", "use a duration such as \"7d\", or \"forever\"";
    /// No column defines the order of rows with the same key, so order per key cannot be guaranteed.
    OrderUndefined = 351, Operator, "nothing was read or changed", "name a column for `order` or `created_at` in `columns`, or set `order = \"none\"` on the subscription if order does not matter";

    /// The table rejects the update of a row, because of a CHECK constraint, a trigger, or a column that cannot hold
    /// the value.
    RowRefused = 360, Reload, "the row is unchanged; it is parked and not sent again; the other rows were updated", "run `postrider status` to see the row and the reason; then set the row to its delivered state, or delete it";

    /// The table `processed_events` cannot serve this consumer group: its key has no consumer group and another group uses the table, or no unique key recognises a duplicate.
    InboxUnfit = 370, Operator, "nothing was written; the effect did not run", "change the key of processed_events to (consumer_group, event_id), or use the inbox of `postrider migrate up`";

    /// A received message has no event id, or its id is not a UUID.
    EventIdMissing = 371, Operator, "nothing was written; the message was not processed", "check that the message is from a relay; otherwise choose a UUID for it and pass that to the inbox";

    /// Another transaction changed or deleted a row between the read of an action and its write, in every try.
    ActionStale = 380, Operator, "nothing was written; the transaction was rolled back", "execute the action again; if many actions change one row, raise the number of retries for `RetryOn::Stale`";
    /// An action was executed inside another action.
    ActionNested = 381, Operator, "nothing was written by the inner action", "stage everything on one plan, or execute the second action after the first has returned";
    /// The connection was lost while an action committed: its transaction is either complete or does not exist.
    ActionOutcomeUnknown = 382, Operator, "either everything was written, or nothing; the action was not retried", "when the database has ended the lost session, look for the action's id, which the message names, in the event rows or the table `actions`; execute the action again only if it is not there";
    /// The plan of an action is not valid: an id is staged twice, an event does not belong to its model, or a limit is exceeded.
    PlanInvalid = 383, Operator, "nothing was written", "change what the message names";
    /// Two Rust types have the same name as an action, a model or an event.
    NameTwice = 384, Operator, "nothing was written", "rename one of the types, or give it another name with its attribute, for example `#[model(name = \"...\")]`";
    /// An action is not registered at the executor, or there is no repository for a type that it staged.
    ActionUnregistered = 385, Operator, "nothing was written", "register it with the builder of the executor";
    /// There is no row with this id.
    EntityMissing = 386, Operator, "nothing was written", "check the id; use `get` instead of `find` if the row may be missing";
    /// A setting of an executor is missing or not valid.
    ExecutorInvalid = 387, Operator, "nothing was started", "change the setting that the message names";
    /// An action staged rows of several shards.
    ShardsMixed = 388, Operator, "nothing was written", "split the action, or allow it for this call: each shard then commits on its own";
    /// An action over several shards was committed on some of them only.
    ShardsDiverged = 389, Operator, "the shards that the message lists as committed have the change and the action's events; the others have not", "undo the change on the committed shards with another action, or repeat it on the others";

    /// A relay setting is out of range or contradicts another setting.
    PolicyInvalid = 401, Operator, "nothing was started", "change the setting that the message names";
    /// Two subscriptions on one outbox have the same name.
    SubscriptionTwice = 402, Operator, "nothing was started", "rename one of them";
    /// The relay's task ended unexpectedly.
    RelayStopped = 403, Operator, "events that were not settled are delivered again at the next start", "see the log for the cause, and please report it as a bug";
    /// Some events could not be delivered; they are parked until an operator acts.
    Undelivered = 404, Operator, "the parked events stay in the outbox; all other events were delivered", "run `postrider status` to see how many are parked and why";
    /// The functions of a handler contradict each other, or a setting of the handler is out of range.
    HandlerInvalid = 405, Operator, "nothing was started", "change what the message names; events of one type go to one function of a handler, and to as many handlers as you like";
    /// A sink has the name of a subscription that a program serves with a handler: it would take the handler's events.
    SubscriptionIsHandler = 406, Operator, "nothing was started; the handler keeps its events", "give the sink another name; if it shall replace the handler, use `postrider relay --replace-handlers`, or `Subscription::replaces_handler`";
    /// A template names a field that no event has.
    TemplateField = 412, Operator, "nothing was started", "use one of the fields in docs/src/routing.md";
    /// A template has a syntax error.
    TemplateSyntax = 413, Operator, "nothing was started", "correct the template at the column that the message names";
    /// A routing rule is invalid.
    RuleInvalid = 414, Operator, "nothing was started", "change the rule that the message names";
    /// The CloudEvents source is not a URI reference.
    SourceInvalid = 415, Operator, "nothing was started", "use a URI or a path such as \"/shop/checkout\"";

    /// A sink could not be opened.
    SinkOpen = 501, Operator, "nothing was published", "see the destination's message";
    /// A sink failed to write.
    SinkFailed = 502, Retry, "the events stay in the outbox", "see the destination's message";
    /// An event could not be encoded.
    Encode = 503, Operator, "the event was parked", "choose an encoder that supports this payload";
    /// The payload of an event does not fit its schema, or the event lacks a field that its envelope requires.
    SchemaMisfit = 504, Operator, "the event is dead and was not sent; only events with its key wait", "compare the payload at the path that the message names with the schema; then correct the producer or the schema, restart the relay, and use `postrider dead retry`";
    /// No schema is configured for the type of an event.
    SchemaUnbound = 505, Operator, "the event is parked and was not sent", "add the type to `schemas` of the sink and restart the relay";
    /// The schema registry cannot be reached, refuses the login, or does not answer like a registry.
    SchemaUnavailable = 506, Retry, "nothing was sent and no attempt counts; the events stay in the outbox", "check the URL and the login of the registry, and that it is running; the relay tries again by itself";
    /// The schema registry does not know a schema, or does not accept it.
    SchemaRefused = 507, Operator, "nothing was sent; the events stay in the outbox", "run `postrider schemas check`; register the schema, or change it so that it is compatible";
    /// A schema file, a binding or a setting of an encoder with schemas cannot be used.
    SchemaInvalid = 508, Operator, "nothing was started", "correct the file or the setting that the message names; docs/src/schemas.md describes them";

    /// The config file is not readable.
    ConfigFile = 601, Operator, "nothing was started or changed", "check the path and its permissions, or create a file with `postrider config init`";
    /// The config file is not valid TOML, or a `--set` option is not `section.key=value`.
    ConfigSyntax = 602, Operator, "nothing was started or changed", "correct the line that the message names; https://toml.io documents the format";
    /// The config file contains an unknown section or key.
    ConfigKeyUnknown = 603, Operator, "nothing was started or changed", "`postrider config schema --markdown` lists every key";
    /// The value of a key has the wrong type or is out of range.
    ConfigValue = 604, Operator, "nothing was started or changed", "`postrider config schema --markdown` shows an example of every key";
    /// A required key is missing.
    ConfigKeyMissing = 605, Operator, "nothing was started or changed", "add the key";
    /// A subscription refers to an outbox or sink that is not configured.
    ConfigReference = 606, Operator, "nothing was started or changed", "correct the name, or add the missing section";
    /// A value given as `env:NAME` or `file:PATH` is not readable: the variable is not set or not UTF-8, or the file is
    /// missing, empty or not accessible.
    ConfigSecret = 607, Operator, "nothing was started or changed", "set the variable, or create the file and make it readable for this user";
    /// A password or other secret is on the command line, where every user of the machine can read it.
    ConfigSecretOpen = 608, Operator, "nothing was started or changed; the secret may be in the shell's history", "put it into an environment variable or a file, and use env:NAME or file:PATH";
    /// The file already exists and would be overwritten.
    FileExists = 609, Operator, "the file is unchanged", "choose another name, or pass --force to replace it";
    /// Output could not be written to the terminal, pipe or file.
    OutputFailed = 610, Operator, "the printed output is incomplete; the command itself completed", "free disk space or grant write access, then run it again";
    /// The HTTP listener of the relay cannot be opened.
    HttpListen = 611, Operator, "nothing was started", "choose a free port in `listen` of [http], or stop the other program";
    /// The relay did not answer `postrider healthcheck`.
    HttpAnswer = 612, Operator, "nothing was changed", "check that the relay runs, and with the same [http] settings";
    /// A benchmark did not finish.
    BenchFailed = 620, Operator, "only the benchmark's own temporary files were changed", "see the message; a common cause is a full disk in the temporary folder";
    /// A destination of a webhook sink is not a valid URL.
    DestinationUrl = 630, Operator, "nothing was started", "use https://HOST/PATH; values of the event may be used after the host";
    /// An event could choose the host that receives the requests, including the token and the signature.
    DestinationHost = 631, Operator, "nothing was started", "write the host into the rule, or set `url`; or list the hosts that events may choose in `allow_hosts` of the sink";
    /// Routing rules set a destination, but the sink is configured to send every event to one destination.
    DestinationUnused = 632, Operator, "nothing was started", "remove `destination` from the rules, or `topic` (Kafka) or `url` (webhook) from the sink";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PR-{:04}", self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_in_order() {
        assert!(Code::ALL.windows(2).all(|pair| pair[0].number() < pair[1].number()));
    }
}
