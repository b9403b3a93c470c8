//! Simulates the fan-out: relays that die at any step, registrations, and another program that fans out on the same
//! tables without taking the lock. The verbs are the real ones; the database is a model with read-committed transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

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
}

#[derive(Debug, Clone, Default)]
struct Rows {
    /// Date and type by id; sentinels have no type.
    events: BTreeMap<u64, (i64, Option<String>)>,
    fanned_out: BTreeSet<u64>,
    notifications: BTreeSet<(u64, String)>,
    registered: Vec<RegisteredType>,
    subscriptions: BTreeSet<String>,
    searched_at: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct Database {
    committed: Rows,
    clock: i64,
    is_locked: bool,
    /// What each handler must get: events that were waiting when it was registered, and every later one.
    owed: BTreeSet<(u64, String)>,
}

/// A transaction: it sees what is committed at each step, and its own changes.
struct ModelTx {
    database: Arc<Mutex<Database>>,
    holds_lock: bool,
    fanned_out: Vec<u64>,
    notifications: Vec<(u64, String)>,
    registered: Vec<RegisteredType>,
    subscriptions: Vec<String>,
    searched_at: Option<Timestamp>,
    /// The handlers that the process knew at its start, for the bug of that name.
    known: Vec<RegisteredType>,
    bug: Option<Bug>,
}

/// One step of a transaction takes a round trip: others run meanwhile.
async fn round_trip() {
    let mut is_first = true;
    std::future::poll_fn(|_| if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) })
        .await;
}

impl ModelTx {
    fn new(database: &Arc<Mutex<Database>>, known: &[RegisteredType], bug: Option<Bug>) -> Self {
        Self {
            database: database.clone(),
            holds_lock: false,
            fanned_out: Vec::new(),
            notifications: Vec::new(),
            registered: Vec::new(),
            subscriptions: Vec::new(),
            searched_at: None,
            known: known.to_vec(),
            bug,
        }
    }

    fn commit(&mut self) {
        let mut database = self.database.lock().unwrap();
        let database = &mut *database;
        let rows = &mut database.committed;
        rows.fanned_out.extend(self.fanned_out.drain(..));
        rows.notifications.extend(self.notifications.drain(..));
        rows.subscriptions.extend(self.subscriptions.drain(..));
        rows.searched_at = self.searched_at.take().or(rows.searched_at);
        for entry in self.registered.drain(..) {
            let waiting = rows.events.iter().filter(|(id, (_, kind))| {
                kind.as_deref() == Some(&entry.pattern) && !rows.fanned_out.contains(id)
            });
            database.owed.extend(waiting.map(|(id, _)| (*id, entry.handler.clone())));
            rows.registered.push(entry);
        }
    }
}

/// The end of a transaction, by commit or death, releases its lock.
impl Drop for ModelTx {
    fn drop(&mut self) {
        if self.holds_lock {
            self.database.lock().unwrap().is_locked = false;
        }
    }
}

impl SubscriptionTx for ModelTx {
    async fn create_subscription(&mut self, name: &str) -> Result<bool> {
        round_trip().await;
        self.subscriptions.push(name.to_owned());
        Ok(!self.database.lock().unwrap().committed.subscriptions.contains(name))
    }

    async fn now(&mut self) -> Result<Timestamp> {
        Ok(Timestamp::from_micros(self.database.lock().unwrap().clock))
    }
}

impl NotificationTx for ModelTx {
    async fn lock_fan_out(&mut self, wait: bool) -> Result<bool> {
        if wait && self.bug == Some(Bug::RegisterWithoutLock) {
            return Ok(true);
        }
        loop {
            round_trip().await;
            let mut database = self.database.lock().unwrap();
            if !std::mem::replace(&mut database.is_locked, true) {
                self.holds_lock = true;
                return Ok(true);
            }
            if !wait {
                return Ok(false);
            }
        }
    }

    async fn registered(&mut self) -> Result<Vec<RegisteredType>> {
        round_trip().await;
        if self.bug == Some(Bug::HandlersOfTheProcess) {
            return Ok(self.known.clone());
        }
        Ok(self.database.lock().unwrap().committed.registered.clone())
    }

    async fn register_type(&mut self, handler: &str, pattern: &str, since: Option<Timestamp>) -> Result<()> {
        round_trip().await;
        let registered_at = Timestamp::from_micros(self.database.lock().unwrap().clock);
        let (handler, pattern) = (handler.to_owned(), pattern.to_owned());
        self.registered.push(RegisteredType { handler, pattern, since, registered_at, searched_at: None });
        Ok(())
    }

    async fn renamed_to(&mut self, _: &str) -> Result<Option<String>> {
        Ok(None)
    }

