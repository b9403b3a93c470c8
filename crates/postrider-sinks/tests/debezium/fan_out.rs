//! The fan-out of the application: a relay with handlers. For each event of a handled type it inserts one notification per
//! handler, and sets `delivered`, in one transaction.

use std::sync::Arc;
use std::time::Duration;

use postrider::handler::Context;
use postrider::layout::{self, RowLayout, RowTable};
use postrider::relay::{Relay, RelayHandle, Subscription};
use postrider::route::Router;
use postrider::store::mysql::{MySqlConfig, MySqlRowStore};
use postrider::store::postgres::{PostgresConfig, PostgresRowStore};
use postrider::store::{RowExtras, Store};
use postrider::{Event, Ident, Result};

use crate::database::{Connection, Database};
use crate::events::HANDLERS;

/// Events of one transaction. Few, so that many transactions run next to Debezium.
const BATCH_EVENTS_MAX: usize = 10;

/// How often a relay, and the wait for its end, read the tables.
const POLL: Duration = Duration::from_millis(20);

/// A fan-out that runs next to the writer.
pub(crate) struct FanOut {
    relay: Relay,
    connection: Connection,
}

impl FanOut {
    pub(crate) async fn start(database: &Database) -> Self {
        let relay = relay(open(database).await.unwrap()).await.unwrap();
        Self { relay, connection: database.connect().await }
    }

    /// To be woken after every commit of new events. The relay also polls.
    pub(crate) fn handle(&self) -> RelayHandle {
        self.relay.handle()
    }

    /// Ends when no event of a handled type is undelivered, and every notification is handled.
    pub(crate) async fn finish(mut self) {
        let open = format!(
            "SELECT 1 FROM eventlog.events WHERE delivered = FALSE AND event_type IN ({})
             UNION ALL SELECT 1 FROM eventlog.event_notifications WHERE state <> 'SUCCEEDED'",
            handled_types()
        );
        let mut checks = tokio::time::interval(POLL);
        while !self.connection.texts(&open).await.is_empty() {
            checks.tick().await;
        }
        self.relay.shutdown().await.unwrap();
    }
}

/// A store on the tables that are there.
async fn open(database: &Database) -> Result<Arc<dyn Store>> {
    let fan_out = layout::FanOutPolicy::default().events_max(BATCH_EVENTS_MAX).poll(POLL);
    let table = RowTable::new(RowLayout::Eventlog).fan_out(fan_out);
    let extras = RowExtras::default().handlers(true);
    let own_tables = Ident::new("postrider")?;
    Ok(match database.postgres_url() {
        Some(url) => {
            let config = PostgresConfig::new(&url)?.schema(own_tables);
            PostgresRowStore::migrate(&config, &table, extras).await?;
            Arc::new(PostgresRowStore::connect(&config, &table).await?)
        }
        None => {
            let config = MySqlConfig::new(database.mysql_url())?.schema(own_tables);
            MySqlRowStore::migrate(&config, &table, extras).await?;
            Arc::new(MySqlRowStore::connect(&config, &table).await?)
        }
    })
}

async fn relay(store: Arc<dyn Store>) -> Result<Relay> {
    let handler = |name: &'static str| {
        let types =
            HANDLERS.iter().filter(move |(_, handler)| *handler == name).map(|(event_type, _)| *event_type);
        Subscription::handler(name, |_: Arc<Event>, _: Context| async { Ok(()) })
            .router(Router::to(name).only(types))
    };
    Relay::builder().outbox(store, [handler("mail"), handler("ledger")]).spawn().await
}

fn handled_types() -> String {
    HANDLERS.map(|(event_type, _)| format!("'{event_type}'")).join(", ")
}
