//! `#[derive(Event)]`: makes a type of the application an event. Used through `postrider` with its
//! feature `derive`. `#[derive(Action)]`, `#[derive(Entity)]` and `#[derive(Model)]` are used with its feature `actions`.

mod attributes;
mod entity;
mod expand;
mod named;
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
/// - `model = Wallet`: the model that emits it in the plan of an action, instead of an aggregate. Its type is then the Rust
///   type's own name, unless `type` is given: the executor refuses two types with one name.
///
/// On a field, in each variant of an enum at most one of each:
/// - `aggregate_id`: the id of the aggregate. Any type with `Display`.
/// - `key`: the ordering key, if it is not the aggregate. Any type with `Display`.
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `postrider::action::Named` for an action: its name is the type's own name without path.
///
/// `#[action(name = "...")]` fixes another name. Use it before a type is renamed: the name is stored with every event.
#[proc_macro_derive(Action, attributes(action))]
pub fn derive_action(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    named::expand_action(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `postrider::action::Entity` for a struct with an id and a version.
///
/// On the struct:
/// - `name = "..."`: fixes its name; otherwise it is the type's own name without path.
/// - `table = "..."`: its table, as `name` or `schema.name`. Then the struct also implements `postrider::action::Table`, and
///   `SqlxRepository` reads and writes it: every field is a column.
/// - `sharded`: the id is a `Uuid` that carries its shard.
///
/// On a field:
/// - `id`, `version`: the id and the version, if the fields are not named `id` and `version`.
/// - `column = "..."`: the column, if it has another name than the field.
#[proc_macro_derive(Entity, attributes(entity))]
pub fn derive_entity(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    entity::expand(&input, entity::Kind::Entity).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `postrider::action::Model`: an `Entity` that emits events. The attribute is `#[model(...)]`, with the keys of
/// `#[entity(...)]`.
#[proc_macro_derive(Model, attributes(model))]
pub fn derive_model(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    entity::expand(&input, entity::Kind::Model).unwrap_or_else(syn::Error::into_compile_error).into()
}
