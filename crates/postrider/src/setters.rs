//! Methods that set the fields of a struct that is not exhaustive.

/// Generates one method per field, so that other crates can build the struct.
#[doc(hidden)]
#[macro_export]
macro_rules! __setters {
    ($struct:ident: $($field:ident: $type:ty,)+) => {
        impl $struct {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](Self#structfield.", stringify!($field), ").")]
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )+
        }
    };
}

pub(crate) use crate::__setters as setters;
