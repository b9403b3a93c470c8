//! What the server can lose after it has confirmed a message: the audit of `doctor`.

use lapin::types::ShortString;
use postrider::{Code, Error, Result};

use super::client::RabbitMq;
use super::error::{Meaning, meaning, text};

/// How durable a queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// A quorum queue: a majority of its nodes have a confirmed message on disk.
    Quorum,
    /// A classic queue: one node has it, and a queue that is not durable ends with that node.
    OneNode,
    /// This user may not ask.
    Unknown,
}

/// What an inspection found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Inspection {
    /// Publishers are blocked at the moment.
    pub is_blocked: bool,
    /// The exchanges of the settings that do not exist.
    pub missing_exchanges: Vec<String>,
    /// The queues of the settings that do not exist.
    pub missing_queues: Vec<String>,
    /// The queues of the settings that exist.
    pub queues: Vec<(String, Durability)>,
}

impl RabbitMq {
    /// Connects, and looks at the exchanges and queues that the settings name, without changing them. Queues that only
    /// the server's bindings know are not visible to a client.
    ///
    /// # Errors
    /// [`Code::SinkFailed`] if the server cannot be reached or refuses the login.
    pub async fn inspect(&self) -> Result<Inspection> {
        let failed = |why: String| Error::new(Code::SinkFailed, why);
        let config = self.config();
        let session = self.session_that_declares_nothing().await.map_err(failed)?;
        let mut found = Inspection { is_blocked: session.is_blocked(), ..Inspection::default() };
        let exchanges = config.exchanges.iter().chain([&config.exchange]);
        for exchange in exchanges.filter(|exchange| !exchange.is_empty()) {
            let name = ShortString::try_new(exchange.as_str()).unwrap_or_default();
            match session.find_exchange(&name).await {
                Ok(()) => {}
                Err(error) if meaning(&error) == Meaning::ExchangeMissing => {
                    found.missing_exchanges.push(exchange.clone());
                }
                Err(error) => return Err(failed(text(&error))),
            }
        }
        // On the default exchange, the routing key is the name of a queue.
        let direct = config.routing_key.iter().filter(|_| config.exchange.is_empty());
        for queue in direct.chain(config.declare_queues.iter().map(|queue| &queue.name)) {
            match session.find_queue(queue).await {
                Ok(_) => {}
                Err(error) if meaning(&error) == Meaning::ExchangeMissing => {
                    found.missing_queues.push(queue.clone());
                    continue;
                }
                Err(error) => return Err(failed(text(&error))),
            }
            let durability = match session.is_quorum_queue(queue).await {
                Ok(true) => Durability::Quorum,
                Ok(false) => Durability::OneNode,
                Err(error) if meaning(&error) == Meaning::NotAllowed => Durability::Unknown,
                Err(error) => return Err(failed(text(&error))),
            };
            found.queues.push((queue.clone(), durability));
        }
        session.close().await;
        Ok(found)
    }
}
