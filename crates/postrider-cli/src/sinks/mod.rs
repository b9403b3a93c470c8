//! The types of sink that a configuration can name: `[sink.NAME]` with `type = "..."`.
//!
//! Each file or folder here is one type. It owns its keys with their docs, reads them, opens the sink and checks it for
//! `doctor`; the schema, the docs, the relay and the doctor take all of that from `SINK_TYPES`. CONTRIBUTING.md has the
//! walk "Add a sink".

mod file;
mod kafka;
mod mqtt;
mod nats;
mod null;
mod rabbitmq;
mod redis;
mod stdout;
mod webhook;

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postrider::encode::cloudevents::Binding;
use postrider::sink::{Destinations, Sink};
use postrider::{BoxFuture, Code, Result};

use crate::config::Problem;
use crate::config::schema::KeySpec;
use crate::config::settings::ConfigTable;
use crate::doctor::{Check, Subject};

/// Every type of sink, in the order of the docs.
pub(crate) const SINK_TYPES: &[SinkType] = &[
    file::TYPE,
    stdout::TYPE,
    null::TYPE,
    webhook::TYPE,
    kafka::TYPE,
    rabbitmq::TYPE,
    nats::TYPE,
    redis::TYPE,
    mqtt::TYPE,
];

/// The names of all types, for the key `type`.
pub(crate) const SINK_TYPE_NAMES: [&str; SINK_TYPES.len()] = {
    let mut names = [""; SINK_TYPES.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = SINK_TYPES[at].name;
        at += 1;
    }
    names
};

/// One type of sink. It exists in every build, so that its keys are always checked and documented.
pub(crate) struct SinkType {
    /// The value of `type`.
    pub(crate) name: &'static str,
    /// A short description for lists, such as "lines in a file".
    pub(crate) summary: &'static str,
    /// Its keys, in addition to `type`, `encoder` and `source`, which every sink has.
    pub(crate) keys: &'static [KeySpec],
    /// Creates a target from a table; or the cargo features that this program was built without.
    pub(crate) read: Result<Read, &'static str>,
}

type Read = fn(&ConfigTable<'_>) -> Result<Arc<dyn Target>, Problem>;

/// Creates the target of a sink from its table in the configuration.
pub(crate) fn read(table: &ConfigTable<'_>) -> Result<Arc<dyn Target>, Problem> {
    let name = table.text("type")?;
    let of_name = |of: &&SinkType| Some(of.name) == name.as_deref();
    let SinkType { name, read, .. } = table.required("type", SINK_TYPES.iter().find(of_name))?;
    match read {
        Ok(read) => read(table),
        Err(features) => {
            let why = format!("this program was built without support for {name}");
            let hint = format!("build it with --features {features}");
            Err(table.problem("type", Code::ConfigValue, &why).with_hint(hint))
        }
    }
}

/// The target of a sink. Its `Display` contains no secrets.
pub trait Target: SameTarget + fmt::Debug + fmt::Display + Send + Sync {
    /// Opens the sink for this user.
    ///
    /// # Errors
    /// [`Code::SinkOpen`] with the reason.
    fn open(&self, user: &SinkUser<'_>) -> Result<Arc<dyn Sink>>;

    /// Whether subscriptions with the same target share one open sink. Otherwise each opens a separate one.
    fn is_shared(&self) -> bool {
        true
    }

    /// Whether each message becomes a line of text. Binary encoders are refused then.
    fn writes_lines(&self) -> bool {
        false
    }

    /// How the sink uses the destinations that routing names.
    fn destinations(&self) -> Destinations {
        Destinations::Names
    }

    /// How its protocol transports the attributes of a CloudEvent in binary mode.
    fn binding(&self) -> Binding {
        Binding::default()
    }

    /// The `publish_timeout` of a subscription must be longer than this.
    fn publish_timeout_above(&self) -> Duration {
        Duration::ZERO
    }

    /// The checks of `doctor`, without sending an event.
    fn check<'a>(&'a self, subject: &'a mut Subject<'_>) -> BoxFuture<'a, ()> {
        subject.ok(Check::SinkReachable, self.to_string());
        Box::pin(std::future::ready(()))
    }
}

/// The user of an open sink.
#[derive(Debug, Clone, Copy)]
pub struct SinkUser<'a> {
    /// The outbox that the events come from.
    pub outbox: &'a str,
    /// The subscription that sends them.
    pub subscription: &'a str,
}

/// Compares targets of any type.
pub trait SameTarget {
    /// Whether the other target has the same type and is equal.
    fn is_same(&self, other: &dyn Target) -> bool;

    /// For downcasts to the concrete type.
    fn as_any(&self) -> &dyn Any;
}

impl<T: Target + PartialEq + 'static> SameTarget for T {
    fn is_same(&self, other: &dyn Target) -> bool {
        other.as_any().downcast_ref() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
