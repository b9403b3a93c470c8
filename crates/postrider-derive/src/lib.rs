//! `#[derive(Event)]`: makes a type of the application an event. Used through `postrider` with its
//! feature `derive`.

mod attributes;
mod expand;
mod suggest;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `postrider::TypedEvent`.
///
/// ```
/// use postrider::{Event, IntoEvent};
///
/// #[derive(serde::Serialize, Event)]
/// #[event(type = "order.placed", aggregate = "Order")]
/// struct OrderPlaced {
///     #[event(aggregate_id)]
///     order: u64,
///     #[event(key)]
///     customer: String,
/// }
///
/// let event = (&OrderPlaced { order: 42, customer: "ann".into() }).into_event()?;
/// assert_eq!(event.event_type, "order.placed");
/// assert_eq!(event.message_key(), Some("ann"));
/// # Ok::<(), postrider::Error>(())
/// ```
///
/// On the struct or enum:
/// - `type = "..."`: the event's type in messages. Required, so that renaming the Rust type does not change it.
/// - `aggregate = "..."`: the type of the aggregate. Needs an `aggregate_id`.
///
/// On a field, in each variant of an enum at most one of each:
/// - `aggregate_id`: the id of the aggregate. Any type with `Display`.
/// - `key`: the ordering key, if it is not the aggregate. Any type with `Display`.
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
