//! The sink.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postrider::sink::{Capabilities, Destinations, Failure, Message, Outcome, Sink};
use postrider::{BoxFuture, Result};
use tokio::time::Instant;

use super::config::NatsConfig;
use super::session::Session;
use super::wave::Sender;
use crate::shared_session::SharedSession;
use crate::waves::Waves;

/// The client connects again by itself, so a probe costs nothing while it is not connected.
const PROBE_MAX: Duration = Duration::from_secs(1);

/// Publishes each message to a subject of one stream.
///
/// - Acknowledged means that the stream has stored the message; the receipt contains its sequence. Whether it is on disk
///   by then depends on the server: by default it syncs every two minutes. See [`Nats::inspect`].
/// - The message id is the event's id and the subject. Within the stream's duplicate window the server stores a message
///   that is sent twice once.
/// - A key has one message in flight. Later messages of the key are sent after its acknowledgement; therefore the sink is
///   prefix safe.
/// - A message that is too large, or whose subject is not one for events, is rejected. A missing stream, or one without
///   the subject, fails the messages; they are retried.
/// - If the server is down or does not answer, or JetStream is not available, the failure does not count as an attempt
///   of the message.
pub struct Nats {
    config: NatsConfig,
    session: SharedSession<Session>,
}

impl Nats {
    /// Checks the settings. The sink connects when it publishes, so a server that is down is not an error here.
    ///
    /// # Errors
    /// [`Code::SinkOpen`](postrider::Code::SinkOpen) for invalid settings.
    pub fn open(config: &NatsConfig) -> Result<Self> {
        config.check()?;
        Ok(Self { config: config.clone(), session: SharedSession::default() })
    }

    pub(super) fn config(&self) -> &NatsConfig {
        &self.config
    }

    /// The client, or why there is none.
    pub(super) async fn session(&self) -> std::result::Result<Arc<Session>, String> {
        let open = async {
            let opened = Session::open(&self.config).await;
            opened.map_err(|why| format!("{}: {why}", self.config.address()))
        };
        self.session.get(Session::is_usable, open).await
    }

    /// A separate client that changes nothing on the server.
    pub(super) async fn session_that_creates_nothing(&self) -> std::result::Result<Session, String> {
        let mut config = self.config.clone();
        config.create_stream = None;
        let opened = Session::open(&config).await;
        opened.map_err(|why| format!("{}: {why}", self.config.address()))
    }

    async fn publish_in_waves(&self, batch: &[Message]) -> Vec<Outcome> {
        let down = |why: String| vec![Outcome::Down(Failure::new(why)); batch.len()];
        if batch.is_empty() {
            return Vec::new();
        }
        let session = match self.session().await {
            Ok(session) => session,
            Err(why) => return down(why),
        };
        if !session.is_connected() {
            return down(format!("{}: not connected", self.config.address()));
        }
        let began = Instant::now();
        let (enough, deadline) = (began + self.config.ack_timeout / 2, began + self.config.ack_timeout);
        let sender = Sender { config: &self.config, session: &session, batch, deadline };
        let mut waves = Waves::of(batch);
        while let Some(wave) = waves.next() {
            for (at, outcome) in sender.send(&wave).await {
                waves.settle(at, outcome);
            }
            // The rest goes into the next batch, so that no message has too little time for its acknowledgement.
            if Instant::now() >= enough || !session.is_usable() || !session.is_connected() {
                break;
            }
        }
        waves.into_outcomes()
    }
}

impl Sink for Nats {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(self.publish_in_waves(batch))
    }

    fn capabilities(&self) -> Capabilities {
        let fixed = self.config.subject.is_some();
        let destinations = if fixed { Destinations::Fixed } else { Destinations::Names };
        Capabilities::PREFIX_SAFE.with_probe_max(PROBE_MAX).with_destinations(destinations)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(session) = self.session.take().await {
                session.close().await;
            }
        })
    }
}

impl fmt::Debug for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Nats").field(&self.config).finish()
    }
}
