//! Handlers of layout `eventlog`, and how events are fanned out to them.

use std::time::Duration;

#[cfg(feature = "relay")]
use crate::{Code, Error, Result};

/// A handler of layout `eventlog`: each event of its types becomes one notification under its name.
///
/// Its name and types are stored in the database, and only an operator removes them: another version of the program, or
/// another program, fans events out to it as well.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegisteredHandler {
    /// Its durable name.
    pub name: String,
    /// Earlier names. Their notifications are handled too, but no event is fanned out to them.
    pub aliases: Vec<String>,
    /// The event types it takes; `*` matches any text. `None`: all.
    pub types: Option<Vec<String>>,
}

impl RegisteredHandler {
    /// A handler for all events.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), aliases: Vec::new(), types: None }
    }

    /// The types it takes, as patterns.
    #[cfg(feature = "_store")]
    pub(crate) fn patterns(&self) -> Vec<String> {
        self.types.clone().unwrap_or_else(|| vec!["*".to_owned()])
    }

    /// The types it takes, as patterns of SQL's LIKE; `None` if it takes all.
    #[cfg(feature = "_server")]
    pub(crate) fn like_patterns(&self) -> Option<Vec<String>> {
        self.types.as_ref().map(|types| types.iter().map(|name| like(name)).collect())
    }

    /// Its name and its aliases.
    #[cfg(feature = "_server")]
    pub(crate) fn names(&self) -> Vec<String> {
        [&self.name].into_iter().chain(&self.aliases).cloned().collect()
    }
}

/// A pattern as one of SQL's LIKE, with a backslash as its escape character.
#[cfg(feature = "_server")]
pub(crate) fn like(pattern: &str) -> String {
    pattern.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_").replace('*', "%")
}

/// How events of layout `eventlog` are fanned out to handlers, and how long a notification may be handled.
///
/// ```
/// use std::time::Duration;
/// use postrider::layout::FanOutPolicy;
///
/// let fan_out = FanOutPolicy::default().handle_within(Duration::from_secs(3 * 86_400));
/// assert_eq!(fan_out.events_max, 200);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FanOutPolicy {
    /// Events in one transaction.
    pub events_max: usize,
    /// How long to wait if there are no more events.
    pub poll: Duration,
    /// How long a notification may be handled: from the later of the event's date and the notification's creation. After
    /// it, the notification is EXPIRED, and its handler is not called.
    pub handle_within: Duration,
    /// How often to search for events that another program has fanned out to its own handlers only. On PostgreSQL this
    /// reads the whole table. Set a shorter time if another program fans out, too.
    pub search_missed_every: Duration,
}

impl Default for FanOutPolicy {
    fn default() -> Self {
        Self {
            events_max: 200,
            poll: Duration::from_secs(1),
            handle_within: Duration::from_secs(7 * 86_400),
            search_missed_every: Duration::from_secs(600),
        }
    }
}

impl FanOutPolicy {
    /// Sets [`events_max`](Self#structfield.events_max).
    #[must_use]
    pub fn events_max(mut self, events_max: usize) -> Self {
        self.events_max = events_max;
        self
    }

    /// Sets [`poll`](Self#structfield.poll).
    #[must_use]
    pub fn poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// Sets [`handle_within`](Self#structfield.handle_within).
    #[must_use]
    pub fn handle_within(mut self, handle_within: Duration) -> Self {
        self.handle_within = handle_within;
        self
    }

    /// Sets [`search_missed_every`](Self#structfield.search_missed_every).
    #[must_use]
    pub fn search_missed_every(mut self, interval: Duration) -> Self {
        self.search_missed_every = interval;
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`Code::PolicyInvalid`] with the first setting that is 0.
    #[cfg(feature = "relay")]
    pub(crate) fn check(&self) -> Result<()> {
        let zero = |name: &str| {
            Err(Error::new(Code::PolicyInvalid, format!("{name} of the fan-out is 0"))
                .with_hint("use a value above 0"))
        };
        match self {
            Self { events_max: 0, .. } => zero("events_max"),
            Self { poll: Duration::ZERO, .. } => zero("poll"),
            Self { handle_within: Duration::ZERO, .. } => zero("handle_within"),
            Self { search_missed_every: Duration::ZERO, .. } => zero("search_missed_every"),
            Self { .. } => Ok(()),
        }
    }
}
