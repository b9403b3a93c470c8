//! A message as the fields of a stream entry.

use std::borrow::Cow;

use postrider::sink::{Message, RENAMED_HEADER_PREFIX};

/// The field with the key; absent for a message without one.
const KEY: &str = "key";
/// The field with the bytes of the body.
const BODY: &str = "body";
/// The field with the media type of the body.
const CONTENT_TYPE: &str = "content-type";
/// The field with the event's id. It is there whatever the encoder sends.
const ID: &str = "postrider-id";

/// A script can pass about 8,000 values to a command.
const FIELDS_MAX: usize = 2_000;
/// The maximum length of a stream's name, so that an event cannot choose a name of megabytes.
const STREAM_BYTES_MAX: usize = 1_024;

/// Name and value of a field.
pub(super) type Field<'a> = (Cow<'a, str>, Cow<'a, [u8]>);

/// The fields of a message, in the order in which they are stored. The names of the first ones are reserved: a header of
/// the event with such a name is renamed.
pub(super) fn fields(message: &Message) -> Vec<Field<'_>> {
    let headers = message.headers();
    let mut fields: Vec<Field<'_>> = Vec::with_capacity(headers.len() + 4);
    if let Some(key) = message.key() {
        fields.push((KEY.into(), key.as_bytes().into()));
    }
    fields.push((BODY.into(), message.body[..].into()));
    fields.push((CONTENT_TYPE.into(), message.content_type.as_bytes().into()));
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(ID)) {
        fields.push((ID.into(), message.event.id.to_string().into_bytes().into()));
    }
    for (name, value) in headers {
        if name.eq_ignore_ascii_case(CONTENT_TYPE) {
            continue;
        }
        let is_reserved = [KEY, BODY].iter().any(|reserved| name.eq_ignore_ascii_case(reserved));
        let name = if is_reserved { format!("{RENAMED_HEADER_PREFIX}{name}") } else { name };
        fields.push((name.into(), value.into_bytes().into()));
    }
    fields
}

/// Why a message can never be stored; `None` if it can.
pub(super) fn refusal(stream: &str, fields: &[Field<'_>], bytes_max: usize) -> Option<String> {
    if stream.is_empty() || stream.len() > STREAM_BYTES_MAX {
        return Some(format!(
            "the name of the stream has {} bytes, not 1 to {STREAM_BYTES_MAX}",
            stream.len()
        ));
    }
    if fields.len() > FIELDS_MAX {
        return Some(format!("it has {} headers and fields; the maximum is {FIELDS_MAX}", fields.len()));
    }
    let bytes = size(fields);
    (bytes > bytes_max).then(|| format!("it has {bytes} bytes; the maximum (`message_max`) is {bytes_max}"))
}

pub(super) fn size(fields: &[Field<'_>]) -> usize {
    fields.iter().map(|(name, value)| name.len() + value.len()).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postrider::encode::{Encoder, Envelope, Plain};
    use postrider::{Event, Position};

    use super::*;

    fn message(event: Event, encoder: impl Encoder + 'static) -> Message {
        let encoder: Arc<dyn Encoder> = Arc::new(encoder);
        Message::encode(&encoder, Position::new(1), Arc::new(event), "orders".into()).unwrap()
    }

    fn values(fields: &[Field<'_>], name: &str) -> Vec<String> {
        let same = fields.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name));
        same.map(|(_, value)| String::from_utf8(value.to_vec()).unwrap()).collect()
    }

    #[test]
    fn a_header_of_the_event_cannot_replace_a_field_of_postrider() {
        let event = Event::new("a", "{}")
            .with_key("k")
            .with_header("Body", "forged")
            .with_header("key", "forged")
            .with_header("Content-Type", "text/csv")
            .with_header("postrider-id", "forged")
            .with_header("tenant", "blue");
        let id = event.id.to_string();
        let message = message(event, Plain);
        let fields = fields(&message);
        assert_eq!(values(&fields, "body"), ["{}"]);
        assert_eq!(values(&fields, "key"), ["k"]);
        assert_eq!(values(&fields, "content-type"), [message.content_type.to_string()]);
        assert_eq!(values(&fields, "postrider-id"), [id]);
        assert_eq!(values(&fields, "postrider-header-body"), ["forged"]);
        assert_eq!(values(&fields, "postrider-header-key"), ["forged"]);
        assert_eq!(values(&fields, "tenant"), ["blue"]);
    }

    #[test]
    fn the_id_is_in_the_entry_whatever_the_encoder_sends() {
        let event = Event::new("a", "{}");
        let id = event.id.to_string();
        assert_eq!(values(&fields(&message(event, Envelope)), "postrider-id"), [id]);
    }

    #[test]
    fn what_the_server_would_not_take_is_refused() {
        let small = [(Cow::from("body"), Cow::from(&b"1234"[..]))];
        assert_eq!(refusal("orders", &small, 8), None);
        assert!(refusal("orders", &small, 7).unwrap().contains("8 bytes"));
        assert!(refusal("", &small, 8).is_some());
        assert!(refusal(&"s".repeat(1_025), &small, 8).is_some());
        let many = vec![small[0].clone(); FIELDS_MAX + 1];
        assert!(refusal("orders", &many, usize::MAX).unwrap().contains("2001"));
    }
}
