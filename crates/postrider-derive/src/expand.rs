//! Generates the implementation for the parsed type.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Generics, Ident, Member, Result, Type, parse_quote};

use crate::attributes::{OnField, OnType, refuse_on_variant};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let on_type = OnType::of(input)?;
    let shapes = shapes(input)?;
    check_aggregate(&on_type, &shapes)?;

    let event_type = &on_type.event_type;
    let aggregate = on_type.aggregate.iter().map(ToTokens::to_token_stream);
    let of_model = on_type.model.iter().map(|model| quote!(<#model as ::postrider::action::Named>::NAME));
    let aggregate = aggregate.chain(of_model);
    let aggregate_id = getter("aggregate_id", &shapes, |shape| shape.aggregate_id.as_ref());
    let key = getter("key", &shapes, |shape| shape.key.as_ref());
    let generics = bounded(&input.generics, &input.ident, &shapes);
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let name = &input.ident;
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::postrider::TypedEvent for #name #type_generics #where_clause {
            const TYPE: &'static ::core::primitive::str = #event_type;
            #(const AGGREGATE: ::core::option::Option<&'static ::core::primitive::str> =
                ::core::option::Option::Some(#aggregate);)*
            #aggregate_id
            #key
        }
    })
}

/// A struct, or one variant of an enum: how to match it, and its marked fields.
struct Shape {
    path: TokenStream,
    span: Span,
    aggregate_id: Option<Marked>,
    key: Option<Marked>,
}

#[derive(Clone)]
struct Marked {
    member: Member,
    ty: Type,
}

fn shapes(input: &DeriveInput) -> Result<Vec<Shape>> {
    match &input.data {
        Data::Struct(data) => Ok(vec![shape(quote!(Self), input.ident.span(), &data.fields)?]),
        Data::Enum(data) => {
            let each = data.variants.iter().map(|variant| {
                refuse_on_variant(&variant.attrs)?;
                let name = &variant.ident;
                shape(quote!(Self::#name), name.span(), &variant.fields)
            });
            each.collect()
        }
        Data::Union(data) => Err(Error::new(data.union_token.span, "a union cannot be an event")),
    }
}

fn shape(path: TokenStream, span: Span, fields: &Fields) -> Result<Shape> {
    let mut shape = Shape { path, span, aggregate_id: None, key: None };
    for (member, field) in fields.members().zip(fields) {
        let on = OnField::of(&field.attrs)?;
        let marked = Marked { member, ty: field.ty.clone() };
        set(&mut shape.aggregate_id, on.aggregate_id, "aggregate_id", &marked)?;
        set(&mut shape.key, on.key, "key", &marked)?;
    }
    Ok(shape)
}

fn set(place: &mut Option<Marked>, mark: Option<Span>, name: &str, field: &Marked) -> Result<()> {
    match (mark, &place) {
        (None, _) => Ok(()),
        (Some(span), Some(_)) => Err(Error::new(span, format!("another field is already the `{name}`"))),
        (Some(_), None) => {
            *place = Some(field.clone());
            Ok(())
        }
    }
}

/// An aggregate needs an id in every variant, and an id needs an aggregate: otherwise one of them would be silently
/// lost.
fn check_aggregate(on_type: &OnType, shapes: &[Shape]) -> Result<()> {
    for shape in shapes {
        match (&on_type.aggregate, &shape.aggregate_id) {
            (Some(_), None) => {
                let what = "`aggregate` needs a field with its id: mark it `#[event(aggregate_id)]`";
                return Err(Error::new(shape.span, what));
            }
            (None, Some(field)) if on_type.model.is_none() => {
                let what =
                    "`aggregate_id` needs an aggregate type: add `aggregate = \"...\"` on the struct or enum";
                return Err(Error::new(field.member.span(), what));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The method that reads a marked field; without one, the trait's default `None` applies.
fn getter(name: &str, shapes: &[Shape], field: impl Fn(&Shape) -> Option<&Marked>) -> TokenStream {
    if shapes.iter().all(|shape| field(shape).is_none()) {
        return TokenStream::new();
    }
    let name = format_ident!("{name}");
    let arms = shapes.iter().map(|shape| {
        let path = &shape.path;
        match field(shape) {
            None => quote!(#path { .. } => ::core::option::Option::None,),
            Some(Marked { member, ty }) => {
                // With the span of the type, the error for a missing Display points to the field.
                let text = quote_spanned!(ty.span()=> <#ty as ::std::string::ToString>::to_string(value));
                quote!(#path { #member: value, .. } => ::core::option::Option::Some(#text),)
            }
        }
    });
    quote! {
        fn #name(&self) -> ::core::option::Option<::std::string::String> {
            match self { #(#arms)* }
        }
    }
}

/// A generic type is an event if it implements Serialize and its marked fields implement Display.
fn bounded(generics: &Generics, name: &Ident, shapes: &[Shape]) -> Generics {
    let mut bounded = generics.clone();
    if generics.type_params().next().is_none() {
        return bounded;
    }
    let (_, type_generics, _) = generics.split_for_impl();
    let clause = bounded.make_where_clause();
    clause.predicates.push(parse_quote!(#name #type_generics: ::postrider::__private::Serialize));
    let mut seen = Vec::new();
    for Marked { ty, .. } in shapes.iter().flat_map(|s| s.aggregate_id.iter().chain(&s.key)) {
        let text = ty.to_token_stream().to_string();
        if !seen.contains(&text) {
            clause.predicates.push(parse_quote!(#ty: ::core::fmt::Display));
            seen.push(text);
        }
    }
    bounded
}
