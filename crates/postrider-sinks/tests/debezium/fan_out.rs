//! The fan-out of the application: for each event of a handled type it inserts one notification per handler, and sets
//! `delivered`, in one transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::database::{Connection, Database};
use crate::events::HANDLERS;

/// Events of one transaction. Few, so that many transactions run beside Debezium.
const BATCH_EVENTS_MAX: usize = 10;

/// A fan-out that runs beside the writer.
pub(crate) struct FanOut {
    signal: Arc<Notify>,
    is_finishing: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl FanOut {
    pub(crate) async fn start(database: &Database) -> Self {
        let (signal, is_finishing) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let mut connection = database.connect().await;
        connection.run(database.read_committed).await;
        let insert = insert_notifications(database);
        let (commits, finishing) = (Arc::clone(&signal), Arc::clone(&is_finishing));
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
        Self { signal, is_finishing, task }
    }

    /// To be notified after every commit of new events.
    pub(crate) fn signal(&self) -> Arc<Notify> {
        Arc::clone(&self.signal)
    }

    /// Ends when no event of a handled type is undelivered.
    pub(crate) async fn finish(self) {
        self.is_finishing.store(true, Ordering::SeqCst);
        self.signal.notify_one();
        self.task.await.unwrap();
    }
}

/// One transaction. Returns the number of events that it fanned out.
async fn fan_out(connection: &mut Connection, insert: &str) -> usize {
    let types = HANDLERS.map(|(event_type, _)| format!("'{event_type}'")).join(", ");
    connection.run("BEGIN").await;
    let ids = connection
        .texts(&format!(
            "SELECT id FROM eventlog.events WHERE delivered = FALSE AND event_type IN ({types})
             ORDER BY event_date LIMIT {BATCH_EVENTS_MAX} FOR UPDATE SKIP LOCKED"
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

fn insert_notifications(database: &Database) -> String {
    let (new_id, now) = (database.new_id, database.now);
    let handler = |(event_type, name)| format!("SELECT '{event_type}' AS event_type, '{name}' AS name");
    let handlers = HANDLERS.map(handler).join(" UNION ALL ");
    format!(
        "INSERT INTO eventlog.event_notifications (id, event_id, handler_name, namespace, action_id, action_name,
             action_params, started_date, completion_date, model_id, model_type, event_type, payload, event_date,
             state, attempts, next_retry_at, created_date, updated_date)
         SELECT {new_id}, e.id, h.name, e.namespace, e.action_id, e.action_name, e.action_params, e.started_date,
             e.completion_date, e.model_id, e.model_type, e.event_type, e.payload, e.event_date,
             'PENDING', 0, {now}, {now}, {now}
         FROM eventlog.events e, ({handlers}) h WHERE e.event_type = h.event_type"
    )
}
