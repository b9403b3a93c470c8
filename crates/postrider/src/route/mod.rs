//! Event to destination name, key and headers. `docs/src/routing.md` explains the rules to their users.

mod field;
mod glob;
mod delivery;
mod names;
mod rule;
mod template;

pub use delivery::{Delivery, DeliveryCopy};
pub use rule::Rule;

use std::borrow::Cow;
use std::sync::Arc;

use crate::sink::Destinations;
use crate::{Code, Error, Event, Result};
use glob::Globs;
use names::Names;
use rule::Parsed;

/// Rules of one router: each may be asked of every event.
const RULES_MAX: usize = 1_000;
/// Rules of a router where every match counts: bounds the messages that one event becomes.
const COPIES_MAX: usize = 16;
/// Between the names of several destinations.
const SEPARATOR: &str = " + ";

/// Decides where the events of one subscription go.
///
/// Without rules, an event goes to its own topic, else to the default. With rules, they alone decide: an
/// event that none matches is unrouted, whatever its topic. Cheap to clone; clones share what they learnt.
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
    rules: Arc<[Parsed]>,
    mode: Mode,
    unrouted: Unrouted,
    names: Arc<Names>,
}

/// Which of several matching rules count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    #[default]
    First,
    Every,
}

/// What becomes of an event that has nowhere to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Unrouted {
    /// It is held back, visibly, until the rules know it.
    #[default]
    Hold,
    /// It counts as done. It is counted, and lost to this subscription.
    Skip,
}

/// What the router says of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Route {
    /// Send it.
    To {
        /// Name of the destination; of several, all their names.
        name: Arc<str>,
        /// What else there is to say; `None` if the message is simply the event.
        delivery: Option<Arc<Delivery>>,
    },
    /// The subscription does not want it: it is done.
    Filtered,
    /// No rule says where to, and the subscription does without: it is done.
    Skipped,
    /// The subscription wants it and no rule says where to: hold it back, visibly.
    Unrouted,
}

impl Route {
    /// To one destination, as it is.
    pub fn to(name: impl Into<Arc<str>>) -> Self {
        Self::To { name: name.into(), delivery: None }
    }

    /// The key that messages of an event that goes this way carry, if there is one.
    pub fn message_key<'a>(&'a self, event: &'a Event) -> Option<&'a str> {
        match self {
            Self::To { delivery, .. } => Delivery::message_key(delivery.as_deref(), event),
            Self::Filtered | Self::Skipped | Self::Unrouted => event.message_key(),
        }
    }

    /// What orders an event that goes this way, if something does. Where no rule gives a key it is the event's.
    pub fn ordering_key<'a>(&'a self, event: &'a Event) -> Option<Cow<'a, str>> {
        match self {
            Self::To { delivery, .. } => Delivery::ordering_key(delivery.as_deref(), event),
            Self::Filtered | Self::Skipped | Self::Unrouted => event.ordering_key(),
        }
    }
}

impl Router {
    /// Sends an event to its own topic, else to `default`.
    pub fn to(default: impl Into<Arc<str>>) -> Self {
        Self { default: Some(default.into()), ..Self::default() }
    }

    /// Sends an event to its own topic; one without has nowhere to go.
    pub fn by_topic() -> Self {
        Self::default()
    }

    /// Takes only events of these types, in which `*` stands for any text; others are [`Route::Filtered`],
    /// whatever their topic and the rules. Replaces an earlier list. An empty list takes nothing.
    #[must_use]
    pub fn only<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> Self {
        self.only = Some(Arc::new(types.into_iter().collect()));
        self
    }

    /// What becomes of an event that has nowhere to go.
    #[must_use]
    pub fn unrouted(mut self, unrouted: Unrouted) -> Self {
        self.unrouted = unrouted;
        self
    }

    /// Sends an event where the first rule that matches it says. Replaces earlier rules.
    ///
    /// # Errors
    /// Names the rule, counted from 1, and what is wrong with it: [`Code::TemplateField`],
    /// [`Code::TemplateSyntax`], [`Code::RuleInvalid`], [`Code::HeaderName`], [`Code::HeaderReserved`].
    pub fn first_match(self, rules: impl IntoIterator<Item = Rule>) -> Result<Self> {
        self.with_rules(Mode::First, RULES_MAX, rules)
    }

