//! The sink.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
use postrider::sink::{Capabilities, Destinations, Failure, Message, Outcome, Sink};
use postrider::{BoxFuture, Code, Error, Result};
use tokio::time::Instant;

use super::config::{RabbitMqConfig, Tls};
use super::session::Session;
use super::wave::{BLOCKED, Sender};
use crate::shared_session::SharedSession;
use crate::waves::Waves;

/// A probe costs one connection attempt.
const PROBE_MAX: Duration = Duration::from_secs(1);

/// Publishes each message to an exchange.
///
/// - Acknowledged means that the server confirmed the message: every queue that it was routed to has stored it. A quorum
///   queue stores it on a majority of its nodes, a durable classic queue on one disk.
/// - A message that no queue takes is rejected, although the server confirms it too: every message is mandatory.
/// - A key has one message in flight. Later messages of the key are sent after its confirm; therefore the sink is prefix
///   safe. The order in a queue is the order of the confirms.
/// - Messages of the relay that were sent twice appear twice. The event id is the message id.
/// - A missing exchange, or one that this user may not write to, fails the messages for it; they are retried.
/// - A lost connection is opened again by the next batch. If the server is down, blocks publishers or does not answer,
///   the failure does not count as an attempt of the message.
pub struct RabbitMq {
    config: RabbitMqConfig,
    tls: OwnedTLSConfig,
    session: SharedSession<Session>,
}

impl RabbitMq {
    /// Reads the certificates. The sink connects when it publishes, so a server that is down is not an error here.
    ///
    /// # Errors
    /// [`Code::SinkOpen`] for invalid settings, and for certificates that cannot be read.
    pub fn open(config: &RabbitMqConfig) -> Result<Self> {
        config.check()?;
        Ok(Self { config: config.clone(), tls: tls(&config.tls)?, session: SharedSession::default() })
    }

    pub(super) fn config(&self) -> &RabbitMqConfig {
        &self.config
    }

    /// The connection, or why there is none.
    pub(super) async fn session(&self) -> std::result::Result<Arc<Session>, String> {
        let open = async {
            let opened = Session::open(&self.config, &self.tls).await;
            opened.map_err(|why| format!("{}: {why}", self.config.address()))
        };
        self.session.get(Session::is_usable, open).await
    }

    /// A separate connection that changes nothing on the server.
    pub(super) async fn session_that_declares_nothing(&self) -> std::result::Result<Session, String> {
        let mut config = self.config.clone();
        (config.declare_exchange, config.declare_queues) = (None, Vec::new());
        let opened = Session::open(&config, &self.tls).await;
        opened.map_err(|why| format!("{}: {why}", self.config.address()))
    }

    async fn publish_in_waves(&self, batch: &[Message]) -> Vec<Outcome> {
        if batch.is_empty() {
            return Vec::new();
        }
        let is_untouched = |outcome: &Outcome| matches!(outcome, Outcome::Down(_) | Outcome::Untried);
        let (outcomes, is_usable) = self.try_publish(batch).await;
        if is_usable || !outcomes.iter().all(is_untouched) {
            return outcomes;
        }
        // The connection was lost before anything was sent, and only the attempt to use it has shown that.
        self.try_publish(batch).await.0
    }

    /// The outcomes, and whether the connection can still be used. Without a connection, another attempt is of no use.
    async fn try_publish(&self, batch: &[Message]) -> (Vec<Outcome>, bool) {
        let down = |why: String| (vec![Outcome::Down(Failure::new(why)); batch.len()], true);
        let session = match self.session().await {
            Ok(session) => session,
            Err(why) => return down(why),
        };
        if session.is_blocked() {
            return down(BLOCKED.to_owned());
        }
        let began = Instant::now();
        let (enough, deadline) =
            (began + self.config.confirm_timeout / 2, began + self.config.confirm_timeout);
        let sender = Sender { config: &self.config, session: &session, batch, deadline };
        let mut waves = Waves::of(batch);
        while let Some(wave) = waves.next() {
            for (at, outcome) in sender.send(&wave).await {
                waves.settle(at, outcome);
            }
            // The rest goes into the next batch, so that no message has too little time for its confirm.
            if Instant::now() >= enough || !session.is_usable() {
                break;
            }
        }
        (waves.into_outcomes(), session.is_usable())
    }
}

impl Sink for RabbitMq {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(self.publish_in_waves(batch))
    }

    fn capabilities(&self) -> Capabilities {
        let fixed = self.config.routing_key.is_some();
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

fn tls(tls: &Tls) -> Result<OwnedTLSConfig> {
    let cert_chain = tls.ca.as_deref().map(read).transpose()?;
    let identity = match (&tls.certificate, &tls.key) {
        (Some(certificate), Some(key)) => {
            Some(OwnedIdentity::PKCS8 { pem: read(certificate)?.into_bytes(), key: read(key)?.into_bytes() })
        }
        _ => None,
    };
    Ok(OwnedTLSConfig { identity, cert_chain })
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).map_err(|error| {
        Error::new(Code::SinkOpen, format!("rabbitmq: cannot read {}", file.display())).with_source(error)
    })
}

impl fmt::Debug for RabbitMq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RabbitMq").field(&self.config).finish()
    }
}
