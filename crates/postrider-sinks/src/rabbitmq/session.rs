//! A connection to the server, with the channels that batches use one after another.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lapin::options::{ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::tcp::OwnedTLSConfig;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{Channel, Connect as _, Connection, ConnectionProperties, Error, ExchangeKind};

use super::config::{ExchangeType, NewQueue, RabbitMqConfig};
use super::error::{self, Meaning, meaning};

/// How often a silent connection is checked. The server's default is once a minute.
const HEARTBEAT_SECONDS: u16 = 10;

/// The longest time to establish a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long an idle server may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Channels that are kept for later batches. A relay has fewer batches in flight.
const IDLE_CHANNELS_MAX: usize = 16;

/// The status of a clean close.
const CLOSED: u16 = 200;

pub(super) struct Session {
    connection: Connection,
    idle: Mutex<Vec<Channel>>,
    /// The exchanges that exist.
    exchanges: Mutex<HashSet<ShortString>>,
    /// The server's limit on messages, once it has refused one.
    pub(super) message_bytes_max: AtomicUsize,
    retired: AtomicBool,
}

impl Session {
    /// Connects, and declares what the settings list. An error is a sentence without secrets.
    pub(super) async fn open(config: &RabbitMqConfig, tls: &OwnedTLSConfig) -> Result<Self, String> {
        let opened = tokio::time::timeout(CONNECT_MAX, Self::try_open(config, tls)).await;
        opened.unwrap_or_else(|_| Err(format!("no answer within {CONNECT_MAX:?}")))
    }

    async fn try_open(config: &RabbitMqConfig, tls: &OwnedTLSConfig) -> Result<Self, String> {
        let mut uri = config.uri().map_err(|error| error.message().to_owned())?;
        uri.query.heartbeat = uri.query.heartbeat.or(Some(HEARTBEAT_SECONDS));
        let name = LongString::from(config.connection_name.as_str());
        let properties = ConnectionProperties::default().with_connection_name(name);
        let runtime = lapin::runtime::default_runtime().map_err(|error| error::text(&error))?;
        let connected = uri.connect_with_config(properties, tls.clone(), runtime).await;
        let connection = connected.map_err(|error| error::text(&error))?;
        let session = Self {
            connection,
            idle: Mutex::default(),
            exchanges: Mutex::default(),
            message_bytes_max: AtomicUsize::new(usize::MAX),
            retired: AtomicBool::new(false),
        };
        session.declare(config).await.map_err(|error| error::text(&error))?;
        Ok(session)
    }

    async fn declare(&self, config: &RabbitMqConfig) -> Result<(), Error> {
        if config.declare_exchange.is_none() && config.declare_queues.is_empty() {
            return Ok(());
        }
        let channel = self.connection.create_channel().await?;
        let exchange = short(&config.exchange);
        if let Some(exchange_type) = config.declare_exchange {
            let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            let none = FieldTable::default();
            channel.exchange_declare(exchange.clone(), kind(exchange_type), options, none).await?;
        }
        for queue in &config.declare_queues {
            let (name, options) = (short(&queue.name), durable());
            channel.queue_declare(name.clone(), options, arguments(queue)).await?;
            if let Some(binding_key) = &queue.binding_key {
                let (options, none) = (QueueBindOptions::default(), FieldTable::default());
                channel.queue_bind(name, exchange.clone(), short(binding_key), options, none).await?;
            }
        }
        channel.close(CLOSED, "".into()).await
    }

    /// Whether further batches can use it.
    pub(super) fn is_usable(&self) -> bool {
        self.connection.status().connected() && !self.retired.load(Ordering::Relaxed)
    }

    /// No further batch uses it.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// The server accepts no messages at the moment, because its memory or its disk is full.
    pub(super) fn is_blocked(&self) -> bool {
        self.connection.status().blocked()
    }

    /// The largest frame; a message's properties must fit into one.
    pub(super) fn frame_bytes_max(&self) -> usize {
        match self.connection.configuration().frame_max() {
            0 => usize::MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        }
    }

