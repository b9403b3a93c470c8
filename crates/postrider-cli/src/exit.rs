//! Exit codes: every one there is, and which error gets which.

use postrider::Code;

macro_rules! exits {
    ($(#[doc = $doc:literal] $name:ident = $number:literal,)+) => {
        /// How a command ended. The numbers do not change.
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
    /// It did what it was asked.
    Ok = 0,
    /// It failed while it ran.
    Failed = 1,
    /// The command line or the configuration is wrong; nothing was started.
    Usage = 2,
    /// The database cannot be reached or used.
    Database = 3,
    /// The database's tables are missing, altered, or newer than this program.
    Schema = 4,
    /// `doctor` found something that does not work.
    Unhealthy = 5,
    /// An event given to it is not acceptable.
    Input = 6,
    /// A destination cannot be opened or written.
    Destination = 7,
    /// It was interrupted, as by Ctrl-C.
    Interrupted = 130,
    /// Whoever read its output went away, as `head` does. Nothing is printed then.
    ClosedPipe = 141,
}

impl From<Code> for Exit {
    /// The one place that decides. A code that is not named here ends as [`Exit::Failed`].
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
            | Code::RowsHidden
            | Code::EncodingUnfit
            | Code::TlsFailed
            | Code::HistoryChanged => Self::Database,
            Code::NameInvalid
            | Code::SubscriptionUnknown
            | Code::PolicyInvalid
            | Code::SubscriptionTwice
            | Code::TemplateField
            | Code::TemplateSyntax
            | Code::RuleInvalid
            | Code::SourceInvalid
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
            Code::SinkOpen | Code::SinkFailed => Self::Destination,
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}
