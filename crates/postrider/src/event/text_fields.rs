//! The optional texts of an event, in one list.
//!
//! Each has a column of the same name on every database. Limits, sizes, INSERTs, SELECTs and the grants of the writer's
//! role take them from [`TEXT_FIELDS`].

use super::Event;

/// An optional text of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextField {
    /// Its name in messages, which is also the name of its column.
    pub(crate) name: &'static str,
    get: fn(&Event) -> &Option<String>,
    #[cfg_attr(not(feature = "_store"), allow(dead_code, reason = "only the databases read events"))]
    get_mut: fn(&mut Event) -> &mut Option<String>,
}

/// Every optional text, in the order of its columns in INSERTs and SELECTs.
pub(crate) const TEXT_FIELDS: [TextField; 4] = [
    TextField { name: "key", get: |event| &event.key, get_mut: |event| &mut event.key },
    TextField { name: "topic", get: |event| &event.topic, get_mut: |event| &mut event.topic },
    TextField { name: "namespace", get: |event| &event.namespace, get_mut: |event| &mut event.namespace },
    TextField { name: "producer", get: |event| &event.producer, get_mut: |event| &mut event.producer },
];

impl TextField {
    /// The text of an event.
    pub(crate) fn of<'e>(&self, event: &'e Event) -> Option<&'e str> {
        (self.get)(event).as_deref()
    }

    /// Sets the text of an event.
    #[cfg(feature = "_store")]
    pub(crate) fn set(&self, event: &mut Event, text: Option<String>) {
        *(self.get_mut)(event) = text;
    }
}