    /// A channel in confirm mode that nothing else uses.
    pub(super) async fn channel(&self) -> Result<Channel, Error> {
        while let Some(channel) = lock(&self.idle).pop() {
            if channel.status().connected() {
                return Ok(channel);
            }
        }
        let open = async {
            let channel = self.connection.create_channel().await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            Ok(channel)
        };
        let no_answer = || Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
        tokio::time::timeout(ANSWER_MAX, open).await.unwrap_or_else(|_| no_answer())
    }

    /// Keeps a channel on which every message was confirmed.
    pub(super) fn give_back(&self, channel: Channel) {
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_CHANNELS_MAX {
            idle.push(channel);
        }
    }

    /// Whether an exchange exists. Asked once: publishing to a missing one would close the channel, and the fate of all
    /// messages in flight on it would be unknown.
    pub(super) async fn has_exchange(&self, exchange: &ShortString) -> Result<bool, Error> {
        if exchange.as_str().is_empty() || lock(&self.exchanges).contains(exchange) {
            return Ok(true);
        }
        match self.find_exchange(exchange).await {
            Ok(()) => {
                lock(&self.exchanges).insert(exchange.clone());
                Ok(true)
            }
            Err(error) if meaning(&error) == Meaning::ExchangeMissing => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Asks for an exchange without creating it.
    ///
    /// # Errors
    /// Also if it does not exist; the server then closes the channel that is used for this.
    pub(super) async fn find_exchange(&self, exchange: &ShortString) -> Result<(), Error> {
        let channel = self.connection.create_channel().await?;
        let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let (any, none) = (ExchangeKind::Direct, FieldTable::default());
        channel.exchange_declare(exchange.clone(), any, passive, none).await?;
        channel.close(CLOSED, "".into()).await
    }

    /// The exchange may have been deleted.
    pub(super) fn forget_exchange(&self, exchange: &ShortString) {
        lock(&self.exchanges).remove(exchange);
    }

    /// Asks for a queue without creating it.
    ///
    /// # Errors
    /// Also if it does not exist; the server then closes the channel that is used for this.
    pub(super) async fn find_queue(&self, queue: &str) -> Result<(), Error> {
        let channel = self.connection.create_channel().await?;
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(short(queue), passive, FieldTable::default()).await?;
        channel.close(CLOSED, "".into()).await
    }

    /// Compares an existing queue with a quorum queue, by declaring one with its name: the server refuses that if it is
    /// different, and changes nothing in either case.
    pub(super) async fn is_quorum_queue(&self, queue: &str) -> Result<bool, Error> {
        let channel = self.connection.create_channel().await?;
        let declared =
            channel.queue_declare(short(queue), durable(), arguments(&NewQueue::quorum(queue))).await;
        match declared {
            Ok(_) => channel.close(CLOSED, "".into()).await.map(|()| true),
            // Another argument may differ too, but then the type is not what the server complains about.
            Err(error) if meaning(&error) == Meaning::Refused => {
                let said = error::text(&error);
                Ok(!said.contains("x-queue-type") && !said.contains("'durable'"))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the server responds at the moment.
    pub(super) async fn answers(&self) -> bool {
        let ask = async {
            let channel = self.connection.create_channel().await?;
            channel.close(CLOSED, "".into()).await
        };
        matches!(tokio::time::timeout(ANSWER_MAX, ask).await, Ok(Ok(())))
    }

    pub(super) async fn close(&self) {
        self.retire();
        lock(&self.idle).clear();
        let closed = self.connection.close(CLOSED, "the relay shuts down".into());
        _ = tokio::time::timeout(ANSWER_MAX, closed).await;
    }
}

/// A name that the settings' check has accepted. One that is too long becomes the empty one.
fn short(name: &str) -> ShortString {
    ShortString::try_new(name).unwrap_or_default()
}

fn durable() -> QueueDeclareOptions {
    QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() }
}

fn arguments(queue: &NewQueue) -> FieldTable {
    let mut arguments = FieldTable::default();
    if queue.is_quorum {
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    }
    arguments
}

fn kind(exchange_type: ExchangeType) -> ExchangeKind {
    match exchange_type {
        ExchangeType::Direct => ExchangeKind::Direct,
        ExchangeType::Fanout => ExchangeKind::Fanout,
        ExchangeType::Topic => ExchangeKind::Topic,
        ExchangeType::Headers => ExchangeKind::Headers,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
