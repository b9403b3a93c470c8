//! Which events go to which handlers.

use std::collections::BTreeMap;

use crate::Timestamp;
use crate::route::Globs;

/// One type of a registered handler, as the database stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegisteredType {
    pub(crate) handler: String,
    /// `*` matches any text.
    pub(crate) pattern: String,
    /// Older events are not fanned out to it.
    pub(crate) since: Option<Timestamp>,
    pub(crate) registered_at: Timestamp,
    /// When the last search for missed events began.
    pub(crate) searched_at: Option<Timestamp>,
}

/// Events of one type go to one handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HandlerType {
    pub(crate) handler: String,
    pub(crate) event_type: String,
    /// Older events are not fanned out to it.
    pub(crate) since: Option<Timestamp>,
}

/// Whether a pattern is registered, so that the types in the table must be read.
pub(super) fn needs_types(registered: &[RegisteredType]) -> bool {
    registered.iter().any(|entry| entry.pattern.contains('*'))
}

/// Which events go to which handler; `types` are those in the table. A handler with several patterns gets an event once,
/// from the earliest of their starts. In the order of types.
pub(crate) fn handler_types(
    registered: impl IntoIterator<Item = RegisteredType>,
    types: &[String],
) -> Vec<HandlerType> {
    let mut earliest: BTreeMap<(String, String), Option<Timestamp>> = BTreeMap::new();
    for entry in registered {
        let matching: Vec<&str> = match entry.pattern.contains('*') {
            true => {
                let pattern: Globs = [entry.pattern.as_str()].into_iter().collect();
                types.iter().map(String::as_str).filter(|name| pattern.matches(name)).collect()
            }
            false => vec![entry.pattern.as_str()],
        };
        for event_type in matching {
            let since = earliest.entry((event_type.to_owned(), entry.handler.clone())).or_insert(entry.since);
            // No start is the earliest.
            *since = (*since).min(entry.since);
        }
    }
    let all = earliest.into_iter();
    all.map(|((event_type, handler), since)| HandlerType { handler, event_type, since }).collect()
}

/// Leaves out the events of a type that are older than a date.
pub(super) fn leave_out(types: &mut [HandlerType], older_than: &BTreeMap<String, Timestamp>) {
    for entry in types {
        // No start is the earliest.
        entry.since = entry.since.max(older_than.get(&entry.event_type).copied());
    }
}

/// Slices of at most this many types. All handlers of a type are in one slice: the first statement that fans an event out
/// must know all of its handlers.
pub(super) fn whole_types(all: &[HandlerType], most: usize) -> impl Iterator<Item = &[HandlerType]> {
    let mut rest = all;
    std::iter::from_fn(move || {
        let types = rest.chunk_by(|one, other| one.event_type == other.event_type);
        let end = types.take(most).map(<[HandlerType]>::len).sum();
        let (slice, after) = rest.split_at(end);
        rest = after;
        (!slice.is_empty()).then_some(slice)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered(handler: &str, pattern: &str) -> RegisteredType {
        let (handler, pattern) = (handler.to_owned(), pattern.to_owned());
        RegisteredType {
            handler,
            pattern,
            since: None,
            registered_at: Timestamp::default(),
            searched_at: None,
        }
    }

    fn listed(all: impl IntoIterator<Item = RegisteredType>, types: &[String]) -> Vec<String> {
        let line = |entry: &HandlerType| {
            let since = entry.since.map_or("-".to_owned(), |since| since.as_micros().to_string());
            format!("{} {} {since}", entry.event_type, entry.handler)
        };
        handler_types(all, types).iter().map(line).collect()
    }

    #[test]
    fn a_handler_whose_patterns_overlap_gets_an_event_once() {
        let types = ["OrderPlaced".to_owned(), "UserAdded".to_owned()];
        let all = [
            registered("mail", "OrderPlaced"),
            registered("mail", "Order*"),
            registered("audit", "*"),
            registered("stock", "Missing"),
        ];
        assert_eq!(
            listed(all, &types),
            ["Missing stock -", "OrderPlaced audit -", "OrderPlaced mail -", "UserAdded audit -"]
        );
    }

    #[test]
    fn the_handlers_of_a_type_are_never_separated() {
        let entry = |event_type: &str, handler: usize| HandlerType {
            handler: handler.to_string(),
            event_type: event_type.to_owned(),
            since: None,
        };
        let all: Vec<HandlerType> = [("A", 2), ("B", 3), ("C", 1)]
            .iter()
            .flat_map(|(name, of)| (0..*of).map(|n| entry(name, n)))
            .collect();
        let sizes = |most| whole_types(&all, most).map(<[HandlerType]>::len).collect::<Vec<_>>();
        assert_eq!(sizes(1), [2, 3, 1]);
        assert_eq!(sizes(2), [5, 1]);
        assert_eq!(sizes(3), [6]);
        assert_eq!(sizes(100), [6]);
        assert_eq!(whole_types(&[], 5).count(), 0);
    }

    #[test]
    fn patterns_that_overlap_start_with_the_earliest() {
        let since = |micros| Some(Timestamp::from_micros(micros));
        let types = ["OrderPlaced".to_owned()];
        let (early, late) = (registered("mail", "OrderPlaced"), registered("mail", "Order*"));
        let one = RegisteredType { since: since(5), ..early.clone() };
        let other = RegisteredType { since: since(9), ..late.clone() };
        assert_eq!(listed([other.clone(), one.clone()], &types), ["OrderPlaced mail 5"]);
        assert_eq!(listed([one, RegisteredType { since: None, ..late }], &types), ["OrderPlaced mail -"]);
        assert_eq!(listed([other, early], &types), ["OrderPlaced mail -"]);
    }
}
