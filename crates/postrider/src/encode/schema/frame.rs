//! What precedes the bytes of a payload or of an envelope.

use super::avro::put_long;

/// The first bytes of Avro's single-object encoding.
const SINGLE_OBJECT: [u8; 2] = [0xc3, 0x01];

/// What precedes the bytes of one schema.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Frame(Vec<u8>);

impl Frame {
    /// Nothing.
    pub(super) fn bare() -> Self {
        Self::default()
    }

    /// Avro's single-object encoding.
    pub(super) fn single_object(fingerprint: [u8; 8]) -> Self {
        Self([&SINGLE_OBJECT[..], &fingerprint].concat())
    }

    /// The frame of Confluent's serializers.
    pub(super) fn confluent(id: u32) -> Self {
        Self([&[0][..], &id.to_be_bytes()].concat())
    }

    /// The frame of Confluent's serializers for Protobuf: the path of the message follows the id.
    pub(super) fn confluent_protobuf(id: u32, indexes: &[i32]) -> Self {
        let Self(mut bytes) = Self::confluent(id);
        match indexes {
            // Short form of the first message of the file.
            [0] => bytes.push(0),
            indexes => {
                put_long(i64::try_from(indexes.len()).unwrap_or(i64::MAX), &mut bytes);
                indexes.iter().for_each(|index| put_long((*index).into(), &mut bytes));
            }
        }
        Self(bytes)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_bytes_of_their_specifications() {
        let fingerprint = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(Frame::single_object(fingerprint).bytes(), [0xc3, 1, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(Frame::confluent(258).bytes(), [0, 0, 0, 1, 2]);
        assert_eq!(Frame::confluent_protobuf(1, &[0]).bytes(), [0, 0, 0, 0, 1, 0]);
        assert_eq!(Frame::confluent_protobuf(1, &[1]).bytes(), [0, 0, 0, 0, 1, 2, 2]);
        assert_eq!(Frame::confluent_protobuf(1, &[0, 64]).bytes(), [0, 0, 0, 0, 1, 4, 0, 0x80, 1]);
        assert_eq!(Frame::bare().bytes(), [0; 0]);
    }
}
