//! Checks events before any SQL runs. Messages name an event by its index in the call and never contain its payload.

use std::collections::HashSet;
use std::fmt::{Arguments, Display};

use serde_json::value::RawValue;

use super::{ActionContext, Event, Headers, TEXT_FIELDS};
use crate::{Code, Error, Limits, Result, Timestamp};

/// The prefix of the headers that the relay sets; writers may not set them.
pub(crate) const RESERVED_PREFIX: &str = "postrider-";

/// Checks all events of one call. If one is refused, none is written.
///
/// # Errors
/// The first rule that an event breaks, with its code.
pub(crate) fn validate(events: &[Event], limits: &Limits) -> Result<()> {
    if events.len() > limits.events_per_call_max {
        let (saw, max) = (events.len(), limits.events_per_call_max);
        return Err(Error::new(Code::TooManyEvents, format!("{saw} events in one call; the limit is {max}")));
    }
    let mut ids = HashSet::with_capacity(events.len());
    for (index, event) in events.iter().enumerate() {
        let check = Check { label: &format_args!("event {index}"), limits };
        check.event(event)?;
        if !ids.insert(event.id) {
            return Err(
                check.error(Code::DuplicateId, format!("the id {} occurs twice in this call", event.id))
            );
        }
    }
    Ok(())
}

/// Checks one event. Messages call it `label`.
///
/// # Errors
/// The first rule that it breaks, with its code.
pub(crate) fn validate_one(event: &Event, limits: &Limits, label: &dyn Display) -> Result<()> {
    Check { label, limits }.event(event)
}

/// Checks the record of an action.
///
/// # Errors
/// The first rule that it breaks, with its code.
pub(crate) fn validate_action(
    action: &ActionContext,
    namespace: &str,
    principal: Option<&str>,
    limits: &Limits,
) -> Result<()> {
    let check = Check { label: &"the record of the action", limits };
    check.text("namespace", Some(namespace))?;
    check.text("principal", principal)?;
    check.action(action)
}

/// The checks of one event.
struct Check<'a> {
    label: &'a dyn Display,
    limits: &'a Limits,
}

impl Check<'_> {
    fn event(&self, event: &Event) -> Result<()> {
        if event.event_type.is_empty() {
            return Err(self.error(Code::TypeEmpty, "the type is empty"));
        }
        self.text("type", Some(&event.event_type))?;
        self.text("aggregate type", event.aggregate.as_ref().map(|a| a.kind.as_str()))?;
        self.text("aggregate id", event.aggregate.as_ref().map(|a| a.id.as_str()))?;
        TEXT_FIELDS.iter().try_for_each(|field| self.text(field.name, field.of(event)))?;
        self.size("payload", event.payload.len())?;
        self.headers(&event.headers)?;
        self.time("time", event.time)?;
        event.expires_at.map_or(Ok(()), |time| self.time("expiry", time))?;
        if event.max_attempts == Some(0) {
            return Err(self.error(Code::NumberOutOfRange, "max_attempts is 0; it must be at least 1"));
        }
        event.action.as_ref().map_or(Ok(()), |action| self.action(action))
    }

    fn headers(&self, headers: &Headers) -> Result<()> {
        let (saw, max) = (headers.len(), self.limits.headers_max);
        if saw > max {
            return Err(
                self.error(Code::TooManyHeaders, format!("there are {saw} headers; the limit is {max}"))
            );
        }
        for (name, value) in headers.iter() {
            self.length(format_args!("a header's name"), name, self.limits.header_name_bytes_max)?;
            check_header_name(name).map_err(|error| error.within(&self.label.to_string()))?;
            self.length(format_args!("the header {name:?}"), value, self.limits.header_value_bytes_max)?;
            self.no_control(format_args!("the header {name:?}"), value)?;
        }
        Ok(())
    }

    fn action(&self, action: &ActionContext) -> Result<()> {
        self.text("action's name", Some(&action.name))?;
        self.time("action's start", action.started)?;
        self.time("action's end", action.completed)?;
        self.size("action's params", action.params.len())?;
        match serde_json::from_str::<&RawValue>(&action.params) {
            Ok(_) => Ok(()),
            // serde_json's message contains the position of the error, but no content.
            Err(e) => Err(self.error(Code::ParamsInvalid, "the action's params are not JSON").with_source(e)),
        }
    }

    fn text(&self, what: &str, text: Option<&str>) -> Result<()> {
        let Some(text) = text else { return Ok(()) };
        if text.is_empty() {
            return Err(self.error(Code::TextEmpty, format_args!("the {what} is empty")));
        }
        self.length(format_args!("the {what}"), text, self.limits.text_bytes_max)?;
        self.no_control(format_args!("the {what}"), text)
    }

    fn length(&self, what: Arguments<'_>, text: &str, max: usize) -> Result<()> {
        if text.len() <= max {
            return Ok(());
        }
        Err(self.error(Code::TextTooLong, format!("{what} has {} bytes; the limit is {max}", text.len())))
    }

    fn no_control(&self, what: Arguments<'_>, text: &str) -> Result<()> {
        let Some((at, found)) = text.char_indices().find(|(_, c)| c.is_control()) else { return Ok(()) };
        let found = u32::from(found);
        Err(self.error(Code::ControlCharacter, format!("{what} contains U+{found:04X} at byte {at}")))
    }

    fn size(&self, what: &str, saw: usize) -> Result<()> {
        let max = self.limits.payload_bytes_max;
        if saw <= max {
            return Ok(());
        }
        Err(self.error(Code::PayloadTooLarge, format!("the {what} has {saw} bytes; the limit is {max}")))
    }

    fn time(&self, what: &str, time: Timestamp) -> Result<()> {
        if time.is_storable() {
            return Ok(());
        }
        let micros = time.as_micros();
        let what = format!("the {what} is {micros} us from 1970, outside the years 1 to 9999");
        Err(self.error(Code::NumberOutOfRange, what))
    }

    fn error(&self, code: Code, what: impl Display) -> Error {
        Error::new(code, what.to_string()).within(&self.label.to_string())
    }
}

/// Refuses a header name that some destinations do not support, or that is reserved for the relay.
///
/// # Errors
/// [`Code::HeaderName`] or [`Code::HeaderReserved`].
pub(crate) fn check_header_name(name: &str) -> Result<()> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(Error::new(Code::HeaderName, format!("the header name {name:?} is not a token")));
    }
    if name.get(..RESERVED_PREFIX.len()).is_some_and(|p| p.eq_ignore_ascii_case(RESERVED_PREFIX)) {
        let what = format!("the header {name:?} starts with {RESERVED_PREFIX:?}, which is reserved");
        return Err(Error::new(Code::HeaderReserved, what));
    }
    Ok(())
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
