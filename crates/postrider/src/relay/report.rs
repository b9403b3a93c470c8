//! What the brain reports, as log lines.

use super::brain::{Deposed, Report};

/// Logs a report: what an operator should see without asking is a warning, the rest is for the curious.
pub(super) fn log(subscription: &str, report: &Report) {
    match report {
        Report::Leading { epoch, clean } => {
            tracing::info!(subscription, epoch = epoch.0, clean, "leading");
        }
        Report::StandingBy { holder } => {
            tracing::info!(subscription, holder, "standing by: another relay has the lease");
        }
        Report::Deposed(Deposed::Released) => tracing::info!(subscription, "lease given up"),
        Report::Deposed(Deposed::ParkedChanged) => {
            tracing::info!(subscription, "loading everything again: parked rows were changed");
        }
        Report::ParkedChanged => {
            tracing::warn!(subscription, "somebody else has changed parked rows; what they say now is done");
        }
        Report::Deposed(why) => tracing::warn!(subscription, ?why, "no longer leading"),
        Report::Halted(reason) => tracing::error!(subscription, reason, "halted until an operator decides"),
        Report::Paused(Some(reason)) => tracing::warn!(subscription, reason, "paused"),
        Report::Paused(None) => tracing::info!(subscription, "resumed"),
        Report::BreakerOpened { destination, error } => {
            tracing::warn!(subscription, %destination, error, "destination taken for down; nothing is counted");
        }
        Report::BreakerClosed { destination } => {
            tracing::info!(subscription, %destination, "destination answers again");
        }
        Report::Parked { position, state, attempts } => {
            let state = state.as_str();
            tracing::debug!(subscription, position = position.get(), state, attempts, "parked");
        }
        Report::PossibleDuplicate(position) => {
            tracing::debug!(subscription, position = position.get(), "may be delivered twice");
        }
        Report::OrderBroken(position) => {
            let position = position.get();
            tracing::error!(subscription, position, "the sink claims prefix safety and broke it");
        }
        Report::Brake(Some(limit)) => tracing::warn!(subscription, ?limit, "reading stopped at a limit"),
        Report::Brake(None) => tracing::info!(subscription, "reading again"),
    }
}
