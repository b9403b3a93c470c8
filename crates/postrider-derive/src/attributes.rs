//! The attribute `#[event(...)]` on a type and on a field, and how attributes are read.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, DeriveInput, Error, LitStr, Path, Result};

use crate::suggest;

/// `#[event(type = "...", aggregate = "...", model = ...)]` on the struct or enum.
pub(crate) struct OnType {
    pub(crate) event_type: LitStr,
    pub(crate) aggregate: Option<LitStr>,
    /// The model that emits it in a plan.
    pub(crate) model: Option<Path>,
}

impl OnType {
    pub(crate) fn of(input: &DeriveInput) -> Result<Self> {
        let (mut event_type, mut aggregate, mut model) = (None, None, None);
        each(&input.attrs, "event", |meta| match name(&meta).as_str() {
            "type" => text(&meta, &mut event_type),
            "aggregate" => text(&meta, &mut aggregate),
            "model" => {
                let path: Path = meta.value()?.parse()?;
                once(&meta, model.replace(path).is_some())
            }
            "key" | "aggregate_id" => Err(meta.error("this attribute belongs on a field")),
            other => Err(unknown(&meta, other, "`type`, `aggregate` and `model` on a type")),
        })?;
        if let (Some(aggregate), Some(_)) = (&aggregate, &model) {
            let what = "the model is the aggregate: remove `aggregate`";
            return Err(Error::new(aggregate.span(), what));
        }
        // The executor of actions refuses two types with one name, so the own name of the type is safe there.
        let own = model.as_ref().map(|_| LitStr::new(&input.ident.unraw().to_string(), input.ident.span()));
        let event_type = event_type.or(own).ok_or_else(|| {
            let proposal = suggest::event_type(&input.ident.to_string());
            let what = format!(
                "the event needs a type name that is independent of the Rust name: add `#[event(type = \"{proposal}\")]`"
            );
            Error::new(input.ident.span(), what)
        })?;
        Ok(Self { event_type, aggregate, model })
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
        each(attributes, "event", |meta| match name(&meta).as_str() {
            "aggregate_id" => mark(&meta, &mut on.aggregate_id),
            "key" => mark(&meta, &mut on.key),
            "type" | "aggregate" | "model" => Err(meta.error("this attribute belongs on the struct or enum")),
            other => Err(unknown(&meta, other, "`aggregate_id` and `key` on a field")),
        })?;
        Ok(on)
    }
}

/// A variant cannot have the attribute: one Rust type is one event type.
pub(crate) fn refuse_on_variant(attributes: &[Attribute]) -> Result<()> {
    each(attributes, "event", |meta| {
        Err(meta.error(
            "a variant cannot have a separate event type: put `#[event(type = \"...\")]` on the enum, \
             or make each variant a struct that derives Event",
        ))
    })
}

pub(crate) fn each(
    attributes: &[Attribute],
    attribute: &str,
    mut take: impl FnMut(ParseNestedMeta<'_>) -> Result<()>,
) -> Result<()> {
    attributes
        .iter()
        .filter(|a| a.path().is_ident(attribute))
        .try_for_each(|a| a.parse_nested_meta(&mut take))
}

pub(crate) fn name(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.get_ident().map(ToString::to_string).unwrap_or_default()
}

pub(crate) fn text(meta: &ParseNestedMeta<'_>, place: &mut Option<LitStr>) -> Result<()> {
    let literal: LitStr = meta.value()?.parse()?;
    let value = literal.value();
    if value.is_empty() || value.chars().any(char::is_control) {
        return Err(Error::new(literal.span(), "this must be a non-empty text without control characters"));
    }
    once(meta, place.replace(literal).is_some())
}

pub(crate) fn mark(meta: &ParseNestedMeta<'_>, place: &mut Option<Span>) -> Result<()> {
    let span = meta.path.get_ident().map_or_else(Span::call_site, syn::Ident::span);
    once(meta, place.replace(span).is_some())
}

fn once(meta: &ParseNestedMeta<'_>, again: bool) -> Result<()> {
    if again { Err(meta.error("this attribute is repeated")) } else { Ok(()) }
}

pub(crate) fn unknown(meta: &ParseNestedMeta<'_>, name: &str, valid: &str) -> Error {
    meta.error(format!("unknown attribute `{name}`; valid are {valid}"))
}
