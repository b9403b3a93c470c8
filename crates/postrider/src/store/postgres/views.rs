//! Views over the default layout, for operators who use other tools. Created on request.

use super::failure::{commit_failed, failed};
use super::migrate;
use super::pooler::settings_here;
use super::session::Session;
use crate::store::event_counts::log_events;
use crate::{Ident, Result};

/// Every event with its state.
const STATE: &str = include_str!("views/state.sql");

/// The views; `{state}` is [`STATE`].
const VIEWS: &str = include_str!("views/views.sql");

/// Every event with its state, for a [count](crate::store::event_counts).
pub(super) fn events(schema: &Ident) -> String {
    schema.put_into(&log_events(STATE, "NULL::timestamptz"))
}

/// Creates or replaces the views, all of them or none. Several processes may do so at once.
pub(super) async fn create(session: &mut Session, schema: &Ident) -> Result<()> {
    let tx = session.client.transaction().await.map_err(failed)?;
    tx.batch_execute(settings_here!()).await.map_err(failed)?;
    migrate::check(tx.client(), schema).await?;
    migrate::lock(tx.client(), schema).await?;
    let views = schema.put_into(&VIEWS.replace("{state}", STATE.trim_end()));
    tx.batch_execute(&views).await.map_err(failed)?;
    tx.commit().await.map_err(commit_failed)
}
