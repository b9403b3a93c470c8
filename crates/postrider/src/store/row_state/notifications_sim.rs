//! Simulates the fan-out: relays that die at any step, registrations and renamed handlers, patterns, rows that the table
//! refuses, searches for missed events, and another program that fans out on the same tables without taking the lock. The
//! verbs are the real ones; the [database](model) is a model with read-committed transactions.

#[path = "notifications_sim/model.rs"]
mod model;
#[path = "notifications_sim/tables.rs"]
mod tables;

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use self::model::{ModelTx, round_trip};
use self::tables::{Database, HOUR};
use super::super::fan_out_batch::{FanOutSteps, fan_out_batch};
use super::super::missed::InsertMissed;
use super::*;

/// A wrong design. The simulation must find each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    /// `delivered` is set in a transaction of its own, before their notifications are inserted.
    SetDeliveredBeforeInsert,
    /// A registration does not wait for a fan-out in progress.
    RegisterWithoutLock,
    /// Events that another program fanned out are not searched.
    IgnoreOtherFanOut,
    /// The fan-out uses the handlers that its process knew at its start.
    HandlersOfTheProcess,
    /// The types of a pattern are read before the events: an event of a new type is overtaken.
    TypesBeforeEvents,
    /// An event is marked although the table refuses its notification.
    MarkRefused,
    /// A search is recorded after its first page.
    RecordFirstPage,
    /// A renamed handler counts as registered when it was renamed.
    ForgetTheEarlierRegistration,
    /// A notification expires a week after its event, however late its handler was registered.
    ExpireFromTheDateOfTheEvent,
    /// A handler has its effect in another transaction than its row of the inbox.
    EffectWithoutInboxRow,
}

impl Bug {
    const ALL: [Self; 10] = [
        Self::SetDeliveredBeforeInsert,
        Self::RegisterWithoutLock,
        Self::IgnoreOtherFanOut,
        Self::HandlersOfTheProcess,
        Self::TypesBeforeEvents,
        Self::MarkRefused,
        Self::RecordFirstPage,
        Self::ForgetTheEarlierRegistration,
        Self::ExpireFromTheDateOfTheEvent,
        Self::EffectWithoutInboxRow,
    ];
}

/// A small generator, seeded, so that every history can be repeated.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

/// A process of this program: its connections to the database, and what it remembers.
#[derive(Clone)]
struct Process {
    database: Arc<Mutex<Database>>,
    /// The handlers that it knew at its start.
    known: Vec<RegisteredType>,
    skipped: Skipped,
    bug: Option<Bug>,
}

impl Process {
    fn start(database: &Arc<Mutex<Database>>, bug: Option<Bug>) -> Self {
        let known = database.lock().unwrap().committed.registered.clone();
        Self { database: database.clone(), known, skipped: Skipped::default(), bug }
    }

    fn begin(&self) -> ModelTx {
        ModelTx::new(&self.database, &self.known, self.bug)
    }

    /// Fans a batch out, and remembers what was refused. Returns how many events were fanned out.
    async fn fan_out(&mut self, events_max: usize) -> Result<u64> {
        let skipped = self.skipped.clone();
        let fanned_out = fan_out_batch(self, events_max, &skipped).await?;
        self.skipped.ids.extend(fanned_out.refused.into_iter().map(|refused| refused.event));
        Ok(fanned_out.events)
    }

    /// Registers a handler.
    async fn register(&mut self, handler: RegisteredHandler) -> Result<()> {
        let mut tx = self.begin();
        Register { handler, start: Start::Beginning }.run_in(&mut tx).await?;
        round_trip().await;
        tx.commit();
        Ok(())
    }

