//! One of several databases with the same tables.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::{Code, Error, Result};

/// The highest member of a group: six bits.
const MEMBER_MAX: u8 = 63;

/// One of several databases with the same tables: a group (0 to 255) and a member of it (0 to 63).
///
/// An id that [`Shard::new_id`] created contains its shard: a UUIDv7 has 48 bits of time, and the 14 bits after its variant
/// are member and group. Any other id contains random bits there, so an entity must declare that its ids carry a shard, with
/// `#[model(sharded)]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    group: u8,
    member: u8,
}

impl Shard {
    /// The shard of entities that are not sharded, and of ids whose shard is not registered.
    pub const DEFAULT: Self = Self { group: 0, member: 0 };

    /// A shard by its number.
    ///
    /// # Errors
    /// [`Code::ExecutorInvalid`] if the member is larger than 63.
    pub fn new(group: u8, member: u8) -> Result<Self> {
        if member > MEMBER_MAX {
            let what = format!("member {member} of a group of shards; the limit is {MEMBER_MAX}");
            return Err(Error::new(Code::ExecutorInvalid, what));
        }
        Ok(Self { group, member })
    }

    /// Its group.
    pub fn group(self) -> u8 {
        self.group
    }

    /// Its member.
    pub fn member(self) -> u8 {
        self.member
    }

    /// A new UUIDv7 that carries this shard. Ids of different milliseconds are in the order of their time.
    pub fn new_id(self) -> Uuid {
        let mut bytes = Uuid::now_v7().into_bytes();
        // The two highest bits of this byte are the variant.
        bytes[8] = (bytes[8] & 0b1100_0000) | self.member;
        bytes[9] = self.group;
        Uuid::from_bytes(bytes)
    }

    /// The shard that an id carries.
    pub fn of(id: &Uuid) -> Self {
        let bytes = id.as_bytes();
        Self { group: bytes[9], member: bytes[8] & MEMBER_MAX }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.group, self.member)
    }
}

impl FromStr for Shard {
    type Err = Error;

    /// As it is displayed: `1.0` is member 0 of group 1.
    fn from_str(text: &str) -> Result<Self> {
        let number = |text: &str, max: u8| text.parse::<u8>().ok().filter(|number| *number <= max);
        let parts = text.split_once('.');
        let shard = parts.and_then(|(group, member)| {
            Some(Self { group: number(group, u8::MAX)?, member: number(member, MEMBER_MAX)? })
        });
        // `01.0` and `+1.0` would be second names for one shard.
        shard.filter(|shard| shard.to_string() == text).ok_or_else(|| {
            let what = format!("{:?} is not a shard", text.chars().take(20).collect::<String>());
            Error::new(Code::ExecutorInvalid, what)
                .with_hint("write GROUP.MEMBER, from \"0.0\" to \"255.63\"")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_survives_in_an_id_that_is_still_a_version_7() {
        for group in 0..=255 {
            for member in 0..=63 {
                let shard = Shard::new(group, member).unwrap();
                let id = shard.new_id();
                assert_eq!(Shard::of(&id), shard);
                assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
            }
        }
        assert_eq!(Shard::new(0, 64).unwrap_err().code(), Code::ExecutorInvalid);
    }

    #[test]
    fn a_shard_has_one_spelling() {
        for (text, group, member) in [("0.0", 0, 0), ("1.0", 1, 0), ("255.63", 255, 63)] {
            assert_eq!(text.parse::<Shard>().unwrap(), Shard { group, member });
        }
        let wrong = [
            "", ".", "1", "1.", ".1", "256.0", "0.64", "-1.0", "+1.0", "01.0", "1.00", "1.0.0", " 1.0", "1,0",
        ];
        for text in wrong {
            assert_eq!(text.parse::<Shard>().unwrap_err().code(), Code::ExecutorInvalid, "{text:?}");
        }
    }
}
