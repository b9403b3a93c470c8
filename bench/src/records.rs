//! What the relay would send, prepared before a measurement starts.

use std::sync::Arc;

use postrider::Position;
use postrider::encode::{Encoder, Envelope};
use postrider::sink::Message;

use crate::Error;
use crate::workload::Workload;

/// What is sent for one event.
pub(crate) struct Record {
    pub(crate) key: Option<String>,
    pub(crate) body: Vec<u8>,
    /// The media type is the last one.
    pub(crate) headers: Vec<(String, String)>,
}

/// The records that the relay would send for these events.
pub(crate) fn records(workload: &Workload) -> Result<Vec<Record>, Error> {
    let encoder: Arc<dyn Encoder> = Arc::new(Envelope);
    let record = |number| {
        let position = Position::new(i64::try_from(number)? + 1);
        let event = Arc::new(workload.event(number));
        let message = Message::encode(&encoder, position, event, "bench".into())?;
        let mut headers = message.headers();
        headers.set("content-type", message.content_type.clone());
        let headers = headers.into_iter().collect();
        Ok(Record { key: message.key().map(str::to_owned), body: message.body.to_vec(), headers })
    };
    (0..workload.events).map(record).collect()
}
