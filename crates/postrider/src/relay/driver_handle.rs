//! What other tasks use to reach the driver of a subscription: wake-ups, pauses, its status.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};

use super::brain::SubscriptionState;
use super::health_log::HealthLog;
use crate::store::Wakes;
use crate::{Code, Timestamp};

/// The status of one subscription in one relay.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SubscriptionStatus {
    /// Its name.
    pub subscription: String,
    /// The name of its outbox, if [`OutboxOptions`](super::OutboxOptions) gave it one.
    pub outbox: Option<String>,
    /// The name under which it holds its lease: that of the [relay](super::RelayHandle::name), with a number from the second
    /// outbox on.
    pub holder: String,
    /// Its state in this relay.
    pub state: SubscriptionState,
    /// Events since the relay started that no rule matched and that the router is configured to skip
    /// ([`Unrouted::Skip`](crate::route::Unrouted::Skip)). An event that is read again after a takeover counts again.
    pub skipped: u64,
    /// When this relay last delivered or settled something, or began to lead.
    pub last_progress_at: Option<Timestamp>,
    /// The current error of the database, of the takeover at the destination, or of loading schemas, if there is one. The operation is
    /// retried until it succeeds.
    pub error: Option<String>,
    /// The code of that error. With [`Recovery::Operator`](crate::Recovery::Operator) it does not end without an
    /// operator.
    pub error_code: Option<Code>,
    /// Since when it lasts.
    pub error_since: Option<Timestamp>,
    /// It is an error of the database, not of the takeover at the destination or of loading schemas.
    pub is_database_error: bool,
}

/// What other tasks use to reach a driver.
#[derive(Debug)]
pub(super) struct DriverHandle {
    pub(super) wake: Notify,
    /// Wakes the fan-out of the outbox, if it has one: new events reach the driver through it.
    fan_out: Option<Arc<Notify>>,
    pub(super) pause: Notify,
    /// The label `outbox` of its metrics.
    metrics_outbox: Option<String>,
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) status: SubscriptionStatus,
    pub(super) paused: Option<String>,
}

impl DriverHandle {
    pub(super) fn new(
        subscription: &str,
        outbox: Option<&str>,
        holder: &str,
        fan_out: Option<Arc<Notify>>,
    ) -> Self {
        let status = SubscriptionStatus {
            subscription: subscription.to_owned(),
            outbox: outbox.map(str::to_owned),
            holder: holder.to_owned(),
            ..Default::default()
        };
        let shared = Mutex::new(Shared { status, paused: None });
        Self { wake: Notify::new(), fan_out, pause: Notify::new(), metrics_outbox: None, shared }
    }

    /// With this label `outbox` of its metrics, instead of its name.
    pub(super) fn with_metrics_outbox(mut self, name: Option<&str>) -> Self {
        self.metrics_outbox = name.map(str::to_owned);
        self
    }

    pub(super) fn metrics_outbox(&self) -> Option<String> {
        self.metrics_outbox.clone().or_else(|| self.with(|shared| shared.status.outbox.clone()))
    }

    /// The subscription in the log: its name, after that of its outbox if it has one.
    pub(super) fn label(&self) -> String {
        self.with(|shared| match &shared.status.outbox {
            Some(outbox) => format!("{outbox}/{}", shared.status.subscription),
            None => shared.status.subscription.clone(),
        })
    }

    /// The name under which it holds its lease.
    pub(super) fn holder(&self) -> String {
        self.with(|shared| shared.status.holder.clone())
    }

    /// The wake-up of the fan-out of the outbox, if it has one.
    pub(super) fn fan_out(&self) -> Option<Arc<Notify>> {
        self.fan_out.clone()
    }

    /// Shows the current error in the status, or that there is none.
    pub(super) fn set_error(&self, health: &HealthLog) {
        self.with(|shared| {
            let current = health.current();
            shared.status.error_code = current.as_ref().map(|error| error.code);
            shared.status.error_since = current.as_ref().map(|error| error.since);
            shared.status.is_database_error = current.as_ref().is_some_and(|error| error.is_of_database());
            shared.status.error = current.map(|error| error.message);
        });
    }

    /// There may be new events.
    pub(super) fn wake(&self) {
        if let Some(fan_out) = &self.fan_out {
            fan_out.notify_one();
        }
        self.wake_driver();
    }

    /// There may be new events that are fanned out.
    pub(super) fn wake_driver(&self) {
        self.wake.notify_one();
    }

    pub(super) fn pause(&self, reason: Option<String>) {
        self.with(|shared| shared.paused = reason);
        self.pause.notify_one();
    }

    pub(super) fn status(&self) -> SubscriptionStatus {
        self.with(|shared| shared.status.clone())
    }

    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Shared) -> T) -> T {
        act(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Wakes the drivers at every wake-up of the store of their outbox, until the relay stops.
pub(super) async fn forward_wakes(
    mut wakes: Box<dyn Wakes>,
    drivers: Vec<Arc<DriverHandle>>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => return,
            () = wakes.next() => drivers.iter().for_each(|driver| driver.wake()),
        }
    }
}
