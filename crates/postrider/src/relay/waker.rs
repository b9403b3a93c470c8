//! Passes wake-ups from a database to the subscriptions of its outbox.

use std::sync::Arc;

use tokio::sync::watch;

use super::driver::DriverHandle;
use crate::store::Wakes;

/// Wakes the subscriptions at every wake-up of the store, until the relay stops.
pub(super) async fn run(
    mut wakes: Box<dyn Wakes>,
    handles: Vec<Arc<DriverHandle>>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => return,
            () = wakes.next() => handles.iter().for_each(|handle| handle.wake()),
        }
    }
}
