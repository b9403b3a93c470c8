//! The writers of the shop: threads that run transactions until it closes.

use std::panic::resume_unwind;
use std::sync::Arc;

use fastrand::Rng;
use postrider::{Clock, Outbox, Result, SystemClock};
use rusqlite::Connection;
use tokio::task::JoinSet;

use super::closing::Closing;
use super::order::{Ended, serve};
use super::{Journal, Shop};
use crate::demo::plan::{Plan, WRITERS};

/// Running writers. Dropping them closes the shop.
#[derive(Debug)]
pub(in crate::demo) struct Writers {
    threads: JoinSet<Result<()>>,
    closing: Arc<Closing>,
}

impl Writers {
    /// Opens the shop.
    pub(in crate::demo) fn start(shop: &Shop, plan: &Plan, journal: &Arc<Journal>) -> Result<Self> {
        let mut writers = Self { threads: JoinSet::new(), closing: Arc::default() };
        let clock = SystemClock::new();
        for number in 0..WRITERS {
            let mut writer = Writer {
                connection: shop.connect()?,
                random: Rng::with_seed(number),
                plan: plan.clone(),
                clock: clock.clone(),
                journal: journal.clone(),
                closing: writers.closing.clone(),
            };
            writers.threads.spawn_blocking(move || writer.work());
        }
        Ok(writers)
    }

    /// Closes the shop: each writer ends after its current transaction.
    pub(in crate::demo) fn close(&self) {
        self.closing.close();
    }

    /// Waits for a writer to end; `None` when all have ended.
    ///
    /// # Cancel safety
    /// Dropping the future loses no writer.
    pub(in crate::demo) async fn ended(&mut self) -> Option<Result<()>> {
        let ended = self.threads.join_next().await?;
        Some(ended.unwrap_or_else(|died| match died.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_cancelled) => Ok(()),
        }))
    }

    /// Whether all writers have ended.
    pub(in crate::demo) fn are_gone(&self) -> bool {
        self.threads.is_empty()
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.close();
    }
}

/// One writer.
struct Writer {
    connection: Connection,
    random: Rng,
    plan: Plan,
    clock: SystemClock,
    journal: Arc<Journal>,
    closing: Arc<Closing>,
}

impl Writer {
    fn work(&mut self) -> Result<()> {
        let outbox = Outbox::new().namespace("shop");
        while self.is_open() && self.journal.take_order() {
            while let Ended::RolledBack = self.serve(&outbox)? {
                if !self.is_open() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Pauses according to the plan. Returns whether the shop is still open.
    fn is_open(&mut self) -> bool {
        // With some variation, as with real users.
        let about = 0.5 + self.random.f64();
        let pause = self.plan.pause(self.clock.now().elapsed);
        self.closing.pause(pause.map(|pause| pause.mul_f64(about)))
    }

    fn serve(&mut self, outbox: &Outbox) -> Result<Ended> {
        let ended = serve(&mut self.connection, outbox, &mut self.random)?;
        match &ended {
            Ended::Committed(event) => self.journal.note_commit(event.clone()),
            Ended::RolledBack => self.journal.note_rollback(),
        }
        Ok(ended)
    }
}
