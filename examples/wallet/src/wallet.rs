//! The models of the service, their events, and what can be done with them.
//!
//! `DB` is a parameter because this example runs on every database. A service has one, and writes `sqlx::Postgres` instead.

use anyhow::ensure;
use postrider::Event;
use postrider::action::{Action, Model, Plan, SqlxDialect, SqlxRepository, SqlxRow};
use serde::Serialize;
use uuid::Uuid;

/// A row of the table `wallets`. Every update increases its version.
#[derive(Debug, Clone, Model)]
#[model(table = "wallets")]
pub(crate) struct Wallet {
    pub(crate) id: Uuid,
    pub(crate) balance: i64,
    pub(crate) version: i64,
}

/// A row of the table `orders`.
#[derive(Debug, Clone, Model)]
#[model(table = "orders")]
pub(crate) struct Order {
    pub(crate) id: Uuid,
    pub(crate) wallet_id: Uuid,
    pub(crate) amount: i64,
    pub(crate) status: String,
    pub(crate) version: i64,
}

#[derive(Serialize, Event)]
#[event(model = Wallet)]
struct MoneyDeposited {
    amount: i64,
}

#[derive(Serialize, Event)]
#[event(model = Wallet)]
struct MoneySpent {
    amount: i64,
    order: Uuid,
}

#[derive(Serialize, Event)]
#[event(model = Order)]
struct OrderPlaced {
    amount: i64,
}

/// The parameters of the actions. They are stored with every event.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Transfer {
    pub(crate) wallet: Uuid,
    pub(crate) amount: i64,
}

/// Opens an empty wallet. It has no event: the action itself is recorded.
#[derive(Action)]
pub(crate) struct OpenWallet;

impl Action for OpenWallet {
    type Params = Uuid;
    type Output = ();
    type Error = anyhow::Error;

    async fn perform(&self, plan: &mut Plan, id: &Uuid) -> anyhow::Result<()> {
        plan.add(Wallet { id: *id, balance: 0, version: 1 })?;
        Ok(())
    }
}

/// Puts money into a wallet.
#[derive(Action)]
pub(crate) struct Deposit<DB: sqlx::Database> {
    pub(crate) wallets: SqlxRepository<Wallet, DB>,
}

impl<DB: SqlxDialect> Action for Deposit<DB>
where
    Wallet: SqlxRow<DB>,
{
    type Params = Transfer;
    type Output = i64;
    type Error = anyhow::Error;

    async fn perform(&self, plan: &mut Plan, params: &Transfer) -> anyhow::Result<i64> {
        let mut wallet = self.wallets.find(&params.wallet).await?;
        wallet.balance += params.amount;
        let balance = wallet.balance;
        plan.update(wallet)?.event(&MoneyDeposited { amount: params.amount })?;
        Ok(balance)
    }
}

/// Pays for an order: updates the wallet, inserts the order, and writes an event of each.
#[derive(Action)]
pub(crate) struct PlaceOrder<DB: sqlx::Database> {
    pub(crate) wallets: SqlxRepository<Wallet, DB>,
}

impl<DB: SqlxDialect> Action for PlaceOrder<DB>
where
    Wallet: SqlxRow<DB>,
{
    type Params = Transfer;
    type Output = Uuid;
    type Error = anyhow::Error;

    async fn perform(&self, plan: &mut Plan, params: &Transfer) -> anyhow::Result<Uuid> {
        let Transfer { wallet, amount } = *params;
        let mut wallet = self.wallets.find(&wallet).await?;
        ensure!(wallet.balance >= amount, "the balance is {}, the order costs {amount}", wallet.balance);
        wallet.balance -= amount;
        let order = Order {
            id: Uuid::now_v7(),
            wallet_id: wallet.id,
            amount,
            status: "placed".to_owned(),
            version: 1,
        };
        let id = order.id;
        plan.update(wallet)?.event(&MoneySpent { amount, order: id })?;
        plan.add(order)?.event(&OrderPlaced { amount })?;
        Ok(id)
    }
}
