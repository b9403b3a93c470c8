//! The models and actions of the cases.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider::action::{Action, Entity, Model, Plan};
use postrider::{BoxFuture, Error, Event, Result};
use serde::Serialize;
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, Eq, Model)]
#[model(table = "wallets")]
pub(crate) struct Wallet {
    pub(crate) id: Uuid,
    pub(crate) balance: i64,
    pub(crate) version: i64,
}

#[derive(Debug, Clone, Model)]
#[model(table = "orders")]
pub(crate) struct Order {
    pub(crate) id: Uuid,
    #[model(column = "wallet_id")]
    pub(crate) wallet: Uuid,
    pub(crate) amount: i64,
    pub(crate) version: i64,
}

/// A row without events.
#[derive(Debug, Clone, Entity)]
#[entity(table = "notes")]
pub(crate) struct Note {
    pub(crate) id: Uuid,
    pub(crate) text: String,
    pub(crate) version: i64,
}

#[derive(Debug, Clone, Serialize, serde::Deserialize, Event)]
#[event(model = Wallet)]
pub(crate) struct MoneyDeposited {
    pub(crate) amount: i64,
}

#[derive(Debug, Clone, Serialize, Event)]
#[event(model = Wallet)]
pub(crate) struct MoneySpent {
    pub(crate) amount: i64,
}

#[derive(Debug, Clone, Serialize, Event)]
#[event(model = Order, type = "order.placed")]
pub(crate) struct OrderPlaced {
    pub(crate) amount: i64,
}

/// Reads a wallet with the driver of the case.
#[derive(Clone)]
pub(crate) struct Wallets(Arc<dyn Fn(Uuid) -> BoxFuture<'static, Result<Wallet>> + Send + Sync>);

impl Wallets {
    pub(crate) fn new<F: Future<Output = Result<Wallet>> + Send + 'static>(
        find: impl Fn(Uuid) -> F + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |id| Box::pin(find(id))))
    }

    pub(crate) async fn find(&self, id: Uuid) -> Result<Wallet> {
        (self.0)(id).await
    }
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Amount {
    pub(crate) wallet: Uuid,
    pub(crate) amount: i64,
}

/// Adds a wallet.
#[derive(Action)]
pub(crate) struct Open;

impl Action for Open {
    type Params = Amount;
    type Output = ();
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, params: &Amount) -> Result<()> {
        plan.add(Wallet { id: params.wallet, balance: params.amount, version: 1 })?;
        Ok(())
    }
}

/// Adds an amount to the balance, with an event. Counts how often it ran.
#[derive(Action)]
pub(crate) struct Deposit {
    pub(crate) wallets: Wallets,
    pub(crate) performed: Arc<AtomicUsize>,
}

impl Deposit {
    pub(crate) fn new(wallets: Wallets) -> Self {
        Self { wallets, performed: Arc::default() }
    }
}

impl Action for Deposit {
    type Params = Amount;
    type Output = i64;
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, params: &Amount) -> Result<i64> {
        self.performed.fetch_add(1, Ordering::Relaxed);
        let mut wallet = self.wallets.find(params.wallet).await?;
        wallet.balance += params.amount;
        let balance = wallet.balance;
        plan.update(wallet)?.event(&MoneyDeposited { amount: params.amount })?;
        Ok(balance)
    }
}

/// Updates a wallet, inserts two orders and a note, and emits three events, one of them with a topic.
#[derive(Action)]
pub(crate) struct PlaceOrders {
    pub(crate) wallets: Wallets,
    /// The layout has columns for topics.
    pub(crate) topic: Option<&'static str>,
}

impl Action for PlaceOrders {
    type Params = Amount;
    type Output = [Uuid; 2];
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, params: &Amount) -> Result<[Uuid; 2]> {
        let topic = |event: Event| match self.topic {
            Some(topic) => event.with_topic(topic),
            None => event,
        };
        let mut wallet = self.wallets.find(params.wallet).await?;
        wallet.balance -= 2 * params.amount;
        plan.update(wallet)?.event_with(&MoneySpent { amount: 2 * params.amount }, topic)?;
        let ids = [Uuid::now_v7(), Uuid::now_v7()];
        for id in ids {
            let order = Order { id, wallet: params.wallet, amount: params.amount, version: 1 };
            plan.add(order)?.event_with(&OrderPlaced { amount: params.amount }, topic)?;
        }
        plan.add(Note { id: Uuid::now_v7(), text: "two \"orders\"; ok?".to_owned(), version: 1 })?;
        Ok(ids)
    }
}
