//! A change of many events: it is counted first, a person confirms it with a reason, it runs, and its result is shown.
//!
//! Plans are in memory. A plan runs once, however often its form is sent.

use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use postrider::operate::{
    ChangeOptions, Operator, ParkedAction, ParkedChanged, ParkedCount, ParkedFilter, ReplayFilter,
    ReplayOptions, ReplayPlan, ReplayProgress,
};
use postrider::{Code, Error, Result};
use tokio::time::Instant;
use uuid::Uuid;

use crate::outboxes::Outbox;

/// Plans and results that are remembered; the oldest ones are forgotten.
const PLANS_MAX: usize = 200;

/// A plan must be confirmed within this time: its count becomes old.
const CONFIRM_TIME_MAX: Duration = Duration::from_secs(15 * 60);

/// What is to be done.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// Events that are parked.
    Parked { action: ParkedAction, out_of_order: bool, parts: Vec<Part> },
    /// Finished events of one subscription, again.
    Replay { subscription: String, filter: ReplayFilter, planned: ReplayPlan, events_per_second: Option<u32> },
}

/// The events of one subscription.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) subscription: String,
    pub(crate) filter: ParkedFilter,
    pub(crate) counted: ParkedCount,
}

/// What was done in one subscription.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) subscription: String,
    pub(crate) counted: ParkedCount,
    pub(crate) changed: ParkedChanged,
    /// A replay waits until a relay has delivered what it added.
    pub(crate) is_waiting: bool,
    pub(crate) error: Option<String>,
}

/// Where a plan is.
#[derive(Debug, Clone)]
pub(crate) enum Stage {
    Counted { at: Instant },
    Running { outcomes: Vec<Outcome> },
    Done { outcomes: Vec<Outcome> },
}

/// One plan.
pub(crate) struct Plan {
    pub(crate) id: String,
    pub(crate) outbox: String,
    /// The audit name of the person who made it. No other person may confirm it.
    pub(crate) person: String,
    pub(crate) work: Work,
    /// The page to return to.
    pub(crate) back: String,
    pub(crate) stage: RwLock<Stage>,
}

impl Plan {
    pub(crate) fn stage(&self) -> Stage {
        self.stage.read().map_or(Stage::Done { outcomes: Vec::new() }, |stage| stage.clone())
    }

    fn set(&self, to: Stage) {
        if let Ok(mut stage) = self.stage.write() {
            *stage = to;
        }
    }

    fn report(&self, at: usize, outcome: Outcome) {
        if let Ok(mut stage) = self.stage.write()
            && let Stage::Running { outcomes } = &mut *stage
        {
            match outcomes.get_mut(at) {
                Some(known) => *known = outcome,
                None => outcomes.push(outcome),
            }
        }
    }
}

/// All plans.
#[derive(Default)]
pub(crate) struct Plans(Mutex<Vec<Arc<Plan>>>);

impl Plans {
    /// Remembers a new plan.
    pub(crate) fn add(&self, outbox: &str, person: String, work: Work, back: String) -> Arc<Plan> {
        let plan = Arc::new(Plan {
            id: Uuid::now_v7().simple().to_string(),
            outbox: outbox.to_owned(),
            person,
            work,
            back,
            stage: RwLock::new(Stage::Counted { at: Instant::now() }),
        });
        if let Ok(mut plans) = self.0.lock() {
            // A plan that runs stays: its result must be found.
            while plans.len() >= PLANS_MAX
                && let Some(oldest) =
                    plans.iter().position(|plan| !matches!(plan.stage(), Stage::Running { .. }))
            {
                plans.remove(oldest);
            }
            plans.push(plan.clone());
        }
        plan
    }

    /// The plan of this person with this id.
    pub(crate) fn get(&self, outbox: &str, id: &str, person: &str) -> Option<Arc<Plan>> {
        let plans = self.0.lock().ok()?;
        plans.iter().find(|plan| plan.id == id && plan.outbox == outbox && plan.person == person).cloned()
    }
}

/// Runs a plan in the background, unless it runs or has run already.
///
/// # Errors
/// If it was counted too long ago.
pub(crate) fn confirm(plan: &Arc<Plan>, outbox: Arc<Outbox>, reason: String) -> Result<()> {
    {
        let poisoned = |_| Error::new(Code::RelayStopped, "the plan is lost; count again");
        let mut stage = plan.stage.write().map_err(poisoned)?;
        match &*stage {
            Stage::Counted { at } if at.elapsed() < CONFIRM_TIME_MAX => {
                *stage = Stage::Running { outcomes: Vec::new() };
            }
            Stage::Counted { .. } => {
                return Err(Error::new(
                    Code::ConfigValue,
                    "the events were counted more than 15 minutes ago",
                )
                .with_effect("nothing was changed")
                .with_hint("count them again"));
            }
            Stage::Running { .. } | Stage::Done { .. } => return Ok(()),
        }
    }
    tokio::spawn(run(plan.clone(), outbox, reason));
    Ok(())
}

async fn run(plan: Arc<Plan>, outbox: Arc<Outbox>, reason: String) {
    // Its own connections: a long change delays no page.
    let store = match outbox.source.admin().open().await {
        Ok(store) => store,
        Err(error) => {
            let outcome = Outcome {
                subscription: String::new(),
                counted: ParkedCount::default(),
                changed: ParkedChanged::default(),
                is_waiting: false,
                error: Some(error.one_line()),
            };
            plan.set(Stage::Done { outcomes: vec![outcome] });
            return;
        }
    };
    let operator = Operator::new(store.clone(), plan.person.clone());
    match &plan.work {
        Work::Parked { action, out_of_order, parts } => {
            for (at, part) in parts.iter().enumerate() {
                let options =
                    ChangeOptions::default().reason(Some(reason.clone())).out_of_order(*out_of_order);
                let outcome = |changed, error| Outcome {
                    subscription: part.subscription.clone(),
                    counted: part.counted,
                    changed,
                    is_waiting: false,
                    error,
                };
                let mut so_far = ParkedChanged::default();
                plan.report(at, outcome(so_far, None));
                let mut progress = |changed| {
                    so_far = changed;
                    plan.report(at, outcome(changed, None));
                };
                let result =
                    operator.change(&part.subscription, *action, &part.filter, options, &mut progress).await;
                plan.report(
                    at,
                    match result {
                        Ok(changed) => outcome(changed, None),
                        Err(error) => outcome(so_far, Some(error.one_line())),
                    },
                );
            }
        }
        Work::Replay { subscription, filter, planned, events_per_second } => {
            let options = ReplayOptions::default().reason(Some(reason)).events_per_second(*events_per_second);
            let outcome = |replayed: u64, others: u64, is_waiting, error| Outcome {
                subscription: subscription.clone(),
                counted: planned.events(),
                changed: ParkedChanged::new(replayed, 0, others),
                is_waiting,
                error,
            };
            let mut so_far = 0;
            plan.report(0, outcome(0, 0, false, None));
            let mut progress = |now: ReplayProgress| {
                so_far = now.counts.replayed;
                plan.report(0, outcome(so_far, 0, now.is_waiting, None));
            };
            let result = operator.replay(subscription, filter, options, &mut progress).await;
            plan.report(
                0,
                match result {
                    Ok(counts) => {
                        outcome(counts.replayed, counts.already_parked + counts.expired, false, None)
                    }
                    Err(error) => outcome(so_far, 0, false, Some(error.one_line())),
                },
            );
        }
    }
    store.close().await;
    if let Stage::Running { outcomes } = plan.stage() {
        plan.set(Stage::Done { outcomes });
    }
}
