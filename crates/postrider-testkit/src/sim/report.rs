//! The reports of the brains: traced, counted, and used where a checker needs them.

use postrider::ledger::ParkedState;
use postrider::relay::brain::{Report, TermEnd};

use super::observation::{Observation, Owner};
use super::simulation::Simulation;

impl Simulation {
    /// Records a report of a brain.
    pub(crate) fn report(&mut self, owner: Owner, report: &Report) {
        let id = owner.driver;
        self.note(|sim| format!("{}/s{} reports {report:?}", sim.relays[id.relay].name, id.subscription));
        self.tally.count(name(report));
        match report {
            // A replaced owner may still report its old state.
            Report::CapacityLimit(_) if self.leaders[id.subscription] != Some(owner) => {}
            Report::CapacityLimit(limit) => self.full[id.subscription] = limit.is_some(),
            Report::TermEnded(TermEnd::ParkedChanged) => self.reloads[id.subscription] = Some(id),
            Report::Parked { position, state, .. } => {
                self.observe(&Observation::Parked { owner, position: *position, state: *state })
            }
            _ => {}
        }
    }
}

/// The name under which a report is counted.
const fn name(report: &Report) -> &'static str {
    match report {
        Report::Leading { clean: true, .. } => "report: leading, clean",
        Report::Leading { clean: false, .. } => "report: leading, unclean",
        Report::TermEnded(TermEnd::LeaseLost) => "report: term ended, lease lost",
        Report::TermEnded(TermEnd::LeaseExpired) => "report: term ended, lease expired",
        Report::TermEnded(TermEnd::Fenced) => "report: term ended, fenced",
        Report::TermEnded(TermEnd::StoreFailed(_)) => "report: term ended, store failed",
        Report::TermEnded(TermEnd::ParkedChanged) => "report: term ended, parked rows changed",
        Report::ParkedChanged => "report: parked rows changed",
        Report::TermEnded(TermEnd::HistoryChanged) => "report: term ended, history changed",
        Report::TermEnded(TermEnd::Released) => "report: term ended, released",
        Report::StandingBy { .. } => "report: standing by",
        Report::Halted(_) => "report: halted",
        Report::Paused(Some(_)) => "report: paused",
        Report::Paused(None) => "report: resumed",
        Report::BreakerOpened { .. } => "report: breaker opened",
        Report::BreakerClosed { .. } => "report: breaker closed",
        Report::Parked { state: ParkedState::Retry, .. } => "report: parked, retry",
        Report::Parked { state: ParkedState::Behind, .. } => "report: parked, behind",
        Report::Parked { state: ParkedState::Held, .. } => "report: parked, held",
        Report::Parked { state: ParkedState::Dead, .. } => "report: parked, dead",
        Report::Parked { state: ParkedState::Expired, .. } => "report: parked, expired",
        Report::Parked { state: ParkedState::Unrouted, .. } => "report: parked, unrouted",
        Report::Failing { .. } => "report: failing",
        Report::PossibleDuplicate(_) => "report: possible duplicate",
        Report::OrderBroken(_) => "report: order broken",
        Report::CapacityLimit(Some(_)) => "report: capacity limit reached",
        Report::CapacityLimit(None) => "report: capacity limit over",
        _ => "report: unknown",
    }
}
