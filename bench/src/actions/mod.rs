//! What an action costs, compared with the same statements by hand.
//!
//! Times, CPU and bytes are measured over a direct connection; round trips and statements in further executions, through a
//! proxy that counts them.

mod mysql;
mod postgres;
mod sqlite;
mod wallet;

pub use mysql::mysql;
pub use postgres::postgres;
pub use sqlite::sqlite;

use postrider::Outbox;
use postrider::action::SqlxRow;
use sqlx::Pool;

use crate::drain::measure;
use crate::wire::{Counter, Exchanged};
use crate::{Error, Ratio, Row};
use wallet::{Bank, ByHand, Contender, Wallet};

/// The names of the contenders, and of the ratio that has a limit.
pub const BY_HAND: &str = "by hand";
/// See [`BY_HAND`].
pub const EXECUTE: &str = "execute";
/// At most 1.1: issue 16 asks for it, and a test checks it.
pub const ROUND_TRIPS: &str = "round trips: execute / by hand (limit 1.10)";

/// Executions through the proxy, per run. Their number does not change what is counted per execution.
const COUNTED: u64 = 100;

/// How much to execute.
#[derive(Debug, Clone)]
pub struct Actions {
    /// Executions per run; each updates a row and writes an event.
    pub executions: u64,
    /// Runs of each contender, in turns.
    pub repetitions: usize,
}

impl Default for Actions {
    fn default() -> Self {
        Self { executions: 2_000, repetitions: 5 }
    }
}

impl Actions {
    fn title(&self, server: &str) -> String {
        let Self { executions, repetitions } = self;
        format!(
            "actions on {server}, with sqlx: {executions} executions of one UPDATE and one event, {repetitions} runs in turns"
        )
    }
}

/// A bank behind the proxy.
struct Counted<DB: ByHand> {
    bank: Bank<DB>,
    counter: std::sync::Arc<Counter>,
}

impl<DB: ByHand> Counted<DB>
where
    Wallet: SqlxRow<DB>,
{
    async fn open(pool: Pool<DB>, outbox: Outbox, counter: std::sync::Arc<Counter>) -> Result<Self, Error> {
        let bank = Bank::open(pool, outbox).await?;
        // Once, so that statements are prepared.
        for contender in Contender::ALL {
            bank.deposit(contender, 1).await?;
        }
        Ok(Self { bank, counter })
    }

    async fn exchanged(&self, contender: Contender) -> Result<Exchanged, Error> {
        let before = self.counter.read();
        self.bank.deposit(contender, COUNTED).await?;
        Ok(self.counter.read().since(before))
    }
}

/// Adds what the proxy counted to the figures of a contender.
fn add_exchanged(row: &mut Row, exchanged: &[Exchanged]) {
    let of = |count: fn(&Exchanged) -> u64| exchanged.iter().map(move |it| count(it) as f64 / COUNTED as f64);
    row.measures.push(measure("round trips/event", of(|it| it.round_trips)));
    row.measures.push(measure("statements/event", of(|it| it.statements)));
}

fn exchanged_ratios(by_hand: &[Exchanged], execute: &[Exchanged]) -> [Ratio; 2] {
    let pairs = |count: fn(&Exchanged) -> u64| {
        execute.iter().zip(by_hand).map(move |(one, other)| (count(one) as f64, count(other) as f64))
    };
    [
        Ratio::of(ROUND_TRIPS, pairs(|it| it.round_trips)),
        Ratio::of("statements: execute / by hand", pairs(|it| it.statements)),
    ]
}