    /// Sends an event where every rule that matches it says, once to each destination. Replaces earlier rules.
    ///
    /// The event is done when every destination has acknowledged it. If some have not, the others keep
    /// theirs and only the missing are sent again; a relay that starts again does not know who had it and
    /// sends all again. The destinations of an event share a fate: where that is not wanted, use one
    /// subscription for each.
    ///
    /// # Errors
    /// As [`Router::first_match`], and [`Code::RuleInvalid`] if the rules do not all give the same key: an
    /// event has one place in one order.
    pub fn every_match(self, rules: impl IntoIterator<Item = Rule>) -> Result<Self> {
        let router = self.with_rules(Mode::Every, COPIES_MAX, rules)?;
        let mut keys = router.rules.iter().map(Parsed::key_template);
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
        let read = |(at, rule)| Parsed::read(rule).map_err(|e| e.within(&format!("rule {}", at + 1)));
        self.rules = rules.into_iter().take(rules_max + 1).enumerate().map(read).collect::<Result<_>>()?;
        self.mode = mode;
        if self.rules.len() > rules_max {
            let what = format!("there are more than {rules_max} rules");
            return Err(Error::new(Code::RuleInvalid, what).with_hint("combine rules: names may contain '*'"));
        }
        Ok(self)
    }

    /// The same router for a sink that makes this of destinations. The relay calls it when it starts; a program calls
    /// it to learn before then whether the rules fit the sink.
    ///
    /// For [`Destinations::Urls`] every value of an event in a destination is percent-encoded as one path segment or
    /// query value. A template that is one field alone, and an event's topic, are URLs that the event chooses.
    ///
    /// # Errors
    /// [`Code::DestinationUnused`] if rules name destinations and the sink has its own; [`Code::DestinationUrl`] if a
    /// destination cannot be a URL, [`Code::DestinationHost`] if events could choose the host and must not.
    pub fn for_destinations(mut self, destinations: Destinations) -> Result<Self> {
        let within = |at: usize| format!("rule {}", at + 1);
        match destinations {
            Destinations::Names => {}
            Destinations::Fixed => {
                if let Some(at) = self.rules.iter().position(Parsed::names_destination) {
                    let what = "the destination is never used: the sink sends every event to one destination";
                    return Err(Error::new(Code::DestinationUnused, what).within(&within(at)));
                }
            }
            Destinations::Urls { hosts_from_events } => {
                if self.rules.is_empty() && !hosts_from_events {
                    return Err(rule::host_from_event().within("without rules"));
                }
                let read = |(at, rule): (usize, &Parsed)| {
                    rule.for_urls(hosts_from_events).map_err(|e| e.within(&within(at)))
                };
                self.rules = self.rules.iter().enumerate().map(read).collect::<Result<_>>()?;
            }
        }
        Ok(self)
    }

    /// Whether rules decide, and not the event's topic alone.
    pub(crate) fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Whether the rules name more than one destination, or one that depends on the event.
    pub(crate) fn has_several_destinations(&self) -> bool {
        let first = self.rules.first().map(Parsed::fixed_destination);
        first.is_some_and(|first| {
            first.is_none() || self.rules.iter().any(|rule| rule.fixed_destination() != first)
        })
    }

    /// Decides for one event. The same event always goes the same way.
    pub fn route(&self, event: &Event) -> Route {
        if self.only.as_ref().is_some_and(|types| !types.matches(&event.event_type)) {
            return Route::Filtered;
        }
        let own = || self.own_destination(event);
        if self.rules.is_empty() {
            return own().map_or_else(|| self.nowhere(), Route::to);
        }
        let mut matches = self.rules.iter().filter_map(|rule| rule.apply(event, &self.names, own));
        let Some((first, key)) = matches.next() else { return self.nowhere() };
        let others = match self.mode {
            Mode::First => Vec::new(),
            Mode::Every => matches.map(|(copy, _)| copy).collect(),
        };
        // A key that changes nothing needs no delivery. That of an aggregate's id does: it orders whatever its type.
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

    fn nowhere(&self) -> Route {
        match self.unrouted {
            Unrouted::Hold => Route::Unrouted,
            Unrouted::Skip => Route::Skipped,
        }
    }
}

#[cfg(test)]
mod tests;
