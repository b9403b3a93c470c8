//! W3C trace context: how a trace continues through the outbox.
//!
//! The trace context of an event is in its headers `traceparent` and `tracestate`. A writer with a [`TraceSource`] sets
//! them. The library depends on no tracing system: a source for OpenTelemetry is a closure that injects the current
//! span's context with its propagator and passes the two texts to [`TraceContext::parse`].

use super::{Event, Headers};
use crate::{Code, Error, Result};

/// Name of the header with the trace and span.
pub const TRACEPARENT: &str = "traceparent";
/// Name of the header with vendor-specific trace data.
pub const TRACESTATE: &str = "tracestate";

/// A valid trace context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: String,
    tracestate: Option<String>,
}

impl TraceContext {
    /// Checks both texts by the rules of the W3C recommendation.
    ///
    /// # Errors
    /// [`Code::TraceInvalid`], with the rule that was broken.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Result<Self> {
        check_parent(traceparent).map_err(|rule| invalid(TRACEPARENT, rule))?;
        let tracestate = tracestate.filter(|state| !state.trim_matches([' ', '\t']).is_empty());
        if let Some(state) = tracestate {
            check_state(state).map_err(|rule| invalid(TRACESTATE, rule))?;
        }
        Ok(Self { traceparent: traceparent.to_owned(), tracestate: tracestate.map(str::to_owned) })
    }

    /// The context in an event's headers, if it is valid. As W3C requires, an invalid `traceparent` means no context,
    /// and an invalid `tracestate` is dropped while its `traceparent` is kept.
    pub fn from_headers(headers: &Headers) -> Option<Self> {
        let parent = headers.get(TRACEPARENT)?;
        Self::parse(parent, headers.get(TRACESTATE)).or_else(|_| Self::parse(parent, None)).ok()
    }

    /// The trace and span: `00-<trace id>-<span id>-<flags>`.
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// Vendor-specific trace data.
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }
}

/// Provides a writer with the caller's trace. Any `Fn() -> Option<TraceContext>` is a source.
pub trait TraceSource: Send + Sync + 'static {
    /// The context of the caller, if it is traced. Called once per write, on the caller's task.
    fn current(&self) -> Option<TraceContext>;
}

impl<F: Fn() -> Option<TraceContext> + Send + Sync + 'static> TraceSource for F {
    fn current(&self) -> Option<TraceContext> {
        self()
    }
}

impl Event {
    /// Stores the context as headers, unless the event already has a `traceparent`.
    #[must_use]
    pub fn with_trace(mut self, context: &TraceContext) -> Self {
        if self.headers.get(TRACEPARENT).is_none() {
            self.headers.set(TRACEPARENT, context.traceparent());
            // The two belong together: the state must not be that of another trace.
            match context.tracestate() {
                Some(state) => self.headers.set(TRACESTATE, state),
                None => self.headers.remove(TRACESTATE),
            }
        }
        self
    }
}

fn invalid(header: &str, rule: &str) -> Error {
    Error::new(Code::TraceInvalid, format!("{header} is not valid: {rule}"))
}

/// `version "-" trace-id "-" parent-id "-" flags`; later versions may add `"-" ...` at the end.
fn check_parent(text: &str) -> Result<(), &'static str> {
    let mut parts = text.splitn(5, '-');
    let mut next = |digits: usize, rule: &'static str| {
        parts.next().filter(|part| part.len() == digits && part.bytes().all(is_lower_hex)).ok_or(rule)
    };
    let version = next(2, "the version is not 2 lower-case hex digits")?;
    let trace_id = next(32, "the trace id is not 32 lower-case hex digits")?;
    let span_id = next(16, "the span id is not 16 lower-case hex digits")?;
    next(2, "the flags are not 2 lower-case hex digits")?;
    let zero = |id: &str| id.bytes().all(|b| b == b'0');
    match () {
        () if version == "ff" => Err("version ff is forbidden"),
        () if zero(trace_id) => Err("the trace id is zero"),
        () if zero(span_id) => Err("the span id is zero"),
        () if version == "00" && parts.next().is_some() => Err("version 00 ends after the flags"),
        () => Ok(()),
    }
}

const STATE_MEMBERS_MAX: usize = 32;