    /// Searches for missed events, page by page, and records the search. Returns how many notifications were inserted.
    async fn search(&mut self) -> Result<u64> {
        const ROWS_MAX: usize = 2;
        let (mut after, mut begun, mut inserted) = (None, None, 0);
        loop {
            let find = FindMissed { every: Duration::ZERO, after: after.take(), rows_max: ROWS_MAX };
            let MissedSearch::Page(page) = find.run_in(&mut self.begin()).await? else { return Ok(inserted) };
            let begun = *begun.get_or_insert(page.begun);
            for one in &page.missed {
                let mut tx = self.begin();
                match (InsertMissed { missed: vec![one.clone()] }).run_in(&mut tx).await {
                    Ok(rows) => {
                        round_trip().await;
                        tx.commit();
                        inserted += rows;
                    }
                    // While events are refused, no search is recorded.
                    Err(error) if concerns_row(error.code()) => return Ok(inserted),
                    Err(error) => return Err(error),
                }
            }
            if page.more && self.bug != Some(Bug::RecordFirstPage) {
                after = page.missed.last().cloned();
                continue;
            }
            let mut tx = self.begin();
            RecordSearch { begun }.run_in(&mut tx).await?;
            tx.commit();
            return Ok(inserted);
        }
    }
}

impl FanOutSteps for Process {
    async fn oldest(&mut self, batch: FanOutOldest) -> Result<FannedOut> {
        let mut tx = self.begin();
        let fanned_out = batch.run_in(&mut tx).await?;
        round_trip().await;
        tx.commit();
        Ok(fanned_out)
    }

    async fn list(&mut self, list: ListWaiting) -> Result<Option<Vec<WaitingEvent>>> {
        list.run_in(&mut self.begin()).await
    }

    async fn one(&mut self, one: FanOutOne) -> Result<FannedOut> {
        let mut tx = self.begin();
        let fanned_out = one.run_in(&mut tx).await?;
        round_trip().await;
        tx.commit();
        Ok(fanned_out)
    }
}

/// Types that events have; new ones come while a history runs.
const TYPES: [&str; 3] = ["Placed", "Shipped", "Paid"];

/// What handlers register.
const PATTERNS: [&str; 4] = ["Placed", "Shipped", "P*", "*"];

/// An application, another program's fan-out, and an operator, who act between our steps.
fn others_act(database: &Arc<Mutex<Database>>, rng: &mut Rng) {
    let mut database = database.lock().unwrap();
    database.clock += 1;
    match rng.below(12) {
        0..=2 => {
            let model = rng.below(3);
            let kind = match rng.below(6) {
                0 => None,
                1 => Some(format!("New{}", database.committed.events.len())),
                _ => Some(rng.one_of(&TYPES).to_owned()),
            };
            database.write(model, kind);
        }
        4 => {
            let of = rng.one_of(&TYPES);
            database.fan_out_elsewhere(of);
        }
        5 => {
            let id = rng.below(database.committed.events.len() as u64 + 1);
            if !database.committed.fanned_out.contains(&id) {
                database.refused.insert(id);
            }
        }
        6 if rng.below(4) == 0 => database.clock += 30 * HOUR,
        7 if rng.below(20) == 0 => database.clock += 200 * HOUR,
        _ => {}
    }
}

/// Polls a future until it ends. Others act between its steps, and its process may die at each: then `None`.
fn run<O>(
    future: impl Future<Output = Result<O>>,
    others: Option<(&Arc<Mutex<Database>>, &mut Rng)>,
) -> Option<O> {
    let (mut future, mut others) = (pin!(future), others);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..10_000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return Some(output.unwrap());
        }
        if let Some((database, rng)) = &mut others {
            others_act(database, rng);
            if rng.below(20) == 0 {
                return None;
            }
        }
    }
    None
}

/// A handler that is new, or a handler that is renamed.
fn next_handler(database: &Arc<Mutex<Database>>, rng: &mut Rng, number: u64) -> RegisteredHandler {
    let database = database.lock().unwrap();
    let rows = &database.committed;
    let mut handler = RegisteredHandler::new(format!("handler-{number}"));
    handler.types = Some(vec![rng.one_of(&PATTERNS).to_owned()]);
    let renamed = |name: &&RegisteredType| !rows.aliases.values().any(|of| *of == name.handler);
    let candidates: Vec<&RegisteredType> = rows.registered.iter().filter(renamed).collect();
    if let Some(earlier) = candidates.first().filter(|_| rng.below(3) == 0) {
        handler.aliases = vec![earlier.handler.clone()];
        if rng.below(2) == 0 {
            handler.types = Some(vec![earlier.pattern.clone()]);
        }
    }
    handler
}

/// What went wrong in one history: events that a handler should have got and did not, and events that were overtaken.
#[derive(Debug, Default, PartialEq, Eq)]
struct Broken {
    missing: Vec<(u64, String)>,
    overtaken: Vec<(u64, u64)>,
    repeated_effects: usize,
}

