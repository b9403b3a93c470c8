//! The application: it writes actions with their events, and notes what it wrote.

use postrider::relay::RelayHandle;
use uuid::Uuid;

use crate::database::{Connection, Database};

/// The types of events.
pub(crate) const TYPES: [&str; 3] = ["OrderPlaced", "OrderPaid", "OrderShipped"];
/// The type of the event that is written last.
pub(crate) const LAST_TYPE: &str = "ShopClosed";
/// Handlers by type. The others have none, so their events stay undelivered.
pub(crate) const HANDLERS: [(&str, &str); 3] =
    [("OrderPlaced", "mail"), ("OrderPaid", "mail"), ("OrderPaid", "ledger")];

/// Every such action has no event: it writes a row without a type.
const SENTINEL_EVERY: usize = 5;
/// Orders that the events are about.
const MODELS: usize = 4;

/// An event that was committed.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) id: Uuid,
    pub(crate) action_id: Uuid,
    pub(crate) event_type: &'static str,
    pub(crate) model_id: String,
    pub(crate) number: usize,
}

impl Written {
    /// The time of the event, without a zone. The fraction begins with a digit other than 0.
    pub(crate) fn time(&self) -> String {
        format!("2026-11-15 21:35:00.{}", 500_000 + self.number)
    }

    /// Has a character outside of ASCII, and one that SQL must escape.
    pub(crate) fn payload(&self) -> serde_json::Value {
        serde_json::json!({ "number": self.number, "name": "Zoë's order" })
    }
}

/// One connection that writes one action after the other.
pub(crate) struct Writer {
    connection: Connection,
    /// Woken after every commit.
    relay: RelayHandle,
    actions: usize,
    written: Vec<Written>,
}

impl Writer {
    pub(crate) async fn new(database: &Database, relay: RelayHandle) -> Self {
        Self { connection: database.connect().await, relay, actions: 0, written: Vec::new() }
    }

    /// The actions so far.
    pub(crate) fn actions(&self) -> usize {
        self.actions
    }

    /// The events so far, in the order of their commits.
    pub(crate) fn written(&self) -> &[Written] {
        &self.written
    }

    /// Writes an action with two events, or with none, in one transaction.
    pub(crate) async fn act(&mut self) {
        let number = self.actions;
        let types: &[&str] = match number {
            number if number.is_multiple_of(SENTINEL_EVERY) => &[],
            number => &[TYPES[number % 3], TYPES[(number + 1) % 3]],
        };
        self.write(types).await;
    }

    /// Writes one more action, with one event whose id ends with a zero byte.
    pub(crate) async fn write_last(&mut self) {
        self.write_with(&[LAST_TYPE], 0).await;
    }

    async fn write(&mut self, types: &[&'static str]) {
        self.write_with(types, 1).await;
    }

    async fn write_with(&mut self, types: &[&'static str], last_byte: u8) {
        let action_id = id_ending_with(1);
        let first = self.written.len();
        self.written.extend(types.iter().enumerate().map(|(at, event_type)| Written {
            id: id_ending_with(last_byte),
            action_id,
            event_type,
            model_id: format!("order-{}", self.actions % MODELS),
            number: first + at,
        }));
        let mut rows: Vec<String> = self.written[first..].iter().map(row).collect();
        if types.is_empty() {
            rows.push(insert(id_ending_with(1), action_id, "NULL, NULL, NULL, NULL, '2026-11-15 21:35:00'"));
        }
        self.connection.run(&format!("BEGIN; {} COMMIT", rows.concat())).await;
        self.actions += 1;
        self.relay.wake();
    }
}

fn id_ending_with(last_byte: u8) -> Uuid {
    let mut bytes = Uuid::now_v7().into_bytes();
    bytes[15] = last_byte;
    Uuid::from_bytes(bytes)
}

fn row(event: &Written) -> String {
    let payload = event.payload().to_string().replace('\'', "''");
    let (model, kind, time) = (&event.model_id, event.event_type, event.time());
    insert(event.id, event.action_id, &format!("'{model}', 'Order', '{kind}', '{payload}', '{time}'"))
}

fn insert(id: Uuid, action_id: Uuid, event: &str) -> String {
    format!(
        "INSERT INTO eventlog.events (id, namespace, action_id, action_name, action_params, started_date,
             completion_date, model_id, model_type, event_type, payload, event_date, delivered)
         VALUES ('{id}', 'shop', '{action_id}', 'PlaceOrder', '{{\"cart\": 9}}', '2026-11-15 21:34:59.9',
             '2026-11-15 21:35:00.000001', {event}, FALSE);"
    )
}
