//! Routing: from an event to its destinations, key and headers. `docs/src/routing.md` documents the rules.

mod delivery;
mod field;
mod glob;
mod names;
mod rule;
mod template;

pub use delivery::{Delivery, DeliveryCopy};
pub use rule::Rule;

use std::borrow::Cow;
use std::sync::Arc;

use crate::sink::Destinations;
use crate::{Code, Error, Event, Result};
pub(crate) use glob::Globs;
use names::NameCache;
use rule::ParsedRule;

/// Maximum number of rules of a router: each may be evaluated for every event.
const RULES_MAX: usize = 1_000;
/// Maximum number of rules of a router that sends to every match: limits the messages per event.
const COPIES_MAX: usize = 16;
/// Between the names of several destinations.
const SEPARATOR: &str = " + ";

/// Decides where the events of one subscription go.
///
/// Without rules, an event goes to its topic, otherwise to the default. With rules, only the rules decide: an event
/// that matches none is unrouted, whatever its topic. Cheap to clone.
///
/// ```
/// use postrider::Event;
/// use postrider::route::{Route, Router, Rule};
///
/// let router = Router::to("orders").only(["order.*"]);
/// assert_eq!(router.route(&Event::new("order.placed", "{}")), Route::to("orders"));
/// assert_eq!(router.route(&Event::new("user.born", "{}")), Route::Filtered);
///
/// let router = Router::by_topic().first_match([
///     Rule::to("shop.{type}").types(["order.*"]).key("{header.customer}"),
///     Rule::to("{topic|other}"),
/// ])?;
/// assert_eq!(router.route(&Event::new("user.born", "{}")), Route::to("other"));
/// # Ok::<(), postrider::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Router {
    default: Option<Arc<str>>,
    only: Option<Arc<Globs>>,
    rules: Arc<[ParsedRule]>,
    mode: Mode,
    unrouted: Unrouted,
    names: Arc<NameCache>,
}

/// Which of several matching rules apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    #[default]
    First,
    Every,
}

/// What happens to an event that has no destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Unrouted {
    /// It is parked and shown by `status` until a relay starts whose rules match it.
    #[default]
    Park,
    /// It is done without delivery: this subscription never delivers it. Skipped events are counted.
    Skip,
}

/// The router's decision about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Route {
    /// Send it.
    To {
        /// The destination; if there are several, all their names.
        name: Arc<str>,
        /// Key, headers and copies that rules set; `None` if the message is the event unchanged.
        delivery: Option<Arc<Delivery>>,
    },
    /// The subscription does not want it: it is done.
    Filtered,
    /// No rule matched, and the subscription skips such events: it is done.
    Skipped,
    /// No rule matched: it is parked.
    Unrouted,
}

impl Route {
    /// To one destination, unchanged.
    pub fn to(name: impl Into<Arc<str>>) -> Self {
        Self::To { name: name.into(), delivery: None }
    }

    /// The key of the event's messages, if there is one.
    pub fn message_key<'a>(&'a self, event: &'a Event) -> Option<&'a str> {
        match self {
            Self::To { delivery, .. } => Delivery::message_key(delivery.as_deref(), event),
            Self::Filtered | Self::Skipped | Self::Unrouted => event.message_key(),
        }
    }

    /// The key that orders the event, if there is one: the rule's key, otherwise the event's.
    pub fn ordering_key<'a>(&'a self, event: &'a Event) -> Option<Cow<'a, str>> {
        match self {
            Self::To { delivery, .. } => Delivery::ordering_key(delivery.as_deref(), event),
            Self::Filtered | Self::Skipped | Self::Unrouted => event.ordering_key(),
        }
    }
}

impl Router {
    /// Sends an event to its topic, otherwise to `default`.
    pub fn to(default: impl Into<Arc<str>>) -> Self {
        Self { default: Some(default.into()), ..Self::default() }
    }

    /// Sends an event to its topic; an event without a topic is unrouted.
    pub fn by_topic() -> Self {
        Self::default()
    }

    /// Delivers only events of these types; `*` matches any text. Other events are [`Route::Filtered`], whatever their
    /// topic and the rules. Replaces an earlier list. An empty list matches nothing.
    #[must_use]
    pub fn only<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> Self {
        self.only = Some(Arc::new(types.into_iter().collect()));
        self
    }

    /// The types that it delivers, as [`only`](Self::only) was given them; `None` for all.
    pub(crate) fn types(&self) -> Option<Vec<String>> {
        self.only.as_ref().map(|globs| globs.sources().to_vec())
    }

    /// What happens to an event that has no destination.
    #[must_use]
    pub fn unrouted(mut self, unrouted: Unrouted) -> Self {
        self.unrouted = unrouted;
        self
    }

    /// Sends an event to the destination of the first rule that matches it. Replaces earlier rules.
    ///
    /// # Errors
    /// Names the rule, counted from 1, and what is wrong with it: [`Code::TemplateField`],
    /// [`Code::TemplateSyntax`], [`Code::RuleInvalid`], [`Code::HeaderName`], [`Code::HeaderReserved`].
    pub fn first_match(self, rules: impl IntoIterator<Item = Rule>) -> Result<Self> {
        self.with_rules(Mode::First, RULES_MAX, rules)
    }

