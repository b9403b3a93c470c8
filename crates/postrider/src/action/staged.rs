//! Rows that were just staged.

use std::fmt;
use std::marker::PhantomData;

use super::{Entity, Model, Plan, Shard};
use crate::event::TypedEvent;
use crate::{Event, Result};

/// Where a staged row is in its plan.
pub(super) struct Place {
    /// The id of the row.
    pub(super) id: String,
    pub(super) shard: Shard,
    /// The number of its change in the plan.
    pub(super) change: usize,
    /// Its number in that change.
    pub(super) number: usize,
}

/// A row that was just staged. A [`Model`] emits its events here.
pub struct Staged<'p, M> {
    plan: &'p mut Plan,
    place: Place,
    entity: PhantomData<fn(M)>,
}

impl<'p, M> Staged<'p, M> {
    pub(super) fn new(plan: &'p mut Plan, place: Place) -> Self {
        Self { plan, place, entity: PhantomData }
    }
}

impl<M: Model> Staged<'_, M> {
    /// Stages an event of this model. Name and id of the model are its aggregate. Events are written in the order of staging.
    ///
    /// # Errors
    /// [`Code::PlanInvalid`](crate::Code::PlanInvalid) if the event names another aggregate, or if the plan has more events
    /// than the writer takes in one call (10,000 by default), or more than 64 MiB of payloads,
    /// [`Code::NameTwice`](crate::Code::NameTwice) if another type has the same event type,
    /// [`Code::PayloadSerialise`](crate::Code::PayloadSerialise) if it cannot be serialised as JSON. Then the plan is not
    /// written.
    pub fn event<E: TypedEvent + 'static>(self, event: &E) -> Result<Self> {
        self.event_with(event, |event| event)
    }

    /// As [`event`](Self::event), with fields that a type cannot define: a topic, headers, an expiry. The aggregate stays that
    /// of the model.
    ///
    /// # Errors
    /// As [`event`](Self::event).
    pub fn event_with<E: TypedEvent + 'static>(
        self,
        event: &E,
        complete: impl FnOnce(Event) -> Event,
    ) -> Result<Self> {
        self.plan.stage_event::<M, E>(&self.place, event, complete)?;
        Ok(self)
    }
}

impl<M> fmt::Debug for Staged<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staged").field("id", &self.place.id).finish_non_exhaustive()
    }
}

/// Rows that were just staged together. [`Model`]s emit their events here.
pub struct StagedAll<'p, M> {
    plan: &'p mut Plan,
    places: Vec<Place>,
    entity: PhantomData<fn(M)>,
}

impl<'p, M: Entity> StagedAll<'p, M> {
    pub(super) fn new(plan: &'p mut Plan, places: Vec<Place>) -> Self {
        Self { plan, places, entity: PhantomData }
    }
}

impl<M: Model> StagedAll<'_, M> {
    /// Stages one event for each row, in the order of the rows, as [`Staged::event`] does.
    ///
    /// ```
    /// # #[cfg(all(feature = "sqlx-sqlite", feature = "derive"))] {
    /// # use postrider::action::{Model, Plan};
    /// # #[derive(Debug, Model)]
    /// # #[model(table = "wallets")]
    /// # struct Wallet { id: i64, balance: i64, version: i64 }
    /// # #[derive(serde::Serialize, postrider::Event)]
    /// # #[event(model = Wallet)]
    /// # struct WalletOpened { balance: i64 }
    /// # let mut plan = Plan::for_test();
    /// # let wallets = vec![Wallet { id: 1, balance: 10, version: 1 }, Wallet { id: 2, balance: 20, version: 1 }];
    /// plan.add_all(wallets)?.events(|wallet| WalletOpened { balance: wallet.balance })?;
    /// # assert_eq!(plan.events().count(), 2);
    /// # }
    /// # Ok::<(), postrider::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Staged::event`], for the first row that has one.
    pub fn events<E: TypedEvent + 'static>(self, event_of: impl Fn(&M) -> E) -> Result<Self> {
        for place in &self.places {
            let event = self.plan.row::<M>(place).map(&event_of);
            if let Some(event) = event {
                self.plan.stage_event::<M, E>(place, &event, |event| event)?;
            }
        }
        Ok(self)
    }
}

impl<M> fmt::Debug for StagedAll<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedAll").field("rows", &self.places.len()).finish_non_exhaustive()
    }
}
