//! Views over the default layout, for operators with their own tools. Made on request.

use super::failure::{commit_failed, failed};
use super::migrate;
use super::pooler::settings_here;
use super::session::Session;
use crate::{Ident, Result};

/// Every event with its state.
const STATE: &str = include_str!("views/state.sql");

/// What the views are made of.
const VIEWS: &str = include_str!("views/views.sql");

/// Every event with its state, as the counts read it.
pub(super) fn events(schema: &Ident) -> String {
    let events = format!(
        "SELECT subscription, type AS event_type, producer, time AS created_at, NULL::timestamptz AS delivered_at,
                state, is_due, attempts
         FROM ({STATE}) AS o"
    );
    schema.put_into(&events)
}

/// Makes the views, or replaces them, all of them or none. Several processes may do so at once.
pub(super) async fn make(session: &mut Session, schema: &Ident) -> Result<()> {
    let tx = session.client.transaction().await.map_err(failed)?;
    tx.batch_execute(settings_here!()).await.map_err(failed)?;
    migrate::check(tx.client(), schema).await?;
    migrate::lock(tx.client(), schema).await?;
    let views = schema.put_into(&VIEWS.replace("{state}", STATE.trim_end()));
    tx.batch_execute(&views).await.map_err(failed)?;
    tx.commit().await.map_err(commit_failed)
}