    /// Sends an event to the destinations of all rules that match it, once to each destination. Replaces earlier rules.
    ///
    /// The event is done when every destination has acknowledged it. A retry sends only the missing copies; after a
    /// restart or takeover the relay does not know which were acknowledged and sends all again. If one destination of
    /// an event fails, the event waits for all of them: use a separate subscription for each destination to avoid that.
    ///
    /// # Errors
    /// As [`Router::first_match`], and [`Code::RuleInvalid`] if the rules do not all set the same key: an event has one
    /// place in one order.
    pub fn every_match(self, rules: impl IntoIterator<Item = Rule>) -> Result<Self> {
        let router = self.with_rules(Mode::Every, COPIES_MAX, rules)?;
        let mut keys = router.rules.iter().map(ParsedRule::key_template);
        let first = keys.next().flatten();
        if let Some(at) = keys.position(|key| key != first) {
            let what = format!(
                "rule {} has a different key than rule 1, but an event goes to all matching rules",
                at + 2
            );
            let hint =
                "use the same key template for all rules, or none; or use a separate subscription for each";
            return Err(Error::new(Code::RuleInvalid, what).with_hint(hint));
        }
        Ok(router)
    }

    fn with_rules(
        mut self,
        mode: Mode,
        rules_max: usize,
        rules: impl IntoIterator<Item = Rule>,
    ) -> Result<Self> {
        let read = |(at, rule)| ParsedRule::read(rule).map_err(|e| e.within(&format!("rule {}", at + 1)));
        self.rules = rules.into_iter().take(rules_max + 1).enumerate().map(read).collect::<Result<_>>()?;
        self.mode = mode;
        if self.rules.len() > rules_max {
            let what = format!("there are more than {rules_max} rules");
            return Err(Error::new(Code::RuleInvalid, what).with_hint("combine rules: names may contain '*'"));
        }
        Ok(self)
    }

    /// Adapts the router to a sink that uses destinations in this way. The relay calls it at startup; a program can
    /// call it earlier to check whether the rules fit the sink.
    ///
    /// For [`Destinations::Urls`] every value of an event in a destination is percent-encoded as one path segment or
    /// query value. A template that consists of a single field, and an event's topic, are URLs chosen by the event.
    /// For [`Destinations::Topics`] every value becomes one level of the topic.
    ///
    /// # Errors
    /// [`Code::TemplateSyntax`] if the topic of a rule contains a wildcard;
    /// [`Code::DestinationUnused`] if rules name destinations but the sink has a fixed one; [`Code::DestinationUrl`] if
    /// a destination cannot be a URL, [`Code::DestinationHost`] if events could choose the host but must not.
    pub fn for_destinations(mut self, destinations: Destinations) -> Result<Self> {
        let within = |at: usize| format!("rule {}", at + 1);
        match destinations {
            Destinations::Names => {}
            Destinations::Fixed => {
                if let Some(at) = self.rules.iter().position(ParsedRule::names_destination) {
                    let what = "the destination is never used: the sink sends every event to one destination";
                    return Err(Error::new(Code::DestinationUnused, what).within(&within(at)));
                }
            }
            Destinations::Urls { hosts_from_events } => {
                if self.rules.is_empty() && !hosts_from_events {
                    return Err(rule::host_from_event().within("without rules"));
                }
                let read = |(at, rule): (usize, &ParsedRule)| {
                    rule.for_urls(hosts_from_events).map_err(|e| e.within(&within(at)))
                };
                self.rules = self.rules.iter().enumerate().map(read).collect::<Result<_>>()?;
            }
            Destinations::Topics => {
                let read =
                    |(at, rule): (usize, &ParsedRule)| rule.for_topics().map_err(|e| e.within(&within(at)));
                self.rules = self.rules.iter().enumerate().map(read).collect::<Result<_>>()?;
            }
        }
        Ok(self)
    }

    /// Whether there are rules.
    pub(crate) fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Whether the rules name more than one destination, or one that depends on the event.
    pub(crate) fn has_several_destinations(&self) -> bool {
        let first = self.rules.first().map(ParsedRule::fixed_destination);
        first.is_some_and(|first| {
            first.is_none() || self.rules.iter().any(|rule| rule.fixed_destination() != first)
        })
    }

    /// Routes one event. The same event always gets the same route.
    pub fn route(&self, event: &Event) -> Route {
        if self.only.as_ref().is_some_and(|types| !types.matches(&event.event_type)) {
            return Route::Filtered;
        }
        let own = || self.own_destination(event);
        if self.rules.is_empty() {
            return own().map_or_else(|| self.unrouted_route(), Route::to);
        }
        let mut matches = self.rules.iter().filter_map(|rule| rule.apply(event, &self.names, own));
        let Some((first, key)) = matches.next() else { return self.unrouted_route() };
        let others = match self.mode {
            Mode::First => Vec::new(),
            Mode::Every => matches.map(|(copy, _)| copy).collect(),
        };
        // A rule's key that equals the event's key changes nothing. One that equals the aggregate's id does: without a
        // rule, the ordering key also contains the aggregate's type.
        let key = key.filter(|key| Some(key.as_str()) != event.key.as_deref());
        if others.is_empty() && key.is_none() && first.headers.is_empty() && first.origin.is_none() {
            return Route::to(first.destination);
        }
        let mut name = first.destination.clone();
        let mut copies = vec![first];
        for copy in others {
            if copies.iter().all(|earlier| earlier.destination != copy.destination) {
                name = self.names.join(&[&name, SEPARATOR, &copy.destination]);
                copies.push(copy);
            }
        }
        Route::To { name, delivery: Some(Arc::new(Delivery { key, copies })) }
    }

    fn own_destination(&self, event: &Event) -> Option<Arc<str>> {
        match &event.topic {
            Some(topic) => Some(self.names.join(&[topic])),
            None => self.default.clone(),
        }
    }

    fn unrouted_route(&self) -> Route {
        match self.unrouted {
            Unrouted::Park => Route::Unrouted,
            Unrouted::Skip => Route::Skipped,
        }
    }
}

#[cfg(test)]
mod tests;
