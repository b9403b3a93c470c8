//! Detects that the history of a database changed.

use uuid::Uuid;

use crate::Position;
use crate::ledger::Mark;

/// What is different about a database, in a sentence, if anything is: it ends before what was `seen` of it,
/// or the highest event known is not where it was. `found` is the id of the event that stands there now.
pub(super) fn change(
    last: Position,
    seen: Position,
    highest: Option<Mark>,
    found: Option<Uuid>,
) -> Option<String> {
    if last < seen {
        return Some(format!(
            "position {seen} was seen before, but the outbox now ends at {last}: \
             an older copy of the database is in place, or its sequence was reset"
        ));
    }
    let Mark { position, id } = highest?;
    match found {
        Some(found) if found == id => None,
        Some(found) => Some(format!(
            "position {position} held event {id} and now holds {found}: another copy of the database is in place"
        )),
        None => Some(format!(
            "event {id} at position {position}, the last one seen, no longer exists: it was deleted, \
             or an older copy of the database is in place"
        )),
    }
}

/// What an operator may do where events and progress were put back together: the floor of the progress is then one of
/// this history. Where only one of them was, it is not, and this is not said.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) fn floor_offer(floor: Position) -> String {
    format!(
        "`--from floor` continues after position {floor}: it may repeat events and skips none. A later \
         position skips the events written since then"
    )
}
