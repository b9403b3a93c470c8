//! One name, one Rust type.

use std::any::{TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::sync::{PoisonError, RwLock};

use crate::{Code, Error, Result};

/// What a name is used for. The same name may be that of an action and of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum NameKind {
    Action,
    /// A model, or an entity without events.
    Model,
    Event,
}

impl fmt::Display for NameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Action => "action",
            Self::Model => "model",
            Self::Event => "event",
        })
    }
}

/// The Rust type behind each name. Names are stored, types are not: two types with one name could not be told apart in the
/// rows.
#[derive(Default)]
pub(super) struct NameRegistry(RwLock<HashMap<(NameKind, &'static str), Owner>>);

/// The type that has a name, and its path for messages.
type Owner = (TypeId, &'static str);

impl NameRegistry {
    /// Reserves a name for a type.
    ///
    /// # Errors
    /// [`Code::NameTwice`] if another type has it.
    pub(super) fn reserve<T: ?Sized + 'static>(&self, kind: NameKind, name: &'static str) -> Result<()> {
        let (id, path) = (TypeId::of::<T>(), type_name::<T>());
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&(kind, name)).copied();
        let owner = known.unwrap_or_else(|| {
            *self.0.write().unwrap_or_else(PoisonError::into_inner).entry((kind, name)).or_insert((id, path))
        });
        if owner.0 == id {
            return Ok(());
        }
        let what = format!("the types {} and {path} have the same {kind} name {name:?}", owner.1);
        Err(Error::new(Code::NameTwice, what))
    }
}
