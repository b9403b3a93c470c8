//! The rows of the bank and their events. Every id carries the shard that its row is stored on.

use postrider::Event;
use postrider::action::{Entity, Model};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// An account.
#[derive(Debug, Clone, Model)]
#[model(table = "accounts", sharded)]
pub struct Account {
    pub id: Uuid,
    pub owner: String,
    pub balance: i64,
    pub is_open: bool,
    pub version: i64,
}

/// A transfer, on the shard of the account that pays. Its state is `started`, `done` or `refused`.
#[derive(Debug, Clone, Model)]
#[model(table = "transfers", sharded)]
pub struct Transfer {
    pub id: Uuid,
    pub payer: Uuid,
    pub payee: Uuid,
    pub amount: i64,
    pub state: String,
    pub version: i64,
}

/// What the shard of the payee decided about a transfer.
#[derive(Debug, Clone, Model)]
#[model(table = "receipts", sharded)]
pub struct Receipt {
    pub id: Uuid,
    pub transfer: Uuid,
    pub is_accepted: bool,
    pub version: i64,
}

/// The welcome letter of the account with the same id. It has no events.
#[derive(Debug, Clone, Entity)]
#[entity(table = "letters", sharded)]
pub struct Letter {
    pub id: Uuid,
    pub version: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Event)]
#[event(model = Account)]
pub struct AccountOpened {
    pub account: Uuid,
}

/// The payer has paid. The payee's shard has to answer.
#[derive(Debug, Clone, Serialize, Deserialize, Event)]
#[event(model = Transfer)]
pub struct TransferStarted {
    pub transfer: Uuid,
    pub payee: Uuid,
    pub amount: i64,
}

/// The payee has the money.
#[derive(Debug, Clone, Serialize, Deserialize, Event)]
#[event(model = Receipt)]
pub struct TransferAccepted {
    pub transfer: Uuid,
}

/// The payee cannot take the money. The payer gets it back.
#[derive(Debug, Clone, Serialize, Deserialize, Event)]
#[event(model = Receipt)]
pub struct TransferRefused {
    pub transfer: Uuid,
}
