//! The steps of a transfer. Each changes rows of one shard, in one transaction with its events.

use anyhow::{Result, ensure};
use postrider::Shard;
use postrider::action::{Action, Plan, SqlxRepository};
use serde::Serialize;
use sqlx::Sqlite;
use uuid::Uuid;

use crate::model::{
    Account, AccountOpened, Letter, Receipt, Transfer, TransferAccepted, TransferRefused, TransferStarted,
};

type Accounts = SqlxRepository<Account, Sqlite>;
type Transfers = SqlxRepository<Transfer, Sqlite>;

/// What a client asks for.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Order {
    pub payer: Uuid,
    pub payee: Uuid,
    pub amount: i64,
}

/// Step 1, on the payer's shard: takes the money.
#[derive(Action)]
pub struct StartTransfer {
    pub accounts: Accounts,
}

impl Action for StartTransfer {
    type Params = Order;
    type Output = Uuid;
    type Error = anyhow::Error;

    async fn perform(&self, plan: &mut Plan, order: &Order) -> Result<Uuid> {
        let Order { payer, payee, amount } = *order;
        ensure!(amount > 0, "a transfer of {amount} is not possible");
        let mut account = self.accounts.find(&payer).await?;
        ensure!(account.is_open && account.balance >= amount, "{} cannot pay {amount}", account.owner);
        account.balance -= amount;
        plan.update(account)?;
        let id = Shard::of(&payer).new_id();
        let transfer = Transfer { id, payer, payee, amount, state: "started".to_owned(), version: 1 };
        plan.add(transfer)?.event(&TransferStarted { transfer: id, payee, amount })?;
        Ok(id)
    }
}

/// Step 2, on the payee's shard: takes the money in, or refuses it.
#[derive(Action)]
pub struct Receive {
    pub accounts: Accounts,
}

impl Action for Receive {
    type Params = TransferStarted;
    type Output = ();
    type Error = anyhow::Error;

    async fn perform(&self, plan: &mut Plan, started: &TransferStarted) -> Result<()> {
        let TransferStarted { transfer, payee, amount } = *started;
        let account = self.accounts.get(&payee).await?.filter(|account| account.is_open);
        let id = Shard::of(&payee).new_id();
        let receipt = Receipt { id, transfer, is_accepted: account.is_some(), version: 1 };
        match account {
            Some(mut account) => {
                account.balance += amount;
                plan.update(account)?;
                plan.add(receipt)?.event(&TransferAccepted { transfer })?;
            }
            None => {
                plan.add(receipt)?.event(&TransferRefused { transfer })?;
            }
        }
        Ok(())
    }
}

/// Step 3 after an acceptance, on the payer's shard.
#[derive(Action)]
pub struct Finish {
    pub transfers: Transfers,
}

impl Action for Finish {
    type Params = Uuid;
    type Output = ();
    type Error = anyhow::Error;

    async fn perform(&self, plan: &mut Plan, transfer: &Uuid) -> Result<()> {
        let mut transfer = self.transfers.find(transfer).await?;
        transfer.state = "done".to_owned();
        plan.update(transfer)?;
        Ok(())
    }
}

/// Step 3 after a refusal, on the payer's shard: gives the money back. This is the compensation of step 1.
#[derive(Action)]
pub struct Refund {
    pub accounts: Accounts,
    pub transfers: Transfers,
}

impl Action for Refund {
    type Params = Uuid;
    type Output = ();
    type Error = anyhow::Error;

    async fn perform(&self, plan: &mut Plan, transfer: &Uuid) -> Result<()> {
        let mut transfer = self.transfers.find(transfer).await?;
        let mut account = self.accounts.find(&transfer.payer).await?;
        account.balance += transfer.amount;
        transfer.state = "refused".to_owned();
        plan.update(account)?;
        plan.update(transfer)?;
        Ok(())
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct NewAccount {
    pub id: Uuid,
    pub owner: String,
    pub balance: i64,
    pub is_open: bool,
}

/// Opens the accounts that do not exist yet, on any shards.
#[derive(Action)]
pub struct OpenAccounts {
    pub accounts: Accounts,
}

impl Action for OpenAccounts {
    type Params = Vec<NewAccount>;
    type Output = ();
    type Error = anyhow::Error;

    async fn perform(&self, plan: &mut Plan, wanted: &Self::Params) -> Result<()> {
        for NewAccount { id, owner, balance, is_open } in wanted {
            let (id, owner) = (*id, owner.clone());
            if self.accounts.get(&id).await?.is_none() {
                let account = Account { id, owner, balance: *balance, is_open: *is_open, version: 1 };
                plan.add(account)?.event(&AccountOpened { account: id })?;
            }
        }
        Ok(())
    }
}

/// Writes a welcome letter, on the account's shard. The letter has the id of the account, so that an account gets one even if
/// two events say that it was opened: [`OpenAccounts`] after a crash between its commits.
#[derive(Action)]
pub struct Welcome {
    pub letters: SqlxRepository<Letter, Sqlite>,
}

impl Action for Welcome {
    type Params = Uuid;
    type Output = ();
    type Error = anyhow::Error;

    async fn perform(&self, plan: &mut Plan, account: &Uuid) -> Result<()> {
        match self.letters.get(account).await? {
            None => plan.add(Letter { id: *account, version: 1 })?,
            // The account has its letter. An update, so that this event is recorded on the account's shard, too.
            Some(letter) => plan.update(letter)?,
        };
        Ok(())
    }
}
