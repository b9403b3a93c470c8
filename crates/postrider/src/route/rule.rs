//! One rule: which events it matches, where they go, and the key and headers it sets.

use std::sync::Arc;

use super::delivery::DeliveryCopy;
use super::glob::Globs;
use super::names::NameCache;
use super::template::Template;
use crate::event::check_header_name;
use crate::{Code, Error, Event, Headers, Result};

/// A routing rule; [`Router::first_match`](super::Router::first_match) parses its templates.
///
/// A rule without conditions matches every event. `*` in a name matches any text, including dots. An event that lacks a
/// field that a template of the rule needs does not match the rule; the next rule is tried.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    types: Option<Vec<String>>,
    aggregates: Option<Vec<String>>,
    destination: Option<String>,
    key: Option<String>,
    headers: Vec<(String, String)>,
}

impl Rule {
    /// A rule for every event, to the event's topic, otherwise to the router's default.
    pub fn new() -> Self {
        Self::default()
    }

    /// A rule for every event, to the destination of this template.
    pub fn to(destination: impl Into<String>) -> Self {
        Self { destination: Some(destination.into()), ..Self::default() }
    }

    /// Only for events of these types.
    #[must_use]
    pub fn types<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> Self {
        self.types = Some(types.into_iter().map(Into::into).collect());
        self
    }

    /// Only for events with these aggregate types; an event without an aggregate does not match.
    #[must_use]
    pub fn aggregates<T: Into<String>>(mut self, kinds: impl IntoIterator<Item = T>) -> Self {
        self.aggregates = Some(kinds.into_iter().map(Into::into).collect());
        self
    }

    /// Template of the key, for ordering and in the message.
    #[must_use]
    pub fn key(mut self, template: impl Into<String>) -> Self {
        self.key = Some(template.into());
        self
    }

    /// Template of a header. It replaces the event's header with the same name.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, template: impl Into<String>) -> Self {
        self.headers.push((name.into(), template.into()));
        self
    }
}

/// A rule with parsed templates.
#[derive(Debug, Clone)]
pub(super) struct ParsedRule {
    types: Option<Globs>,
    aggregates: Option<Globs>,
    destination: DestinationSource,
    /// Scheme, host and port of the destination, if it is a URL and no value of the event can change them.
    origin: Option<Arc<str>>,
    key: Option<Template>,
    headers: Vec<(String, Template)>,
}

#[derive(Debug, Clone)]
enum DestinationSource {
    /// The event's topic, otherwise the router's default.
    Own,
    Fixed(Arc<str>),
    Template(Template),
}

impl ParsedRule {
    /// Parses a rule.
    ///
    /// # Errors
    /// [`Code::TemplateSyntax`], [`Code::TemplateField`], [`Code::RuleInvalid`], [`Code::HeaderName`] or
    /// [`Code::HeaderReserved`].
    pub(super) fn read(rule: Rule) -> Result<Self> {
        let destination = match rule.destination {
            None => DestinationSource::Own,
            Some(text) => {
                let template = Template::parse_filled(&text).map_err(|e| e.within("destination"))?;
                match template.literal() {
                    Some(literal) => DestinationSource::Fixed(literal.into()),
                    None => DestinationSource::Template(template),
                }
            }
        };
        let key = rule.key.as_deref().map(Template::parse_filled).transpose();
        let header = |(name, text): (String, String)| {
            check_header(&name)?;
            let template = Template::parse(&text).map_err(|e| e.within(&format!("header {name:?}")))?;
            Ok((name, template))
        };
        Ok(Self {
            types: globs(rule.types, "types")?,
            aggregates: globs(rule.aggregates, "aggregates")?,
            destination,
            origin: None,
            key: key.map_err(|e| e.within("key"))?,
            headers: rule.headers.into_iter().map(header).collect::<Result<_>>()?,
        })
    }

    pub(super) fn key_template(&self) -> Option<&Template> {
        self.key.as_ref()
    }

    /// The destination, if it is the same for every event.
    pub(super) fn fixed_destination(&self) -> Option<&Arc<str>> {
        match &self.destination {
            DestinationSource::Fixed(name) => Some(name),
            DestinationSource::Own | DestinationSource::Template(_) => None,
        }
    }

