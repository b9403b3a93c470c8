//! Ids of events whose table has no globally unique id.

use uuid::Uuid;

use crate::{Aggregate, Timestamp};

/// An id for a row whose table has no globally unique id: 48 bits of its creation time in milliseconds, 12 bits of a
/// hash of its aggregate and type, 62 bits of its number. It is the same at every delivery and unique within the table.
/// For rows without a number, a hash of the id is used; then the id is unique with very high probability.
#[allow(dead_code, reason = "not every driver writes tables with a state per row")]
pub(crate) fn derived_id(
    created: Timestamp,
    row: &str,
    aggregate: Option<&Aggregate>,
    event_type: &str,
) -> Uuid {
    let millis = created.as_micros().div_euclid(1_000).unsigned_abs() & 0xffff_ffff_ffff;
    let (kind, id) = aggregate.map_or(("", ""), |aggregate| (&aggregate.kind, &aggregate.id));
    let subject = hash(&[kind, id, event_type]);
    let subject = (subject ^ subject >> 12 ^ subject >> 24 ^ subject >> 36 ^ subject >> 48) & 0xfff;
    // "7" and "007" are two rows, so only the canonical form counts as a number.
    let number = row.parse::<u64>().ok().filter(|number| number.to_string() == row);
    let number = number.unwrap_or_else(|| hash(&[row]));
    let high = millis << 16 | 0x8 << 12 | subject;
    let low = 0b10 << 62 | number & 0x3fff_ffff_ffff_ffff;
    Uuid::from_u64_pair(high, low)
}

/// FNV-1a. Any hash function would do, as long as it never changes.
#[allow(dead_code, reason = "used by derived_id")]
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
    fn a_derived_id_is_stable_and_differs_between_rows() {
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