    async fn fan_out(&mut self, types: &[HandlerType], scope: FanOutScope<'_>) -> Result<(u64, u64)> {
        round_trip().await;
        let FanOutScope::Oldest { events_max, .. } = scope else { return Ok((0, 0)) };
        let rows = self.database.lock().unwrap().committed.clone();
        let mut picked: Vec<(u64, Vec<String>)> = Vec::new();
        for (id, (_, kind)) in rows.events.iter().filter(|(id, _)| !rows.fanned_out.contains(id)) {
            let of_type = types.iter().filter(|entry| Some(&entry.event_type) == kind.as_ref());
            let handlers: Vec<String> = of_type.map(|entry| entry.handler.clone()).collect();
            if !handlers.is_empty() && picked.len() < events_max {
                picked.push((*id, handlers));
            }
        }
        if self.bug == Some(Bug::SetDeliveredBeforeInsert) {
            let ids = picked.iter().map(|(id, _)| *id);
            self.database.lock().unwrap().committed.fanned_out.extend(ids);
            round_trip().await;
        }
        let mut inserted = 0;
        for (id, handlers) in &picked {
            self.fanned_out.push(*id);
            inserted += handlers.len() as u64;
            self.notifications.extend(handlers.iter().map(|handler| (*id, handler.clone())));
        }
        round_trip().await;
        Ok((picked.len() as u64, inserted))
    }

    async fn find_missed(
        &mut self,
        types: &[HandlerType],
        _: Option<&MissedNotification>,
        rows_max: usize,
    ) -> Result<Vec<MissedNotification>> {
        round_trip().await;
        let rows = self.database.lock().unwrap().committed.clone();
        let mut missed = Vec::new();
        for id in &rows.fanned_out {
            let (date, kind) = &rows.events[id];
            for entry in types.iter().filter(|entry| Some(&entry.event_type) == kind.as_ref()) {
                let is_new = entry.since.is_none_or(|since| *date >= since.as_micros());
                if is_new && !rows.notifications.contains(&(*id, entry.handler.clone())) {
                    missed.push(MissedNotification {
                        event: id.to_string(),
                        event_type: entry.event_type.clone(),
                        event_date: Timestamp::from_micros(*date),
                        handler: entry.handler.clone(),
                    });
                }
            }
        }
        missed.truncate(rows_max);
        Ok(missed)
    }

    async fn insert_missed(&mut self, missed: &[MissedNotification]) -> Result<u64> {
        round_trip().await;
        let new = missed.iter().map(|missed| (missed.event.parse().unwrap(), missed.handler.clone()));
        self.notifications.extend(new);
        Ok(missed.len() as u64)
    }

    async fn record_search(&mut self, begun: Timestamp) -> Result<()> {
        self.searched_at = Some(begun);
        Ok(())
    }
}

/// A small generator, seeded, so that every history can be repeated.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

const TYPES: [&str; 2] = ["Placed", "Shipped"];

/// An application, and another program's fan-out, which act between our steps.
fn others_act(database: &Arc<Mutex<Database>>, rng: &mut Rng) {
    let mut database = database.lock().unwrap();
    let database = &mut *database;
    database.clock += 1;
    let rows = &mut database.committed;
    match rng.below(6) {
        0 | 1 => {
            let id = rows.events.len() as u64;
            let kind = TYPES.get(usize::try_from(rng.below(3)).unwrap()).map(|kind| (*kind).to_owned());
            let handlers = rows.registered.iter().filter(|entry| Some(&entry.pattern) == kind.as_ref());
            database.owed.extend(handlers.map(|entry| (id, entry.handler.clone())));
            rows.events.insert(id, (database.clock, kind));
        }
        2 => {
            // It fans one type out to its own handler.
            let waiting: Vec<u64> = rows
                .events
                .iter()
                .filter(|(id, (_, kind))| kind.as_deref() == Some(TYPES[0]) && !rows.fanned_out.contains(id))
                .map(|(id, _)| *id)
                .collect();
            for id in waiting {
                rows.fanned_out.insert(id);
                rows.notifications.insert((id, "theirs".to_owned()));
                // What it fans out before a handler is registered here is not owed to that handler.
                let registered_after = |handler: &String| {
                    let entry = rows.registered.iter().find(|entry| &entry.handler == handler);
                    entry.is_some_and(|entry| rows.events[&id].0 < entry.registered_at.as_micros())
                };
                database.owed.retain(|(owed, handler)| *owed != id || !registered_after(handler));
            }
        }
        _ => {}
    }
}

/// Runs a verb step by step; others act between its steps, and its process may die at each. Returns whether it ended.
fn run<'a, O>(
    tx: &'a mut ModelTx,
    rng: &mut Rng,
    mut database: Option<&Arc<Mutex<Database>>>,
    verb: impl FnOnce(&'a mut ModelTx) -> std::pin::Pin<Box<dyn Future<Output = Result<O>> + 'a>>,
) -> Option<O> {
    let mut future = pin!(verb(tx));
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..1_000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return Some(output.unwrap());
        }
        if let Some(database) = &mut database {
            others_act(database, rng);
            if rng.below(12) == 0 {
                return None;
            }
        }
    }
    None
}

