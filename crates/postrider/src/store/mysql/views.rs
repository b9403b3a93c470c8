//! Views over the default layout, for operators who use other tools. Created on request.

use super::migrate;
use super::session::{Access, Session};
use crate::Result;
use crate::store::event_counts::log_events;

/// Every event with its state.
const STATE: &str = include_str!("views/state.sql");

/// The views; `{state}` is [`STATE`].
const VIEWS: &str = include_str!("views/views.sql");

/// Every event with its state, for a [count](crate::store::event_counts).
pub(super) fn events() -> String {
    log_events(STATE, "NULL")
}

/// Creates or replaces the views. Several processes may do so at once. If it is interrupted, run it again.
pub(super) async fn create(session: &mut Session) -> Result<()> {
    migrate::check(session).await?;
    let lock = migrate::lock(session).await?;
    let created = session.several(Access::Writes, &VIEWS.replace("{state}", STATE.trim_end())).await;
    migrate::unlock(session, &lock).await?;
    created.map(drop)
}
