//! The attribute `#[event(...)]` on a type and on a field.

use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, DeriveInput, Error, LitStr, Result};

use crate::suggest;

/// `#[event(type = "...", aggregate = "...")]` on the struct or enum.
pub(crate) struct OnType {
    pub(crate) event_type: LitStr,
    pub(crate) aggregate: Option<LitStr>,
}

impl OnType {
    pub(crate) fn of(input: &DeriveInput) -> Result<Self> {
        let (mut event_type, mut aggregate) = (None, None);
        each(&input.attrs, |meta| match name(&meta).as_str() {
            "type" => text(&meta, &mut event_type),
            "aggregate" => text(&meta, &mut aggregate),
            "key" | "aggregate_id" => Err(meta.error("this attribute belongs on a field")),
            other => Err(unknown(&meta, other, "`type` and `aggregate` on a type")),
        })?;
        let event_type = event_type.ok_or_else(|| {
            let proposal = suggest::event_type(&input.ident.to_string());
            let what = format!(
                "the event needs a type name that is independent of the Rust name: add `#[event(type = \"{proposal}\")]`"
            );
            Error::new(input.ident.span(), what)
        })?;
        Ok(Self { event_type, aggregate })
    }
}

/// `#[event(aggregate_id, key)]` on a field.
#[derive(Default)]
pub(crate) struct OnField {
    pub(crate) aggregate_id: Option<Span>,
    pub(crate) key: Option<Span>,
}

impl OnField {
    pub(crate) fn of(attributes: &[Attribute]) -> Result<Self> {
        let mut on = Self::default();
        each(attributes, |meta| match name(&meta).as_str() {
            "aggregate_id" => mark(&meta, &mut on.aggregate_id),
            "key" => mark(&meta, &mut on.key),
            "type" | "aggregate" => Err(meta.error("this attribute belongs on the struct or enum")),
            other => Err(unknown(&meta, other, "`aggregate_id` and `key` on a field")),
        })?;
        Ok(on)
    }
}

/// A variant cannot have the attribute: one Rust type is one event type.
pub(crate) fn refuse_on_variant(attributes: &[Attribute]) -> Result<()> {
    each(attributes, |meta| {
        Err(meta.error(
            "a variant cannot have a separate event type: put `#[event(type = \"...\")]` on the enum, \
             or make each variant a struct that derives Event",
        ))
    })
}

fn each(attributes: &[Attribute], take: impl FnMut(ParseNestedMeta<'_>) -> Result<()>) -> Result<()> {
    let mut take = take;
    attributes.iter().filter(|a| a.path().is_ident("event")).try_for_each(|a| a.parse_nested_meta(&mut take))
}

fn name(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.get_ident().map(ToString::to_string).unwrap_or_default()
}

fn text(meta: &ParseNestedMeta<'_>, place: &mut Option<LitStr>) -> Result<()> {
    let literal: LitStr = meta.value()?.parse()?;
    let value = literal.value();
    if value.is_empty() || value.chars().any(char::is_control) {
        return Err(Error::new(literal.span(), "this must be a non-empty text without control characters"));
    }
    once(meta, place.replace(literal).is_some())
}

fn mark(meta: &ParseNestedMeta<'_>, place: &mut Option<Span>) -> Result<()> {
    let span = meta.path.get_ident().map_or_else(Span::call_site, syn::Ident::span);
    once(meta, place.replace(span).is_some())
}

fn once(meta: &ParseNestedMeta<'_>, again: bool) -> Result<()> {
    if again { Err(meta.error("this attribute is repeated")) } else { Ok(()) }
}

fn unknown(meta: &ParseNestedMeta<'_>, name: &str, valid: &str) -> Error {
    meta.error(format!("unknown attribute `{name}`; valid are {valid}"))
}
