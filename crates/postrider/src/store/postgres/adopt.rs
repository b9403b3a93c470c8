//! Handing events over to a table with a state per row in the same database.

use super::failure::failed;
use super::row::get;
use super::session::Tx;
use super::statement::{Params, query_unnamed};
use super::{PostgresStore, row_state, settle};
use crate::adopt::{Counts, HandedOver, HandsOver, Parcel};
use crate::layout::{Ability, RowTable};
use crate::store::connection::Reached;
use crate::store::{Settled, log_tx};
use crate::{BoxFuture, Result, Written};

impl HandsOver for PostgresStore {
    fn table(&self) -> Option<RowTable> {
        None
    }

    fn counts(&self, subscription: &str) -> BoxFuture<'_, Result<Counts>> {
        let name = subscription.to_owned();
        Box::pin(async move {
            let mut conn = self.0.reader.lock().await?;
            let mut snapshot = conn.begin_read().await?;
            // Index: the primary key (position), all of it.
            let total = snapshot.query_opt("SELECT count(*) FROM ONLY {schema}.events", &[]).await?;
            let total = total.map_or(Ok(0), |row| get::<i64>(&row, 0))?;
            let overview = log_tx::overview(&mut snapshot, Counts::BACKLOG_MAX).await?;
            Counts::of(&overview, &name, total.unsigned_abs())
        })
    }

    fn hand_over(&self, parcel: Parcel) -> BoxFuture<'_, Result<HandedOver>> {
        Box::pin(async move {
            let mut conn = self.0.settler.lock().await?;
            let settlement = parcel.settlement.clone();
            let name = settlement.subscription.clone();
            conn.check_lease(&name)?;
            let server = conn.server()?;
            let reached = Reached::of(&settlement);
            let tx = conn.begin().await?;
            if settle::settle_in(&tx, settlement, &server).await? == Settled::Fenced {
                return Ok(HandedOver::Fenced);
            }
            write(&tx, parcel).await?;
            tx.commit().await?;
            conn.remember_reached(&name, reached);
            Ok(HandedOver::Done)
        })
    }
}

/// Writes the events of a parcel, in the transaction that settles them.
pub(super) async fn write(tx: &Tx<'_>, mut parcel: Parcel) -> Result<()> {
    let Some(table) = parcel.to.table().cloned() else {
        for call in parcel.calls() {
            tx.in_time(parcel.to.write_all(tx.client(), call)).await?;
        }
        return Ok(());
    };
    let needs = row_state::adopt(table.layout());
    if let Some(make_way) = needs.make_way {
        let ids: Vec<String> = parcel.events.iter().map(|event| event.id.to_string()).collect();
        run(tx, &table, make_way, &[&ids]).await?;
    }
    let mut written: Vec<Written> = Vec::with_capacity(parcel.events.len());
    for call in parcel.calls() {
        // Rows with UUIDs of one microsecond are ordered by the number of their statement.
        if table.layout().has(Ability::Uuids) {
            for event in call {
                written.push(tx.in_time(parcel.to.write(tx.client(), event)).await?);
            }
        } else {
            written.extend(tx.in_time(parcel.to.write_all(tx.client(), call)).await?);
        }
    }
    let tried = written.iter().zip(&parcel.attempts).filter(|(_, attempts)| **attempts > 0);
    for (written, attempts) in tried {
        let id = match table.layout().has(Ability::Uuids) {
            true => written.id.to_string(),
            false => written.position.to_string(),
        };
        let (attempts, limit) = (i64::from(*attempts), i64::from(table.max_attempts));
        run(tx, &table, needs.tried, &[&id, &attempts, &limit]).await?;
    }
    Ok(())
}

/// Runs a statement about a table that is not the store's own.
async fn run(tx: &Tx<'_>, table: &RowTable, statement: &str, params: Params<'_>) -> Result<()> {
    let sql = table.put_into(statement);
    let answer = async { query_unnamed(tx.client(), &sql, params).await.map_err(failed) };
    tx.in_time(answer).await.map(|_| ())
}
