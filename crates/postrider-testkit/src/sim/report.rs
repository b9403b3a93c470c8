//! The reports of the brains: traced, counted, and used where the checkers need them.

use postrider::ledger::ParkedState;
use postrider::relay::brain::{Deposed, Report};

use super::seen::{Owner, Seen};
use super::world::World;

impl World {
    /// Records a report of a brain.
    pub(crate) fn report(&mut self, owner: Owner, report: &Report) {
        let seat = owner.seat;
        self.note(|world| {
            format!("{}/s{} reports {report:?}", world.relays[seat.relay].name, seat.subscription)
        });
        self.tally.count(name(report));
        match report {
            // Somebody who was replaced may still be telling old news.
            Report::Brake(_) if self.leaders[seat.subscription] != Some(owner) => {}
            Report::Brake(brake) => self.full[seat.subscription] = brake.is_some(),
            Report::Parked { position, .. } => self.saw(&Seen::Parked { owner, position: *position }),
            _ => {}
        }
    }
}

/// The name under which a report is counted.
const fn name(report: &Report) -> &'static str {
    match report {
        Report::Leading { clean: true, .. } => "report: leading, clean",
        Report::Leading { clean: false, .. } => "report: leading, unclean",
        Report::Deposed(Deposed::LeaseLost) => "report: deposed, lease lost",
        Report::Deposed(Deposed::LeaseExpired) => "report: deposed, lease expired",
        Report::Deposed(Deposed::Fenced) => "report: deposed, fenced",
        Report::Deposed(Deposed::StoreFailed(_)) => "report: deposed, store failed",
        Report::Deposed(Deposed::ParkedChanged) => "report: deposed, parked rows changed",
        Report::ParkedChanged => "report: parked rows changed",
        Report::Deposed(Deposed::HistoryChanged) => "report: deposed, history changed",
        Report::Deposed(Deposed::Released) => "report: deposed, released",
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
        Report::Brake(Some(_)) => "report: brake on",
        Report::Brake(None) => "report: brake off",
        _ => "report: unknown",
    }
}
