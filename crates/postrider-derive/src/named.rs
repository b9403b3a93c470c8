//! `#[derive(Action)]`: the name of an action.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{Attribute, DeriveInput, LitStr, Result};

use crate::attributes::{each, name, text, unknown};

pub(crate) fn expand_action(input: &DeriveInput) -> Result<TokenStream> {
    let mut fixed = None;
    each(&input.attrs, "action", |meta| match name(&meta).as_str() {
        "name" => text(&meta, &mut fixed),
        other => Err(unknown(&meta, other, "`name`")),
    })?;
    Ok(implementation(input, fixed))
}

/// The implementation of `Named`: the given name, or the type's own one without path.
pub(crate) fn implementation(input: &DeriveInput, fixed: Option<LitStr>) -> TokenStream {
    let own = LitStr::new(&input.ident.unraw().to_string(), input.ident.span());
    let (name, ident) = (fixed.unwrap_or(own), &input.ident);
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics ::postrider::action::Named for #ident #type_generics #where_clause {
            const NAME: &'static ::core::primitive::str = #name;
        }
    }
}

/// Whether there is an attribute of this name, for an error about the wrong one.
pub(crate) fn has(attributes: &[Attribute], name: &str) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident(name))
}
