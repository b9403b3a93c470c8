//! A message as a publish of AMQP.

use std::collections::BTreeMap;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use postrider::sink::Message;

use super::config::{NAME_BYTES_MAX, RabbitMqConfig};

/// The server writes a persistent message to disk before it confirms it, if the queue is durable.
const PERSISTENT: u8 = 2;

/// The properties of a message must fit into one frame. This is for those that are not headers.
const OTHER_PROPERTIES_BYTES_MAX: usize = 2 * 1024;

/// What is sent for a message, apart from its body.
#[derive(Debug, Clone)]
pub(super) struct Publish {
    pub(super) address: Address,
    pub(super) properties: BasicProperties,
}

/// Identifies a message among those in flight. The server returns these parts of an unroutable message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Address {
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    pub(super) message_id: ShortString,
}

/// Why a message cannot be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It can never be sent.
    Message(String),
    /// Its destination does not fit the settings.
    Destination(String),
}

/// The publish of a message, with frames of at most this size.
pub(super) fn publish(
    config: &RabbitMqConfig,
    message: &Message,
    frame_bytes_max: usize,
) -> Result<Publish, Unfit> {
    let (exchange, routing_key) = destination(config, &message.destination)?;
    let size = message.body.len();
    if size > config.message_bytes_max {
        let limit = config.message_bytes_max;
        return Err(Unfit::Message(format!("the message has {size} bytes; the limit is {limit}")));
    }
    let name = |what: &str, text: &str| {
        short(text).ok_or_else(|| {
            Unfit::Message(format!("the {what} has {} bytes; RabbitMQ allows {NAME_BYTES_MAX}", text.len()))
        })
    };
    let message_id = name("id", &message.event.id.to_string())?;
    let properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_content_type(name("content type", &message.content_type)?)
        .with_message_id(message_id.clone())
        .with_headers(headers(message, frame_bytes_max)?);
    // Only properties that fit: the headers contain the same.
    let properties = match short(&message.event.event_type) {
        Some(event_type) => properties.with_type(event_type),
        None => properties,
    };
    let address = Address {
        exchange: name("exchange", exchange)?,
        routing_key: name("routing key", routing_key)?,
        message_id,
    };
    Ok(Publish { address, properties })
}

/// Exchange and routing key. An event can select only an exchange that the settings list.
fn destination<'a>(config: &'a RabbitMqConfig, named: &'a str) -> Result<(&'a str, &'a str), Unfit> {
    if let Some(routing_key) = &config.routing_key {
        return Ok((&config.exchange, routing_key));
    }
    if config.exchanges.is_empty() {
        return Ok((&config.exchange, named));
    }
    let listed = |exchange: &str| config.exchanges.iter().any(|listed| listed == exchange);
    match named.split_once('/') {
        Some((exchange, routing_key)) if listed(exchange) => Ok((exchange, routing_key)),
        _ => Err(Unfit::Destination(format!(
            "destination {named:?} is not EXCHANGE/ROUTING_KEY with an exchange of `exchanges`"
        ))),
    }
}

fn headers(message: &Message, frame_bytes_max: usize) -> Result<FieldTable, Unfit> {
    let (mut table, mut bytes) = (BTreeMap::new(), 0);
    for (name, value) in message.headers().iter() {
        let Some(short) = short(name) else {
            let length = name.len();
            return Err(Unfit::Message(format!(
                "a header's name has {length} bytes; RabbitMQ allows {NAME_BYTES_MAX}"
            )));
        };
        // Length and type of each, in addition to the text.
        bytes += name.len() + value.len() + 6;
        table.insert(short, AMQPValue::LongString(LongString::from(value)));
    }
    let limit = frame_bytes_max.saturating_sub(OTHER_PROPERTIES_BYTES_MAX);
    if bytes > limit {
        return Err(Unfit::Message(format!(
            "the headers have {bytes} bytes; a frame of the server holds {limit}"
        )));
    }
    Ok(FieldTable::from(table))
}

fn short(text: &str) -> Option<ShortString> {
    ShortString::try_new(text).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postrider::encode::{Encoder, Plain};
    use postrider::{Event, Position};

    use super::*;

    const FRAME: usize = 128 * 1024;

    fn message(event: Event, destination: &str) -> Message {
        let encoder: Arc<dyn Encoder> = Arc::new(Plain);
        Message::encode(&encoder, Position::new(1), Arc::new(event), destination.into()).unwrap()
    }

    fn addressed(config: &RabbitMqConfig, destination: &str) -> Result<(String, String), Unfit> {
        let publish = publish(config, &message(Event::new("a", "{}"), destination), FRAME)?;
        Ok((publish.address.exchange.to_string(), publish.address.routing_key.to_string()))
    }

    #[test]
    fn exchange_and_routing_key_come_from_the_settings_and_the_route() {
        let config = || RabbitMqConfig::new("amqp://h");
        let pair = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(addressed(&config(), "queue/1"), pair("", "queue/1"));
        assert_eq!(addressed(&config().exchange("e"), "order.placed"), pair("e", "order.placed"));
        assert_eq!(addressed(&config().exchange("e").routing_key("k"), "ignored"), pair("e", "k"));
        let listed = config().exchanges(["e", "f"]);
        assert_eq!(addressed(&listed, "f/order/placed"), pair("f", "order/placed"));
        for other in ["amq.direct/k", "/queue", "e", ""] {
            assert!(matches!(addressed(&listed, other), Err(Unfit::Destination(_))), "{other}");
        }
    }

    #[test]
    fn what_the_protocol_cannot_express_is_found_before_it_is_sent() {
        let config = RabbitMqConfig::new("amqp://h").message_bytes_max(10);
        let unfit =
            |event: Event, destination: &str| publish(&config, &message(event, destination), FRAME).is_err();
        assert!(!unfit(Event::new("a", "0123456789"), "k"));
        assert!(unfit(Event::new("a", "01234567890"), "k"));
        assert!(unfit(Event::new("a", "{}"), &"k".repeat(256)));
        assert!(unfit(Event::new("a", "{}").with_header("h".repeat(256), "v"), "k"));
        assert!(unfit(Event::new("a", "{}").with_header("h", "v".repeat(FRAME - 1)), "k"));
        assert!(!unfit(Event::new("a".repeat(300), "{}"), "k"), "the type is also a header");
    }

    #[test]
    fn a_header_of_the_event_cannot_replace_one_of_postrider() {
        let event = Event::new("a", "{}").with_header("postrider-id", "forged").with_header("tenant", "blue");
        let id = event.id.to_string();
        let publish = publish(&RabbitMqConfig::new("amqp://h"), &message(event, "k"), FRAME).unwrap();
        let headers = publish.properties.headers().clone().unwrap();
        let text = |name: &str| match headers.inner().get(name) {
            Some(AMQPValue::LongString(value)) => String::from_utf8(value.as_bytes().to_vec()).unwrap(),
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!((text("postrider-id"), text("tenant")), (id, "blue".to_owned()));
        assert_eq!(text("postrider-header-postrider-id"), "forged");
    }
}
