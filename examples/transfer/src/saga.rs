//! Which event starts which step.
//!
//! A handler may be called more than once for an event: after a crash, and because an action on two shards writes a copy of
//! its events to both. `execute_once` records the event in the inbox, in the transaction of the step.

use postrider::handler::{Context, Handlers, Result};
use postrider::inbox::Inbox;

use crate::actions::{Finish, Receive, Refund, Welcome};
use crate::bank::Executor;
use crate::model::{AccountOpened, TransferAccepted, TransferRefused, TransferStarted};

/// The handlers of every shard: the event decides on which shard its step runs.
pub fn handlers(executor: &Executor) -> Handlers {
    let (receive, accepted, refused, opened) =
        (executor.clone(), executor.clone(), executor.clone(), executor.clone());
    Handlers::new()
        .on(move |event, cx| on_started(receive.clone(), event, cx))
        .on(move |event, cx| on_accepted(accepted.clone(), event, cx))
        .on(move |event, cx| on_refused(refused.clone(), event, cx))
        .on(move |event, cx| on_opened(opened.clone(), event, cx))
}

async fn on_started(executor: Executor, event: TransferStarted, cx: Context) -> Result {
    executor.call::<Receive>(event).execute_once(&Inbox::new(), cx.subscription(), cx.event_id()).await?;
    Ok(())
}

async fn on_accepted(executor: Executor, event: TransferAccepted, cx: Context) -> Result {
    let call = executor.call::<Finish>(event.transfer);
    call.execute_once(&Inbox::new(), cx.subscription(), cx.event_id()).await?;
    Ok(())
}

async fn on_refused(executor: Executor, event: TransferRefused, cx: Context) -> Result {
    let call = executor.call::<Refund>(event.transfer);
    call.execute_once(&Inbox::new(), cx.subscription(), cx.event_id()).await?;
    Ok(())
}

async fn on_opened(executor: Executor, event: AccountOpened, cx: Context) -> Result {
    let call = executor.call::<Welcome>(event.account);
    call.execute_once(&Inbox::new(), cx.subscription(), cx.event_id()).await?;
    Ok(())
}
