//! Every error code: its number, what it means for the data, what to do, and what the relay does about it.

use std::fmt;

/// What the relay does about an error of the database. The one match is [`Code::recovery`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing happened; the same call may be made again.
    Again,
    /// What happened is unknown, or the connection is gone: give up the lease's state, load it anew.
    Reload,
    /// A person has to change something first.
    Person,
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

codes! {
    /// The event has no type.
    TypeEmpty = 101, Person, "nothing was written; the transaction is as it was", "give the event a type such as \"order.placed\"";
    /// A text of the event is longer than its limit.
    TextTooLong = 102, Person, "nothing was written; the transaction is as it was", "shorten it, or raise the limit in `Limits`";
    /// A text of the event holds a control character.
    ControlCharacter = 103, Person, "nothing was written; the transaction is as it was", "remove the character; put free text into the payload";
    /// A header has no name, or a name that is not a token (letters, digits and `-_.`).
    HeaderName = 104, Person, "nothing was written; the transaction is as it was", "name the header with letters, digits, '-', '_' and '.'";
    /// The event has more headers than allowed.
    TooManyHeaders = 105, Person, "nothing was written; the transaction is as it was", "move the data into the payload";
    /// The payload is larger than the limit.
    PayloadTooLarge = 106, Person, "nothing was written; the transaction is as it was", "store the large part elsewhere and send its address, or raise the limit in `Limits`";
    /// More events in one call than allowed.
    TooManyEvents = 107, Person, "nothing was written; the transaction is as it was", "write them in several calls; they may share one transaction";
    /// Two events of one call have the same id.
    DuplicateId = 108, Person, "nothing was written; the transaction is as it was", "give each event its own id, or none: the writer makes one";
    /// A key, aggregate type or aggregate id is given but empty.
    TextEmpty = 109, Person, "nothing was written; the transaction is as it was", "leave it out instead of giving an empty text";
    /// The payload could not be serialised.
    PayloadSerialise = 110, Person, "nothing was written; the transaction is as it was", "fix the Serialize implementation of the event's type";
    /// `max_attempts` is zero, or a time is outside what the database can hold.
    NumberOutOfRange = 111, Person, "nothing was written; the transaction is as it was", "give a number inside the range, or leave it out";
    /// The parameters of an action are not JSON.
    ParamsInvalid = 112, Person, "nothing was written; the transaction is as it was", "give the parameters as JSON text; \"{}\" if there are none";
    /// A header's name starts with `postrider-`, which is kept for the relay.
    HeaderReserved = 113, Person, "nothing was written; the transaction is as it was", "rename the header";
    /// A trace context breaks the rules of W3C.
    TraceInvalid = 114, Person, "nothing was written; the event has no trace", "hand over what the tracing library's W3C propagator gives";
    /// A line or field given as an event is not one: not JSON, no such field, or of another type.
    EventUnreadable = 115, Person, "its batch was not written; the batches before it were", "correct it; `postrider write --help` lists the fields";
    /// There was no event to read: the input is empty, or the file cannot be read.
    InputMissing = 116, Person, "nothing was written", "give an event: by flags, or one per line on standard input";
    /// The event does not fit the columns of the outbox's layout.
    LayoutUnfit = 120, Person, "nothing was written; the transaction is as it was", "change what is named, or use the layout `postrider`, which holds every event";

    /// The database has no Postrider tables, or older ones than this program needs.
    SchemaMissing = 201, Person, "nothing was read or changed", "run the migrations: `postrider migrate up`, or the store's `migrate`";
    /// The database was migrated by a newer Postrider than this one.
    SchemaNewer = 202, Person, "nothing was read or changed", "update this program";
    /// A row in Postrider's tables cannot be understood.
    RowDamaged = 203, Person, "the row was left as it is", "look at the row; something other than Postrider wrote it";
    /// A name given for a table, subscription or holder is not usable.
    NameInvalid = 204, Person, "nothing was read or changed", "use letters, digits, '_', '-' and '.', starting with a letter";
    /// Postrider's tables are not as its migrations made them, and order or completeness would suffer.
    SchemaAltered = 205, Person, "nothing was read or changed", "undo the change that is named";

    /// A table is not as the layout that was given has it, or Postrider's own tables are about another outbox.
    LayoutDiffers = 220, Person, "nothing was read or changed", "give the layout that the table has, or change what is named; Postrider alters no table of yours";

    /// The database is busy or locked.
    StoreBusy = 301, Again, "nothing was changed", "it is tried again; if it stays, look for a long transaction";
    /// The database cannot be reached or answered with an error.
    StoreFailed = 302, Reload, "what was not confirmed is done again after the next load", "see the database's own message";
    /// The outcome of a commit is unknown.
    OutcomeUnknown = 303, Reload, "the ledger is read again before anything else", "nothing to do; duplicates stay within the bound";
    /// The database is read-only or its disk is full.
    StoreReadOnly = 304, Person, "nothing was changed", "make room or give write access, then it goes on by itself";
    /// There is no such subscription.
    SubscriptionUnknown = 305, Person, "nothing was changed", "check the name; a relay creates its subscriptions when it starts: if the tables were made again while it ran, restart the relay";
    /// The history of the database changed: it was restored, failed over or its sequence was reset.
    HistoryChanged = 306, Person, "the subscription stopped; nothing was skipped", "compare with the consumers, then accept the new history";

    /// The role may not do what it has to.
    PrivilegeMissing = 307, Person, "nothing was changed", "grant the role the right that the database's message names";
    /// The database does not let this user in, or there is no such database.
    LoginRefused = 308, Person, "nothing was read or changed", "check user, password and database name, and what the server allows";
    /// The database server is too old.
    ServerTooOld = 309, Person, "nothing was read or changed", "update the server";
    /// The connection to the database could not be encrypted, or the server could not be proven to be the right one.
    TlsFailed = 311, Person, "nothing was sent but the wish to encrypt; no password and no event", "see docs/src/postgres.md, TLS: give the server's root certificate, or sslmode=disable where the network is trusted";
    /// The database server is set up in a way under which no promise about completeness could be kept.
    ServerUnfit = 312, Person, "nothing was read or changed", "change the setting of the server that is named";

    /// Somebody else publishes from a table that was not given as shared.
    ForeignPublisher = 320, Person, "nothing was published; their rows were left alone", "stop the other publisher, or set `shared = true` on the outbox";
    /// A table with a state per row can be worked by one subscription only, and it has one.
    SecondSubscription = 321, Person, "nothing was changed", "use the subscription that is there, or the layout `postrider`, which carries many";
    /// A table with a state per row has rows that are due, and the start would leave them out.
    StartRefused = 322, Person, "nothing was changed", "start at the beginning, or settle the old rows first";

    /// A table that is to be adopted has undelivered events, and it was not said which of them move.
    AdoptionStart = 330, Person, "nothing was changed", "say --start beginning (all move), --start time:RFC3339 (those from then on move) or --start now (none does)";
    /// A relay, or another adoption, works on the subscription.
    LeaseHeld = 331, Person, "nothing was changed", "stop it, or wait until its lease has run out, then run it again";
    /// Some of the events that are to be adopted do not fit the layout they are to move to, or cannot be read.
    EventsUnfit = 332, Person, "nothing was changed", "change what is named, or deliver those events from where they are";
    /// Events are adopted from a table with a state per row into the layout `postrider` or back, within one database.
    AdoptionRefused = 333, Person, "nothing was changed", "go by way of an outbox with the layout `postrider`, in the same database";

    /// Row-level security would hide rows of the outbox from this user. Hidden events would count as rolled back.
    RowsHidden = 340, Person, "nothing was read or changed", "ALTER TABLE ... DISABLE ROW LEVEL SECURITY on the table that is named, or give the user BYPASSRLS";
    /// The database does not hold its texts in UTF-8, so one row could keep all others from being read.
    EncodingUnfit = 341, Person, "nothing was read or changed", "put the outbox into a database made with ENCODING 'UTF8'";

    /// The retention asks for a column that the layout does not have.
    RetentionUnfit = 350, Person, "nothing was read or changed", "give a duration such as \"7d\", or \"forever\"";
    /// No column orders the rows of a key, so their order cannot be kept.
    OrderUntold = 351, Person, "nothing was read or changed", "name a column for `order` or `created_at` in `columns`, or set `order = \"none\"` on the subscription if order does not matter";

    /// The table refuses a change of one of its rows: by a CHECK, a trigger, or a column that cannot hold the value.
    RowRefused = 360, Reload, "the row was left as it is; the others were recorded, and it is parked and not sent again", "see `postrider status` for the row and the reason; set the row to its delivered state, or delete it";

    /// A setting of the relay does not make sense.
    PolicyInvalid = 401, Person, "nothing was started", "change the setting";
    /// Two subscriptions of one outbox have the same name.
    SubscriptionTwice = 402, Person, "nothing was started", "rename one of them";
    /// The relay's task ended unexpectedly.
    RelayStopped = 403, Person, "what was not settled is delivered again at the next start", "see the log for the cause; this is a bug worth reporting";
    /// Events that were to be delivered are parked, and only a person can move them.
    Undelivered = 404, Person, "they stay in the outbox and count as parked; the others were delivered", "`postrider status` shows how many and why";
    /// A template names a field that no event has.
    TemplateField = 412, Person, "nothing was started", "use one of the fields in docs/src/routing.md";
    /// A template cannot be read.
    TemplateSyntax = 413, Person, "nothing was started", "correct the template at the column that is named";
    /// A routing rule does not make sense.
    RuleInvalid = 414, Person, "nothing was started", "change the rule";
    /// The source for CloudEvents is not a URI reference.
    SourceInvalid = 415, Person, "nothing was started", "give a URI or a path such as \"/shop/checkout\"";

    /// A sink could not be opened.
    SinkOpen = 501, Person, "nothing was published", "see the message of the destination";
    /// A sink failed to write.
    SinkFailed = 502, Again, "the events stay in the outbox", "see the message of the destination";
    /// An event could not be encoded.
    Encode = 503, Person, "the event was parked", "choose an encoder that can carry this payload";

    /// The config file cannot be read.
    ConfigFile = 601, Person, "nothing was started or changed", "check the path and its permissions, or make a file with `postrider config init`";
    /// The config file is not TOML, or a `--set` is not `section.key=value`.
    ConfigSyntax = 602, Person, "nothing was started or changed", "correct it there; https://toml.io shows the format";
    /// There is no such section or key.
    ConfigKeyUnknown = 603, Person, "nothing was started or changed", "`postrider config schema --markdown` lists every key";
    /// A key has a value of the wrong type or outside its range.
    ConfigValue = 604, Person, "nothing was started or changed", "`postrider config schema --markdown` shows an example of every key";
    /// A key that is needed is not given.
    ConfigKeyMissing = 605, Person, "nothing was started or changed", "add the key";
    /// A subscription names an outbox or sink that is not configured.
    ConfigReference = 606, Person, "nothing was started or changed", "correct the name, or add the section it names";
    /// A secret given as `env:NAME` or `file:PATH` cannot be read.
    ConfigSecret = 607, Person, "nothing was started or changed", "set the variable or give access to the file";
    /// A password or other secret stands on the command line, where every user of the machine can read it.
    ConfigSecretOpen = 608, Person, "nothing was started or changed; the secret may be in the shell's history", "put it into a variable or file and write env:NAME or file:PATH";
    /// A file is there already and would be overwritten.
    FileExists = 609, Person, "the file is as it was", "give another name, or --force to replace it";
    /// Output could not be written to the terminal, pipe or file it goes to.
    OutputFailed = 610, Person, "what was printed is not complete; the command itself did its work", "make room or give write access, then run it again";
    /// A benchmark could not be run to its end.
    BenchFailed = 620, Person, "nothing but the benchmark's own temporary files was touched", "see the message; often the disk of the temporary folder is full";
    /// A sink that takes URLs is given a destination that cannot be one.
    DestinationUrl = 630, Person, "nothing was started", "write https://HOST/ and what follows it; values of the event may stand after the host";
    /// An event could choose the host that requests go to, and with them the token and the signature.
    DestinationHost = 631, Person, "nothing was started", "write the host into the rule or set `url`; or name the hosts that events may choose in `allow_hosts` of the sink";
    /// Rules name destinations, and the sink sends every event to one place.
    DestinationUnused = 632, Person, "nothing was started", "remove `destination` from the rules, or `topic` (Kafka) or `url` (webhook) from the sink";
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
