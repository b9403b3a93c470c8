//! Methods that set the fields of a struct that is not exhaustive.

/// Generates one method per field, so that other crates can build the struct.
macro_rules! setters {
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

pub(crate) use setters;
