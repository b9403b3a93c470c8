//! `#[derive(Entity)]` and `#[derive(Model)]`: id, version, and the table in the plain case.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Error, Field, Fields, Ident, LitStr, Result, Type};

use crate::attributes::{each, mark, name, text, unknown};
use crate::named;

/// Which of the two derives it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Entity,
    Model,
}

impl Kind {
    fn attribute(self) -> &'static str {
        match self {
            Self::Entity => "entity",
            Self::Model => "model",
        }
    }
}

/// The attribute on the struct.
#[derive(Default)]
struct OnStruct {
    name: Option<LitStr>,
    table: Option<LitStr>,
    sharded: Option<proc_macro2::Span>,
}

/// One field and its column.
struct Column<'f> {
    field: &'f Ident,
    ty: &'f Type,
    name: LitStr,
}

pub(crate) fn expand(input: &DeriveInput, kind: Kind) -> Result<TokenStream> {
    let on = on_struct(input, kind)?;
    if !input.generics.params.is_empty() {
        let what = "an entity cannot be generic: its name is stored, and names one Rust type";
        return Err(Error::new_spanned(&input.generics, what));
    }
    let fields = named_fields(input)?;
    let id = marked(input, fields, kind, "id")?;
    let version = marked(input, fields, kind, "version")?;
    let columns = columns(fields, kind)?;

    let ident = &input.ident;
    let (id_field, id_type, version_field) = (&columns[id].field, &columns[id].ty, &columns[version].field);
    let named = named::implementation(input, on.name.clone());
    let shard = on.sharded.map(|_| {
        quote! {
            fn shard_of(id: &Self::Id) -> ::postrider::action::Shard {
                ::postrider::action::Shard::of(id)
            }
        }
    });
    let model = (kind == Kind::Model).then(|| {
        quote! {
            #[automatically_derived]
            impl ::postrider::action::Model for #ident {}
        }
    });
    let table = on.table.map(|table| table_of(ident, &table, &columns, id, version)).transpose()?;
    Ok(quote! {
        #named
        #[automatically_derived]
        impl ::postrider::action::Entity for #ident {
            type Id = #id_type;

            fn id(&self) -> &Self::Id {
                &self.#id_field
            }

            fn version(&self) -> ::core::primitive::i64 {
                <::core::primitive::i64 as ::core::convert::From<_>>::from(self.#version_field)
            }

            fn set_version(&mut self, version: ::core::primitive::i64) {
                if let ::core::result::Result::Ok(version) = ::core::convert::TryFrom::try_from(version) {
                    self.#version_field = version;
                }
            }

            #shard
        }
        #model
        #table
    })
}

fn on_struct(input: &DeriveInput, kind: Kind) -> Result<OnStruct> {
    let other = if kind == Kind::Model { "entity" } else { "model" };
    if named::has(&input.attrs, other) {
        let what = format!("`#[{other}(...)]` belongs to another derive: use `#[{}(...)]`", kind.attribute());
        return Err(Error::new(input.ident.span(), what));
    }
    let mut on = OnStruct::default();
    each(&input.attrs, kind.attribute(), |meta| match name(&meta).as_str() {
        "name" => text(&meta, &mut on.name),
        "table" => text(&meta, &mut on.table),
        "sharded" => mark(&meta, &mut on.sharded),
        "id" | "version" | "column" => Err(meta.error("this attribute belongs on a field")),
        other => Err(unknown(&meta, other, "`name`, `table` and `sharded` on a struct")),
    })?;
    Ok(on)
}

fn named_fields(input: &DeriveInput) -> Result<&Fields> {
    match &input.data {
        Data::Struct(data) if matches!(data.fields, Fields::Named(_)) => Ok(&data.fields),
        _ => Err(Error::new(input.ident.span(), "an entity is a struct with named fields")),
    }
}

/// The place of the field that is marked, or that has this name.
fn marked(input: &DeriveInput, fields: &Fields, kind: Kind, wanted: &str) -> Result<usize> {
    let mut found = None;
    for (place, field) in fields.iter().enumerate() {
        if is_marked(field, kind, wanted)? && found.replace(place).is_some() {
            let what = format!("another field is already the `{wanted}`");
            return Err(Error::new_spanned(field, what));
        }
    }
    let named =
        || fields.iter().position(|field| field.ident.as_ref().is_some_and(|name| name.unraw() == wanted));
    found.or_else(named).ok_or_else(|| {
        let attribute = kind.attribute();
        let what =
            format!("no field is the {wanted}: name one `{wanted}`, or mark it `#[{attribute}({wanted})]`");
        Error::new(input.ident.span(), what)
    })
}

fn is_marked(field: &Field, kind: Kind, wanted: &str) -> Result<bool> {
    let mut is_marked = false;
    each(&field.attrs, kind.attribute(), |meta| match name(&meta).as_str() {
        found @ ("id" | "version") => {
            is_marked |= found == wanted;
            Ok(())
        }
        "column" => text(&meta, &mut None),
        "name" | "table" | "sharded" => Err(meta.error("this attribute belongs on the struct")),
        other => Err(unknown(&meta, other, "`id`, `version` and `column` on a field")),
    })?;
    Ok(is_marked)
}

fn columns(fields: &Fields, kind: Kind) -> Result<Vec<Column<'_>>> {
    let column = |field| column_of(field, kind).transpose();
    fields.iter().filter_map(column).collect()
}

fn column_of(field: &Field, kind: Kind) -> Result<Option<Column<'_>>> {
    let Some(ident) = &field.ident else { return Ok(None) };
    let mut fixed = None;
    each(&field.attrs, kind.attribute(), |meta| match name(&meta).as_str() {
        "column" => text(&meta, &mut fixed),
        _ => Ok(()),
    })?;
    let own = || LitStr::new(&ident.unraw().to_string(), ident.span());
    Ok(Some(Column { field: ident, ty: &field.ty, name: fixed.unwrap_or_else(own) }))
}

fn table_of(
    ident: &Ident,
    table: &LitStr,
    columns: &[Column<'_>],
    id: usize,
    version: usize,
) -> Result<TokenStream> {
    let text = table.value();
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() > 2 || !parts.iter().all(|part| is_plain(part)) {
        let what = "a table is `name` or `schema.name`, of letters, digits and underscores";
        return Err(Error::new(table.span(), what));
    }
    for column in columns {
        if !is_plain(&column.name.value()) {
            let what = "the name of a column consists of letters, digits and underscores";
            return Err(Error::new(column.name.span(), what));
        }
        if columns.iter().filter(|other| other.name.value() == column.name.value()).count() > 1 {
            return Err(Error::new(column.name.span(), "two fields have this column"));
        }
    }
    let names = columns.iter().map(|column| &column.name);
    let places = 0..columns.len();
    let (fields, types) = (columns.iter().map(|column| column.field), columns.iter().map(|column| column.ty));
    Ok(quote! {
        #[automatically_derived]
        impl ::postrider::action::Table for #ident {
            const TABLE: &'static [&'static ::core::primitive::str] = &[#(#parts),*];
            const COLUMNS: &'static [&'static ::core::primitive::str] = &[#(#names),*];
            const ID: ::core::primitive::usize = #id;
            const VERSION: ::core::primitive::usize = #version;
        }
        ::postrider::__sqlx_row! { #ident { #(#places #fields: #types),* } }
    })
}

/// A name that can be put between the quotes of every database.
fn is_plain(name: &str) -> bool {
    name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
