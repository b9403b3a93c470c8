//! One batch of a fan-out of layout `eventlog`: the oldest events in one transaction, or one by one if the database refuses
//! some of them.

use super::dialect::RowConnection;
use super::notifications::{
    Existing, FanOutOldest, FanOutOne, ListWaiting, WaitingEvent, busy, concerns_row,
};
use crate::Result;
use crate::store::{FannedOut, RefusedEvent, Skipped};

/// The transactions of a batch.
pub(super) trait FanOutSteps: Send {
    fn oldest(&mut self, batch: FanOutOldest) -> impl Future<Output = Result<FannedOut>> + Send;

    /// `None` if another process holds the lock.
    fn list(&mut self, list: ListWaiting) -> impl Future<Output = Result<Option<Vec<WaitingEvent>>>> + Send;

    fn one(&mut self, one: FanOutOne) -> impl Future<Output = Result<FannedOut>> + Send;
}

impl<C: RowConnection> FanOutSteps for C {
    fn oldest(&mut self, batch: FanOutOldest) -> impl Future<Output = Result<FannedOut>> + Send {
        self.write(batch)
    }

    fn list(&mut self, list: ListWaiting) -> impl Future<Output = Result<Option<Vec<WaitingEvent>>>> + Send {
        self.write(list)
    }

    fn one(&mut self, one: FanOutOne) -> impl Future<Output = Result<FannedOut>> + Send {
        self.write(one)
    }
}

/// Fans the oldest events out, except some. If the database refuses the notification of one event, the others are fanned out
/// without it.
pub(super) async fn fan_out_batch(
    steps: &mut impl FanOutSteps,
    events_max: usize,
    skipped: &Skipped,
) -> Result<FannedOut> {
    for existing in [Existing::Fail, Existing::Keep] {
        match steps.oldest(FanOutOldest { events_max, skipped: skipped.clone(), existing }).await {
            Err(error) if concerns_row(error.code()) => {}
            fanned_out => return fanned_out,
        }
    }
    fan_out_each(steps, ListWaiting { events_max, skipped: skipped.clone() }).await
}

/// Fans events out one by one, after a statement for all of them failed.
async fn fan_out_each(steps: &mut impl FanOutSteps, list: ListWaiting) -> Result<FannedOut> {
    let events_max = list.events_max;
    let Some(waiting) = steps.list(list).await? else { return Ok(busy()) };
    let mut all = FannedOut { more: waiting.len() >= events_max, ..FannedOut::default() };
    for WaitingEvent { id, event_type, date } in waiting {
        match steps.one(FanOutOne { id: id.clone(), event_type: event_type.clone() }).await {
            Ok(one) if one.busy => return Ok(FannedOut { busy: true, ..all }),
            Ok(one) => {
                all.events += one.events;
                all.notifications += one.notifications;
            }
            Err(error) if concerns_row(error.code()) => all.refused.push(RefusedEvent {
                event: id,
                event_type,
                event_date: date,
                reason: error.one_line(),
            }),
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Code, Error, Timestamp};

    /// A database that refuses some events. Another process takes the lock before one of the steps.
    struct Refusing {
        waiting: Vec<&'static str>,
        refused: &'static [&'static str],
        /// The step at which the lock is taken: 1 is the list, 2 the first event.
        taken_at: Option<usize>,
        step: usize,
    }

    impl Refusing {
        fn is_taken(&mut self) -> bool {
            self.step += 1;
            self.taken_at.is_some_and(|at| self.step >= at)
        }
    }

    impl FanOutSteps for Refusing {
        async fn oldest(&mut self, _: FanOutOldest) -> Result<FannedOut> {
            Err(Error::new(Code::RowRefused, "a CHECK"))
        }

        async fn list(&mut self, list: ListWaiting) -> Result<Option<Vec<WaitingEvent>>> {
            let event = |id: &&str| WaitingEvent {
                id: (*id).to_owned(),
                event_type: "Placed".to_owned(),
                date: Timestamp::default(),
            };
            let listed = self.waiting.iter().take(list.events_max).map(event).collect();
            Ok((!self.is_taken()).then_some(listed))
        }

        async fn one(&mut self, one: FanOutOne) -> Result<FannedOut> {
            if self.is_taken() {
                return Ok(busy());
            }
            if self.refused.contains(&one.id.as_str()) {
                return Err(Error::new(Code::RowRefused, "a CHECK"));
            }
            self.waiting.retain(|id| *id != one.id);
            Ok(FannedOut { events: 1, notifications: 1, ..FannedOut::default() })
        }
    }

    async fn batch(taken_at: Option<usize>) -> FannedOut {
        let waiting = vec!["a", "b", "c"];
        let mut steps = Refusing { waiting, refused: &["b"], taken_at, step: 0 };
        fan_out_batch(&mut steps, 10, &Skipped::default()).await.unwrap()
    }

    #[tokio::test]
    async fn a_refused_event_fails_alone() {
        let fanned_out = batch(None).await;
        assert_eq!((fanned_out.events, fanned_out.busy, fanned_out.more), (2, false, false));
        let refused: Vec<&str> = fanned_out.refused.iter().map(|refused| refused.event.as_str()).collect();
        assert_eq!(refused, ["b"]);
    }

    #[tokio::test]
    async fn a_lock_that_is_lost_between_two_steps_is_not_the_end_of_the_events() {
        for taken_at in 1..=3 {
            let fanned_out = batch(Some(taken_at)).await;
            assert!(fanned_out.busy, "taken at step {taken_at}: {fanned_out:?}");
        }
    }
}