    /// Whether the rule itself names a destination.
    pub(super) fn names_destination(&self) -> bool {
        !matches!(self.destination, DestinationSource::Own)
    }

    /// The same rule for a sink whose destinations are URLs.
    ///
    /// # Errors
    /// [`Code::DestinationUrl`], and [`Code::DestinationHost`] if an event could choose the host but must not.
    pub(super) fn for_urls(&self, hosts_from_events: bool) -> Result<Self> {
        let (destination, origin) = match self.destination.clone() {
            DestinationSource::Own => (DestinationSource::Own, None),
            DestinationSource::Fixed(name) => {
                let (_, origin) = Template::of_literal(&name).into_url()?;
                (DestinationSource::Fixed(name), origin)
            }
            DestinationSource::Template(template) => {
                let (template, origin) = template.into_url()?;
                (DestinationSource::Template(template), origin)
            }
        };
        if origin.is_none() && !hosts_from_events {
            return Err(host_from_event());
        }
        Ok(Self { destination, origin, ..self.clone() })
    }

    /// The same rule for a sink whose destinations are MQTT topics.
    ///
    /// # Errors
    /// [`Code::TemplateSyntax`] if the topic contains a wildcard.
    pub(super) fn for_topics(&self) -> Result<Self> {
        let destination = match self.destination.clone() {
            DestinationSource::Own => DestinationSource::Own,
            DestinationSource::Fixed(name) => {
                Template::of_literal(&name).into_topic()?;
                DestinationSource::Fixed(name)
            }
            DestinationSource::Template(template) => DestinationSource::Template(template.into_topic()?),
        };
        Ok(Self { destination, ..self.clone() })
    }

    /// The message of an event and the rule's key for it, if the rule has one; `None` if the rule does not match.
    pub(super) fn apply(
        &self,
        event: &Event,
        names: &NameCache,
        own: impl FnOnce() -> Option<Arc<str>>,
    ) -> Option<(DeliveryCopy, Option<String>)> {
        let aggregate = event.aggregate.as_ref().map(|aggregate| aggregate.kind.as_str());
        if self.types.as_ref().is_some_and(|types| !types.matches(&event.event_type))
            || self
                .aggregates
                .as_ref()
                .is_some_and(|kinds| !aggregate.is_some_and(|kind| kinds.matches(kind)))
        {
            return None;
        }
        let rendered = |template: &Template| {
            let mut text = String::new();
            template.render(event, &mut text).then_some(text)
        };
        let key = match &self.key {
            Some(template) => Some(rendered(template)?),
            None => None,
        };
        let header = |(name, template): &(String, Template)| Some((name.clone(), rendered(template)?));
        let headers = self.headers.iter().map(header).collect::<Option<Headers>>()?;
        let destination = match &self.destination {
            DestinationSource::Own => own()?,
            DestinationSource::Fixed(name) => name.clone(),
            DestinationSource::Template(template) => names.intern(|text| template.render(event, text))?,
        };
        Some((DeliveryCopy { destination, headers, origin: self.origin.clone() }, key))
    }
}

/// The error for a rule with which an event could choose where the sink's token and signature are sent.
pub(super) fn host_from_event() -> Error {
    let what = "the host of the destination is a value of the event, but the sink allows no such host";
    Error::new(Code::DestinationHost, what)
}

fn globs(names: Option<Vec<String>>, list: &str) -> Result<Option<Globs>> {
    let globs: Option<Globs> = names.map(|names| names.into_iter().collect());
    if globs.as_ref().is_some_and(Globs::is_empty) {
        let what = format!("the list of {list} is empty, so the rule matches nothing");
        return Err(Error::new(Code::RuleInvalid, what).with_hint("omit the list to match all"));
    }
    Ok(globs)
}

fn check_header(name: &str) -> Result<()> {
    check_header_name(name)?;
    if name.eq_ignore_ascii_case("content-type") {
        let what = "a rule cannot set \"content-type\"; the encoder sets it";
        return Err(
            Error::new(Code::RuleInvalid, what).with_hint("set that header on the event when it is written")
        );
    }
    Ok(())
}
