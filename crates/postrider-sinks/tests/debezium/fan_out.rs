//! The fan-out of the application: for each event of a handled type it inserts one notification per handler, and sets
//! `delivered`, in one transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider::handler::Context;
use postrider::layout::{self, RowLayout, RowTable};
use postrider::relay::{Relay, Subscription};
use postrider::route::Router;
use postrider::store::postgres::{PostgresConfig, PostgresRowStore, RowExtras};
use postrider::{Event, Ident};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::database::{Connection, Database};
use crate::events::HANDLERS;

/// Events of one transaction. Few, so that many transactions run beside Debezium.
const BATCH_EVENTS_MAX: usize = 10;

/// How often a relay, and the wait for its end, read the tables.
const POLL: Duration = Duration::from_millis(20);

/// A fan-out that runs beside the writer.
pub(crate) struct FanOut {
    signal: Arc<Notify>,
    work: Work,
}

enum Work {
    /// A relay with handlers.
    Relay(Relay, Connection),
    /// The same statements without a relay, on servers without the layout.
    Sql { is_finishing: Arc<AtomicBool>, task: JoinHandle<()> },
}

impl FanOut {
    pub(crate) async fn start(database: &Database) -> Self {
        let signal = Arc::new(Notify::new());
        let connection = database.connect().await;
        let work = match database.postgres_url() {
            Some(url) => Work::Relay(relay(&url).await.unwrap(), connection),
            None => start_sql(connection, Arc::clone(&signal)).await,
        };
        Self { signal, work }
    }

    /// To be notified after every commit of new events.
    pub(crate) fn signal(&self) -> Arc<Notify> {
        Arc::clone(&self.signal)
    }

    /// Ends when no event of a handled type is undelivered.
    pub(crate) async fn finish(self) {
        match self.work {
            Work::Relay(relay, mut connection) => {
                let open = format!(
                    "SELECT 1 FROM eventlog.events WHERE delivered = FALSE AND event_type IN ({})
                     UNION ALL SELECT 1 FROM eventlog.event_notifications WHERE state <> 'SUCCEEDED'",
                    handled_types()
                );
                let mut checks = tokio::time::interval(POLL);
                while !connection.texts(&open).await.is_empty() {
                    checks.tick().await;
                }
                relay.shutdown().await.unwrap();
            }
            Work::Sql { is_finishing, task } => {
                is_finishing.store(true, Ordering::SeqCst);
                self.signal.notify_one();
                task.await.unwrap();
            }
        }
    }
}

/// A relay on the tables that are there.
async fn relay(url: &str) -> postrider::Result<Relay> {
    let config = PostgresConfig::new(url)?.schema(Ident::new("postrider")?);
    let fan_out = layout::FanOut::default().events_max(BATCH_EVENTS_MAX).poll(POLL);
    let table = RowTable::new(RowLayout::Eventlog)?.fan_out(fan_out);
    let extras = RowExtras { handlers: true, ..RowExtras::default() };
    PostgresRowStore::migrate(&config, &table, extras).await?;
    let handler = |name: &'static str| {
        let types =
            HANDLERS.iter().filter(move |(_, handler)| *handler == name).map(|(event_type, _)| *event_type);
        Subscription::handler(name, |_: Arc<Event>, _: Context| async { Ok(()) })
            .router(Router::to(name).only(types))
    };
    let store = Arc::new(PostgresRowStore::connect(&config, &table).await?);
    Relay::builder().outbox(store, [handler("mail"), handler("ledger")]).spawn().await
}

async fn start_sql(mut connection: Connection, commits: Arc<Notify>) -> Work {
    let is_finishing = Arc::new(AtomicBool::new(false));
    let finishing = Arc::clone(&is_finishing);
    // With the default isolation, MySQL locks gaps between rows, and a writer may be the victim of a deadlock.
    connection.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await;
    let insert = insert_notifications();
    let task = tokio::spawn(async move {
        loop {
            // Read before the table: what was committed before the end was requested is fanned out.
            let is_last = finishing.load(Ordering::SeqCst);
            while fan_out(&mut connection, &insert).await > 0 {}
            if is_last {
                break;
            }
            commits.notified().await;
        }
    });
    Work::Sql { is_finishing, task }
}

/// One transaction. Returns the number of events that it fanned out.
async fn fan_out(connection: &mut Connection, insert: &str) -> usize {
    connection.run("BEGIN").await;
    let ids = connection
        .texts(&format!(
            "SELECT id FROM eventlog.events WHERE delivered = FALSE AND event_type IN ({})
             ORDER BY event_date LIMIT {BATCH_EVENTS_MAX} FOR UPDATE SKIP LOCKED",
            handled_types()
        ))
        .await;
    if !ids.is_empty() {
        let list = format!("('{}')", ids.join("', '"));
        connection.run(&format!("{insert} AND e.id IN {list}")).await;
        connection.run(&format!("UPDATE eventlog.events SET delivered = TRUE WHERE id IN {list}")).await;
    }
    connection.run("COMMIT").await;
    ids.len()
}

fn handled_types() -> String {
    HANDLERS.map(|(event_type, _)| format!("'{event_type}'")).join(", ")
}

fn insert_notifications() -> String {
    let handler = |(event_type, name)| format!("SELECT '{event_type}' AS event_type, '{name}' AS name");
    let handlers = HANDLERS.map(handler).join(" UNION ALL ");
    format!(
        "INSERT INTO eventlog.event_notifications (id, event_id, handler_name, namespace, action_id, action_name,
             action_params, started_date, completion_date, model_id, model_type, event_type, payload, event_date,
             state, attempts, next_retry_at, created_date, updated_date)
         SELECT uuid(), e.id, h.name, e.namespace, e.action_id, e.action_name, e.action_params, e.started_date,
             e.completion_date, e.model_id, e.model_type, e.event_type, e.payload, e.event_date,
             'PENDING', 0, utc_timestamp(6), utc_timestamp(6), utc_timestamp(6)
         FROM eventlog.events e, ({handlers}) h WHERE e.event_type = h.event_type"
    )
}