fn history(seed: u64, bug: Option<Bug>) -> Broken {
    let mut rng = Rng(seed);
    let database = Arc::new(Mutex::new(Database::default()));
    let mut process = Process::start(&database, bug);
    for step in 0..30 {
        let died = match rng.below(10) {
            0 | 1 if step < 20 => {
                let handler = next_handler(&database, &mut rng, step);
                interleave(&process, &database, &mut rng, handler);
                if process.known.is_empty() {
                    process.known.clone_from(&database.lock().unwrap().committed.registered);
                }
                false
            }
            2 if bug != Some(Bug::IgnoreOtherFanOut) => {
                run(process.clone().search(), Some((&database, &mut rng))).is_none()
            }
            _ => run(process.fan_out(3), Some((&database, &mut rng))).is_none(),
        };
        if died {
            // The process that starts next tries refused events again.
            process.skipped = Skipped::default();
        }
    }
    // Everything comes to rest: no process dies, nothing more is written, and the table accepts every row.
    database.lock().unwrap().refused.clear();
    process.skipped = Skipped::default();
    for _ in 0..500 {
        let fanned_out = run(process.fan_out(5), None).unwrap();
        let missed = match bug {
            Some(Bug::IgnoreOtherFanOut) => 0,
            _ => run(process.search(), None).unwrap(),
        };
        if fanned_out == 0 && missed == 0 {
            break;
        }
    }
    let database = database.lock().unwrap();
    for (id, _) in database.committed.notifications.keys() {
        assert!(database.committed.events[id].kind.is_some(), "a row without an event was fanned out");
    }
    Broken {
        missing: database.missing(),
        overtaken: database.overtaken.clone(),
        repeated_effects: handle_all(&database, &mut rng, bug),
    }
}

/// Handles every notification; a process may die at each point, and then the notification is handled again. Returns how
/// many effects happened more than once, or not at all.
fn handle_all(database: &Database, rng: &mut Rng, bug: Option<Bug>) -> usize {
    let mut effects: BTreeMap<&(u64, String), u32> = BTreeMap::new();
    let mut inbox = BTreeMap::new();
    for key in database.committed.notifications.keys() {
        loop {
            // The effect and the row of the inbox are one transaction; the relay records its progress after it.
            let is_first = inbox.insert(key, ()).is_none();
            if bug == Some(Bug::EffectWithoutInboxRow) || is_first {
                *effects.entry(key).or_default() += 1;
            }
            if rng.below(4) > 0 {
                break;
            }
        }
    }
    let notifications = database.committed.notifications.len();
    effects.values().filter(|times| **times != 1).count() + (notifications - effects.len())
}

/// Runs a registration and a fan-out side by side, each step in a random order.
fn interleave(process: &Process, database: &Arc<Mutex<Database>>, rng: &mut Rng, handler: RegisteredHandler) {
    let (mut registering, mut fanning_out) = (process.clone(), process.clone());
    let mut registration: Pin<Box<dyn Future<Output = Result<()>>>> =
        Box::pin(async move { registering.register(handler).await });
    let mut fan_out: Pin<Box<dyn Future<Output = Result<u64>>>> =
        Box::pin(async move { fanning_out.fan_out(3).await });
    let mut cx = Context::from_waker(Waker::noop());
    let (mut is_registered, mut is_fanned_out) = (false, false);
    for _ in 0..100 {
        others_act(database, rng);
        if rng.below(2) == 0 {
            is_registered = is_registered || registration.as_mut().poll(&mut cx).is_ready();
        } else {
            is_fanned_out = is_fanned_out || fan_out.as_mut().poll(&mut cx).is_ready();
        }
    }
}

const SEEDS: std::ops::Range<u64> = 0..150;

#[test]
fn every_registered_handler_gets_its_events_despite_crashes_and_another_fan_out() {
    for seed in SEEDS {
        assert_eq!(history(seed, None), Broken::default(), "seed {seed}");
    }
}

#[test]
fn planted_bugs_are_found() {
    for bug in Bug::ALL {
        assert!(SEEDS.into_iter().any(|seed| history(seed, Some(bug)) != Broken::default()), "{bug:?}");
    }
}
