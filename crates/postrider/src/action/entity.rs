//! What a plan stages: rows with a version, and models, which are such rows with events.

use std::fmt;

use super::Shard;

/// A name that is stored with events: of an action, an entity or a model. Implemented by `#[derive(Action)]`,
/// `#[derive(Entity)]` and `#[derive(Model)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no name that can be stored",
    note = "derive it: `#[derive(Action)]` for an action, `#[derive(Entity)]` or `#[derive(Model)]` for a row"
)]
pub trait Named {
    /// The type's own name without path, or the one that its attribute fixes.
    const NAME: &'static str;
}

/// A row with an id and a version. It emits no events; see [`Model`].
///
/// `#[derive(Entity)]` takes the fields `id` and `version`, or those marked `#[entity(id)]` and `#[entity(version)]`. With
/// `#[entity(table = "...")]` it also implements [`Table`].
pub trait Entity: Named + Send + Sync + 'static {
    /// The type of its id. Its text is the id in events.
    type Id: fmt::Display + Send + Sync;

    /// Its id. Unique among the entities of this type.
    fn id(&self) -> &Self::Id;

    /// The version that was read, or the first version of a new row. Every update increases the version in the database
    /// by one, and happens only if it is still the one that was read.
    fn version(&self) -> i64;

    /// Sets the version, as a database does with an update. Executors do not need it; fakes of a database do.
    fn set_version(&mut self, version: i64);

    /// The shard that the row with this id is stored on: the one that the id carries if the entity is declared as
    /// `sharded`, otherwise the default.
    fn shard_of(_id: &Self::Id) -> Shard {
        Shard::DEFAULT
    }

    /// The shard that it is stored on.
    fn shard(&self) -> Shard {
        Self::shard_of(self.id())
    }
}

/// An [`Entity`] that emits events. Its name and id are the aggregate of its events.
///
/// `#[derive(Model)]` implements both; its attribute is `#[model(...)]`.
pub trait Model: Entity {}

/// The table of an entity in the plain case: one table, a column per field. Implemented by the derives if the attribute
/// names a table.
///
/// The names consist of letters, digits and underscores, which the derive checks, so they can be put between quotes.
pub trait Table: Entity + Sized {
    /// The name of the table, or of its schema and the table.
    const TABLE: &'static [&'static str];
    /// The columns, in the order of the fields.
    const COLUMNS: &'static [&'static str];
    /// The place of the id in [`COLUMNS`](Self::COLUMNS).
    const ID: usize;
    /// The place of the version in [`COLUMNS`](Self::COLUMNS).
    const VERSION: usize;
}
