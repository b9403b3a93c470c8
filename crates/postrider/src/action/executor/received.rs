//! Finds out whether a call was executed before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::{Execution, Executor};
use crate::action::call::OnceKey;
use crate::action::{Database, Shard};
use crate::inbox::Received;
use crate::{Code, Error, Result};

/// How long the databases have time to answer. They are asked at the same time.
const ANSWER_MAX: Duration = Duration::from_secs(5);

impl<D: Database> Executor<D> {
    /// Whether the call was executed before, on any database.
    ///
    /// # Errors
    /// If no database knows the call, and one of them did not answer.
    pub(super) async fn is_received(&self, execution: &Execution) -> Result<bool> {
        let Some(key) = &execution.once else { return Ok(false) };
        let mut without_answer = BTreeMap::new();
        let mut asked = JoinSet::new();
        for (shard, database) in self.0.databases.all() {
            without_answer.insert(shard, format!("it did not answer within {ANSWER_MAX:?}"));
            let key = key.clone();
            asked.spawn(async move { (shard, ask(&database, key).await) });
        }
        let due = self.0.clock.now().elapsed.saturating_add(ANSWER_MAX);
        let mut late = self.0.clock.sleep_until(due);
        let is_known = loop {
            tokio::select! {
                biased;
                answer = asked.join_next() => match answer {
                    None => break false,
                    Some(Ok((_, Ok(Received::Duplicate)))) => break true,
                    Some(Ok((shard, Ok(Received::First)))) => _ = without_answer.remove(&shard),
                    Some(Ok((shard, Err(error)))) => _ = without_answer.insert(shard, error.one_line()),
                    // A panic of the driver: its shard stays without an answer.
                    Some(Err(_)) => {}
                },
                () = &mut late => break false,
            }
        };
        // Drivers must not be dropped within a statement.
        asked.detach_all();
        match without_answer.is_empty() || is_known {
            true => Ok(is_known),
            false => Err(unknown(execution, key, &without_answer)),
        }
    }
}

/// Asks one database, and leaves no row there.
async fn ask<D: Database>(database: &Arc<D>, key: OnceKey) -> Result<Received> {
    let mut tx = database.begin().await?;
    let received = D::receive(&mut tx, &key.inbox, &key.group, key.id).await;
    D::rollback(tx).await;
    received
}

fn unknown(execution: &Execution, key: &OnceKey, without_answer: &BTreeMap<Shard, String>) -> Error {
    let shards: Vec<String> =
        without_answer.iter().map(|(shard, reason)| format!("shard {shard}: {reason}")).collect();
    let what = format!(
        "whether an earlier call of the action {} with the id {} was executed is unknown: {}",
        execution.name,
        key.id,
        shards.join("; ")
    );
    Error::new(Code::ActionOutcomeUnknown, what)
        .with_effect("this call wrote nothing; whether an earlier call was executed is unknown")
        .with_hint("call it again with the same id when all databases answer")
}
