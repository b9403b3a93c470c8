//! All exit codes, and the exit code of each error.

use postrider::Code;

macro_rules! exits {
    ($(#[doc = $doc:literal] $name:ident = $number:literal,)+) => {
        /// The exit code of a command. The numbers do not change.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Exit { $(#[doc = $doc] $name = $number,)+ }

        impl Exit {
            /// All, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The number the shell sees.
            pub const fn number(self) -> u8 { self as u8 }

            /// When it is used.
            pub const fn meaning(self) -> &'static str { match self { $(Self::$name => $doc.trim_ascii()),+ } }
        }
    };
}

exits! {
    /// The command succeeded.
    Ok = 0,
    /// The command failed while it ran.
    Failed = 1,
    /// The command line or the configuration is wrong; nothing was started.
    Usage = 2,
    /// The database is not reachable or not usable.
    Database = 3,
    /// The database's tables are missing, altered, or newer than this program.
    Schema = 4,
    /// `doctor` found something that does not work.
    Unhealthy = 5,
    /// The input event is not valid.
    Input = 6,
    /// A destination cannot be opened or written.
    Destination = 7,
    /// The command was interrupted, for example by Ctrl-C.
    Interrupted = 130,
    /// The reader of its output closed the pipe, as `head` does. Nothing is printed in this case.
    ClosedPipe = 141,
}

impl From<Code> for Exit {
    /// The exit code of an error. A code that is not listed here is [`Exit::Failed`].
    fn from(code: Code) -> Self {
        match code {
            Code::TypeEmpty
            | Code::TextTooLong
            | Code::ControlCharacter
            | Code::HeaderName
            | Code::TooManyHeaders
            | Code::PayloadTooLarge
            | Code::TooManyEvents
            | Code::DuplicateId
            | Code::TextEmpty
            | Code::PayloadSerialise
            | Code::NumberOutOfRange
            | Code::ParamsInvalid
            | Code::HeaderReserved
            | Code::TraceInvalid
            | Code::EventUnreadable
            | Code::InputMissing
            | Code::EventsUnfit => Self::Input,
            Code::SchemaMissing | Code::SchemaNewer | Code::SchemaAltered => Self::Schema,
            Code::RowDamaged
            | Code::StoreBusy
            | Code::StoreFailed
            | Code::OutcomeUnknown
            | Code::StoreReadOnly
            | Code::PrivilegeMissing
            | Code::LoginRefused
            | Code::ServerTooOld
            | Code::ServerUnfit
            | Code::StoreReplaced
            | Code::RowsHidden
            | Code::EncodingUnfit
            | Code::TlsFailed
            | Code::HistoryChanged => Self::Database,
            Code::NameInvalid
            | Code::SubscriptionUnknown
            | Code::EventUnknown
            | Code::PolicyInvalid
            | Code::HandlerInvalid
            | Code::SubscriptionTwice
            | Code::TemplateField
            | Code::TemplateSyntax
            | Code::RuleInvalid
            | Code::SourceInvalid
            | Code::SchemaInvalid
            | Code::DestinationUrl
            | Code::DestinationHost
            | Code::DestinationUnused
            | Code::ConfigFile
            | Code::ConfigSyntax
            | Code::ConfigKeyUnknown
            | Code::ConfigValue
            | Code::ConfigKeyMissing
            | Code::ConfigReference
            | Code::ConfigSecret
            | Code::ConfigSecretOpen
            | Code::FileExists
            | Code::AdoptionStart
            | Code::AdoptionRefused => Self::Usage,
            Code::SinkOpen | Code::SinkFailed | Code::SchemaUnavailable | Code::SchemaRefused => {
                Self::Destination
            }
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}
