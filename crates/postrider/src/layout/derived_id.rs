//! Ids of events whose table has none that is unique everywhere.

use uuid::Uuid;

use crate::{Aggregate, Timestamp};

/// An id for a row whose table has none that is unique everywhere: 48 bits of the milliseconds of its creation, 12
/// bits of what it is about, 62 bits of its number. The same at every delivery, and unique within its table; as good as
/// unique where rows have no number.
pub(crate) fn derived_id(
    created: Timestamp,
    row: &str,
    aggregate: Option<&Aggregate>,
    event_type: &str,
) -> Uuid {
    let millis = created.as_micros().div_euclid(1_000).unsigned_abs() & 0xffff_ffff_ffff;
    let (kind, id) = aggregate.map_or(("", ""), |about| (&about.kind, &about.id));
    let about = hash(&[kind, id, event_type]);
    let about = (about ^ about >> 12 ^ about >> 24 ^ about >> 36 ^ about >> 48) & 0xfff;
    // Only a number that is written as such is one: "7" and "007" are two rows.
    let number = row.parse::<u64>().ok().filter(|number| number.to_string() == row);
    let number = number.unwrap_or_else(|| hash(&[row]));
    let high = millis << 16 | 0x8 << 12 | about;
    let low = 0b10 << 62 | number & 0x3fff_ffff_ffff_ffff;
    Uuid::from_u64_pair(high, low)
}

/// FNV-1a: any function will do that is the same forever.
fn hash(words: &[&str]) -> u64 {
    words
        .iter()
        .flat_map(|word| word.bytes().chain([0]))
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derived_id_is_always_the_same_and_tells_rows_apart() {
        let order = |id: &str| Aggregate { kind: "Order".into(), id: id.into() };
        let derived_id = |at, row, about: &Aggregate, kind| derived_id(at, row, Some(about), kind);
        let at = Timestamp::from_micros(1_700_000_000_123_456);
        let id = derived_id(at, "42", &order("7"), "order.placed");
        assert_eq!(id.to_string(), "018bcfe5-687b-8361-8000-00000000002a");
        assert_eq!(id, derived_id(at, "42", &order("7"), "order.placed"));
        assert_ne!(id, derived_id(at, "43", &order("7"), "order.placed"));
        assert_ne!(id, derived_id(at, "42", &order("8"), "order.placed"));
        assert_ne!(derived_id(at, "a", &order("7"), "x"), derived_id(at, "b", &order("7"), "x"));
        assert_eq!((id.get_version_num(), id.get_variant()), (8, uuid::Variant::RFC4122));
    }
}