fn check_state(text: &str) -> Result<(), &'static str> {
    let mut keys = Vec::new();
    for member in text.split(',').map(|m| m.trim_matches([' ', '\t'])).filter(|m| !m.is_empty()) {
        let (key, value) = member.split_once('=').ok_or("a member has no '='")?;
        check_state_key(key)?;
        check_state_value(value)?;
        if keys.contains(&key) {
            return Err("a key occurs twice");
        }
        keys.push(key);
        if keys.len() > STATE_MEMBERS_MAX {
            return Err("there are more than 32 members");
        }
    }
    Ok(())
}

/// Level 2 of the recommendation: a lower-case letter or digit, then up to 255 of `a-z 0-9 _ - * / @`.
fn check_state_key(key: &str) -> Result<(), &'static str> {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let starts_well = key.bytes().next().is_some_and(word);
    if starts_well && key.len() <= 256 && key.bytes().all(|b| word(b) || b"_-*/@".contains(&b)) {
        Ok(())
    } else {
        Err("a key contains characters other than 'a-z', '0-9' and '_-*/@', or is too long")
    }
}

fn check_state_value(value: &str) -> Result<(), &'static str> {
    let printable = |b: u8| (0x20..=0x7e).contains(&b) && b != b',' && b != b'=';
    if (1..=256).contains(&value.len()) && value.bytes().all(printable) {
        Ok(())
    } else {
        Err(
            "a value is empty, too long, or contains characters other than printable ASCII without ',' and '='",
        )
    }
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_accepted_or_refused_by_the_rules_of_w3c() {
        let parent = |t: &str| TraceContext::parse(t, None).is_ok();
        for good in [
            PARENT.to_owned(),
            PARENT.replace("-01", "-ff"),
            PARENT.replacen("00-", "01-", 1),
            PARENT.replacen("00-", "cc-", 1) + "-later-versions",
        ] {
            assert!(parent(&good), "{good}");
        }
        for bad in [
            String::new(),
            PARENT[1..].to_owned(),
            format!(" {PARENT}"),
            format!("{PARENT}-"),
            format!("{PARENT}-00"),
            PARENT.to_uppercase(),
            PARENT.replacen("00-", "ff-", 1),
            PARENT.replacen("00-", "0g-", 1),
            PARENT.replacen("00-", "01-", 1) + "x",
            PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            PARENT.replace("00f067aa0ba902b7", &"0".repeat(16)),
            PARENT.replace("-01", "-1"),
            PARENT.replace("4bf", "é"),
        ] {
            assert!(!parent(&bad), "{bad}");
        }
    }

    #[test]
    fn a_tracestate_is_accepted_or_refused_by_the_rules_of_w3c() {
        let state = |s: &str| TraceContext::parse(PARENT, Some(s)).is_ok();
        let many = |n: usize| (0..n).map(|i| format!("k{i}=v")).collect::<Vec<_>>().join(",");
        for good in ["", "congo=t61rcWkgMzE", "a=1, b=2 ,\tc=3,,", "tenant@system=x", "1a=a b", &many(32)] {
            assert!(state(good), "{good}");
        }
        let long = "k".repeat(257) + "=v";
        for bad in ["novalue", "=v", "k=", "K=v", "k=a=b", "k=é", "a=1,a=2", "-k=v", &many(33), &long] {
            assert!(!state(bad), "{bad}");
        }
    }

    #[test]
    fn a_context_is_read_from_the_headers_it_was_stored_in() {
        let context = TraceContext::parse(PARENT, Some("congo=t61")).unwrap();
        let event = Event::new("a", "").with_trace(&context);
        assert_eq!(TraceContext::from_headers(&event.headers), Some(context));
    }

    #[test]
    fn a_traceparent_that_the_caller_set_is_kept() {
        let ours = TraceContext::parse(&PARENT.replace("4bf", "abc"), Some("a=1")).unwrap();
        let event = Event::new("a", "").with_header(TRACEPARENT, PARENT).with_trace(&ours);
        assert_eq!(event.headers.get(TRACEPARENT), Some(PARENT));
        assert_eq!(event.headers.get(TRACESTATE), None);
    }

    #[test]
    fn an_invalid_tracestate_does_not_affect_the_traceparent() {
        let headers = Headers::from_iter([(TRACEPARENT, PARENT), (TRACESTATE, "===")]);
        let context = TraceContext::from_headers(&headers).unwrap();
        assert_eq!((context.traceparent(), context.tracestate()), (PARENT, None));
    }

    #[test]
    fn a_closure_is_a_source() {
        let source = || TraceContext::parse(PARENT, None).ok();
        assert!((&source as &dyn TraceSource).current().is_some());
    }
}
