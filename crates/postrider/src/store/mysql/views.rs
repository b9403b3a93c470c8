//! Views over the default layout, for operators with their own tools. Made on request.

use super::migrate;
use super::session::{Access, Session};
use crate::Result;

/// Every event with its state.
const STATE: &str = include_str!("views/state.sql");

/// What the views are made of.
const VIEWS: &str = include_str!("views/views.sql");

/// Every event with its state, as the counts read it.
pub(super) fn events() -> String {
    format!(
        "SELECT subscription, type AS event_type, producer, time AS created_at, NULL AS delivered_at, state, is_due,
                attempts
         FROM ({STATE}) AS o"
    )
}

/// Makes the views, or replaces them. Several processes may do so at once. Where it breaks off it goes on the next time.
pub(super) async fn make(session: &mut Session) -> Result<()> {
    migrate::check(session).await?;
    let lock = migrate::lock(session).await?;
    let made = session.several(Access::Writes, &VIEWS.replace("{state}", STATE.trim_end())).await;
    migrate::unlock(session, &lock).await?;
    made.map(drop)
}
