//! The server of a RabbitMQ sink.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postrider::sink::{Destinations, Sink};
use postrider::{BoxFuture, Code, Result};
use postrider_sinks::rabbitmq::{Durability, ExchangeType, NewQueue, RabbitMq, RabbitMqConfig, Tls};

use crate::config::Problem;
use crate::config::settings::ConfigTable;
use crate::doctor::{Check, Subject};
use crate::sinks::{SinkUser, Target};

const EXCHANGE_TYPES: [(&str, ExchangeType); 4] = [
    ("direct", ExchangeType::Direct),
    ("fanout", ExchangeType::Fanout),
    ("topic", ExchangeType::Topic),
    ("headers", ExchangeType::Headers),
];

#[derive(Debug, PartialEq)]
struct Server(RabbitMqConfig);

pub(super) fn read(table: &ConfigTable<'_>) -> Result<Arc<dyn Target>, Problem> {
    let url = table.secret("url")?;
    let mut config = RabbitMqConfig::new(table.required("url", url)?.expose_secret());
    match (table.text("username")?, table.secret("password")?) {
        (None, None) => {}
        (Some(username), Some(password)) => config = config.login(username, password.expose_secret()),
        _ => {
            let why = "username and password must be set together";
            return Err(table.table_problem(Code::ConfigValue, why));
        }
    }
    config.exchange = table.text("exchange")?.unwrap_or_default();
    config.exchanges = table.list("exchanges")?.unwrap_or_default();
    config.routing_key = table.text("routing_key")?;
    config.confirm_timeout = table.duration("confirm_timeout")?;
    config.message_bytes_max = table.count("message_max")?;
    config.connection_name = table.required("connection_name", table.text("connection_name")?)?;
    if table.is_given("declare_exchange") {
        config.declare_exchange = Some(table.choice("declare_exchange", &EXCHANGE_TYPES)?);
    }
    let binding = table.required("declare_binding", table.text("declare_binding")?)?;
    let is_bound = !config.exchange.is_empty();
    let queue = |name: String| {
        let queue = NewQueue::quorum(name);
        if is_bound { queue.bound_with(&binding) } else { queue }
    };
    config.declare_queues =
        table.list("declare_queues")?.unwrap_or_default().into_iter().map(queue).collect();
    config.tls = Tls::default();
    config.tls.ca = table.path("tls_ca")?;
    config.tls.certificate = table.path("tls_certificate")?;
    config.tls.key = table.path("tls_key")?;
    config.check().map_err(|error| table.table_problem(Code::ConfigValue, error.message()))?;
    Ok(Arc::new(Server(config)))
}

impl Target for Server {
    fn open(&self, _: &SinkUser<'_>) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(RabbitMq::open(&self.0)?))
    }

    fn destinations(&self) -> Destinations {
        if self.0.routing_key.is_some() { Destinations::Fixed } else { Destinations::Names }
    }

    /// A batch may also need a new connection, and a question whether the server still answers.
    fn publish_timeout_above(&self) -> Duration {
        self.0.confirm_timeout * 2
    }

    /// Connects, and looks at the exchanges and queues that the configuration names.
    fn check<'a>(&'a self, subject: &'a mut Subject<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let inspected = match RabbitMq::open(&self.0) {
                Ok(sink) => sink.inspect().await,
                Err(error) => Err(error),
            };
            let found = match inspected {
                Ok(found) => found,
                Err(error) => {
                    let what = format!("{self}: {}", error.message());
                    let fix = "check `url`, user and password, that the server is running, and that its port is reachable from here";
                    return subject.fail_with(Check::SinkReachable, what, fix);
                }
            };
            subject.ok(Check::SinkReachable, format!("{self} accepts the login"));
            let is_declared =
                |queue: &str| self.0.declare_queues.iter().any(|declared| declared.name == queue);
            let missing = found.missing_exchanges.iter().map(|exchange| {
                (format!("exchange {exchange:?} does not exist"), self.0.declare_exchange.is_some())
            });
            let queues = found.missing_queues.iter();
            let queues = queues.map(|queue| (format!("queue {queue:?} does not exist"), is_declared(queue)));
            for (what, is_declared) in missing.chain(queues) {
                match is_declared {
                    true => subject.ok(Check::DestinationExists, format!("{what}; the relay declares it")),
                    false => subject.fail(Check::DestinationExists, what),
                }
            }
            for (queue, durability) in found.queues {
                subject.ok(Check::DestinationExists, format!("queue {queue:?} exists"));
                let (check, queue) = (Check::SinkDurable, format!("queue {queue:?}"));
                match durability {
                    Durability::Quorum => {
                        subject.ok(check, format!("{queue} is a quorum queue: a majority of its nodes have each event on disk"));
                    }
                    Durability::Unknown => {
                        subject.warn(check, format!("{queue}: this user may not ask for its type"));
                    }
                    _ => subject.warn(check, format!("{queue} is not a quorum queue: events are lost with the disk of one node, or earlier if the queue is not durable")),
                }
            }
        })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rabbitmq {}", self.0.address())
    }
}