/// One history. Returns the deliveries that a handler should have got and did not.
fn history(seed: u64, bug: Option<Bug>) -> Vec<(u64, String)> {
    let mut rng = Rng(seed);
    let database = Arc::new(Mutex::new(Database::default()));
    let mut known = Vec::new();
    // A registration that is under way while a fan-out runs: started, and finished later.
    for _ in 0..40 {
        match rng.below(10) {
            0 | 1 => {
                let handler = format!("handler-{}", rng.below(3));
                let is_known = database.lock().unwrap().committed.subscriptions.contains(&handler);
                if !is_known {
                    interleave(&database, &mut rng, &known, bug, handler);
                    if known.is_empty() {
                        known.clone_from(&database.lock().unwrap().committed.registered);
                    }
                }
            }
            _ => {
                let mut tx = ModelTx::new(&database, &known, bug);
                let verb =
                    FanOutOldest { events_max: 2, skipped: Skipped::default(), existing: Existing::Keep };
                if run(&mut tx, &mut rng, Some(&database), |tx| Box::pin(verb.run_in(tx))).is_some() {
                    tx.commit();
                }
            }
        }
    }
    // Everything comes to rest: no process dies, and nothing more is written.
    for _ in 0..200 {
        let mut tx = ModelTx::new(&database, &known, bug);
        let verb = FanOutOldest { events_max: 5, skipped: Skipped::default(), existing: Existing::Keep };
        let done = run(&mut tx, &mut rng, None, |tx| Box::pin(verb.run_in(tx)));
        tx.commit();
        drop(tx);
        let missed = match bug {
            Some(Bug::IgnoreOtherFanOut) => 0,
            _ => {
                let mut tx = ModelTx::new(&database, &known, bug);
                let verb = FindMissed { every: Duration::ZERO, after: None, rows_max: 5 };
                let found = run(&mut tx, &mut rng, None, |tx| Box::pin(verb.run_in(tx)));
                drop(tx);
                let mut tx = ModelTx::new(&database, &known, bug);
                let Some(MissedSearch::Page(page)) = found else { panic!("the search is due") };
                let verb = InsertMissed { missed: page.missed };
                let inserted = run(&mut tx, &mut rng, None, |tx| Box::pin(verb.run_in(tx)));
                tx.commit();
                inserted.unwrap_or_default()
            }
        };
        if done.unwrap_or_default().events == 0 && missed == 0 {
            break;
        }
    }
    let database = database.lock().unwrap();
    for (id, _) in &database.committed.notifications {
        assert!(database.committed.events[id].1.is_some(), "a row without an event was fanned out");
    }
    database.owed.difference(&database.committed.notifications).cloned().collect()
}

/// Runs a registration and a fan-out side by side, each step in a random order.
fn interleave(
    database: &Arc<Mutex<Database>>,
    rng: &mut Rng,
    known: &[RegisteredType],
    bug: Option<Bug>,
    name: String,
) {
    let mut handler = RegisteredHandler::new(name);
    handler.types = Some(vec![TYPES[usize::try_from(rng.below(2)).unwrap()].to_owned()]);
    let (mut registration, mut fan_out) =
        (ModelTx::new(database, known, bug), ModelTx::new(database, known, bug));
    let mut registering = Box::pin(async move {
        let registered = Register { handler, start: Start::Beginning }.run_in(&mut registration).await;
        round_trip().await;
        registered.map(|_| registration.commit()).unwrap();
    });
    let mut fanning_out = Box::pin(async move {
        let fanned_out =
            FanOutOldest { events_max: 3, skipped: Skipped::default(), existing: Existing::Keep }
                .run_in(&mut fan_out)
                .await;
        round_trip().await;
        fanned_out.map(|_| fan_out.commit()).unwrap();
    });
    let mut cx = Context::from_waker(Waker::noop());
    let (mut is_registered, mut is_fanned_out) = (false, false);
    for _ in 0..100 {
        others_act(database, rng);
        if rng.below(2) == 0 {
            is_registered = is_registered || registering.as_mut().poll(&mut cx).is_ready();
        } else {
            is_fanned_out = is_fanned_out || fanning_out.as_mut().poll(&mut cx).is_ready();
        }
    }
}

const SEEDS: std::ops::Range<u64> = 0..1_000;

#[test]
fn every_registered_handler_gets_its_events_despite_crashes_and_another_fan_out() {
    for seed in SEEDS {
        assert_eq!(history(seed, None), [], "seed {seed}");
    }
}

#[test]
fn planted_bugs_are_found() {
    for bug in [
        Bug::SetDeliveredBeforeInsert,
        Bug::RegisterWithoutLock,
        Bug::IgnoreOtherFanOut,
        Bug::HandlersOfTheProcess,
    ] {
        assert!(SEEDS.into_iter().any(|seed| !history(seed, Some(bug)).is_empty()), "{bug:?}");
    }
}
