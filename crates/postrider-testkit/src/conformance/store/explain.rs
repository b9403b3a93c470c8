//! Every state of an event is explained truly.

use std::sync::Arc;
use std::time::Duration;

use postrider::ledger::{ParkedRow, ParkedState};
use postrider::operate::explain::{Absent, EventSelector, EventState, Explained, Explanation, Hindrance};
use postrider::operate::{
    AuditRecord, ChangeOptions, Operator, ParkedAction, ParkedFilter, ReplayFilter, ReplayOptions,
};
use postrider::store::{
    DestinationDown, Loaded, Purge, RelayFacts, RelayReport, RelayRole, Settled, Settlement, Start, Store,
};
use postrider::{Event, Position, Result, Timestamp};

use super::stage::{NAME, events, failed, granted, set_of, settlement, subscribed};
use super::{Database, Databases};

async fn explained(store: &Arc<dyn Store>, event: impl ToString) -> Result<Explained> {
    Operator::new(store.clone(), "test").explain(EventSelector::Event(event.to_string())).await
}

/// The explanation of the only subscription.
async fn only(store: &Arc<dyn Store>, event: impl ToString) -> Result<Explanation> {
    let explained = explained(store, event).await?;
    match explained.subscriptions.as_slice() {
        [only] => Ok(only.clone()),
        _ => Err(failed(format!("one subscription should be explained: {explained:?}"))),
    }
}

async fn state(store: &Arc<dyn Store>, event: impl ToString) -> Result<EventState> {
    Ok(only(store, event).await?.state)
}

async fn hindrance(store: &Arc<dyn Store>, event: impl ToString) -> Result<Option<Hindrance>> {
    Ok(only(store, event).await?.hindrance)
}

fn later() -> Timestamp {
    Timestamp::now().after(Duration::from_secs(3_600))
}

fn row(position: Position, key: &str, state: ParkedState) -> ParkedRow {
    ParkedRow {
        position,
        key: Some(key.to_owned()),
        destination: Some("topic".to_owned()),
        state,
        attempts: 2,
        next_attempt_at: (state == ParkedState::Retry).then(later),
        last_error: (state != ParkedState::Behind).then(|| "no such customer".to_owned()),
        redelivery: None,
    }
}

/// Writes one event per key and parks it, as an owner does.
async fn parked(
    databases: &Databases,
    rows: &[(&str, ParkedState)],
) -> Result<(Box<dyn Database>, Arc<dyn Store>, Loaded, Vec<Event>, Vec<Position>)> {
    let (under_test, store) = subscribed(databases).await?;
    let written: Vec<Event> = rows.iter().map(|(key, _)| Event::new("placed", "{}").with_key(*key)).collect();
    let positions = under_test.write(written.clone()).await?;
    let owner = granted(&store, "a").await?;
    let park = positions.iter().zip(rows).map(|(position, (key, state))| row(*position, key, *state));
    let settle = Settlement { park: park.collect(), ..settlement(owner.epoch, set_of(&positions)) };
    assert_eq!(store.settle(settle).await?, Settled::Done);
    Ok((under_test, store, owner, written, positions))
}

/// Found by id and by position, with what its row says.
pub async fn a_parked_event_is_explained_by_its_row(databases: &Databases) -> Result<()> {
    use ParkedState::{Behind, Dead, Expired, Held, Retry, Unrouted};
    let rows = [
        ("a", Retry),
        ("a", Behind),
        ("b", Dead),
        ("c", Expired),
        ("d", Unrouted),
        ("e", Held),
        ("b", Behind),
    ];
    let (_under_test, store, _, written, positions) = parked(databases, &rows).await?;
    let explanation = only(&store, written[0].id).await?;
    let by_position = state(&store, positions[0]).await?;
    assert_eq!(explanation.state, by_position, "an id and a position mean the same");
    match &explanation.state {
        EventState::Retry { attempts: 2, due_at: Some(due_at), error: Some(error), redelivery: None } => {
            assert!(*due_at > explanation.now, "{explanation:?}");
            assert_eq!(error, "no such customer");
        }
        other => return Err(failed(format!("a retry should be explained: {other:?}"))),
    }
    let said = explanation.to_string();
    assert!(said.contains("retry 3 is due in ") && said.contains("\"no such customer\""), "{said}");
    assert!(said.contains("leased by relay \"a\""), "{said}");
    for (waiting, head) in [(1, 0), (6, 2)] {
        match state(&store, written[waiting].id).await? {
            EventState::Behind { head: Some(row), head_id, .. } => {
                assert_eq!(row, positions[head].to_string());
                assert_eq!(head_id, Some(written[head].id.to_string()));
            }
            other => return Err(failed(format!("an event behind another should be explained: {other:?}"))),
        }
    }
    let dead = state(&store, written[2].id).await?;
    assert!(matches!(dead, EventState::Dead { attempts: 2, error: Some(_), since: Some(_) }), "{dead:?}");
    assert!(matches!(state(&store, written[3].id).await?, EventState::Expired { .. }));
    let error = Some("no such customer".to_owned());
    assert_eq!(state(&store, written[4].id).await?, EventState::Unrouted { error });
    let destination = Some("topic".to_owned());
    assert_eq!(state(&store, written[5].id).await?, EventState::Held { destination });
    Ok(())
}

/// Not when exactly: that is not recorded.
pub async fn a_delivered_event_is_explained_as_delivered_before_a_time(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(2)).await?;
    let owner = granted(&store, "a").await?;
    assert_eq!(store.settle(settlement(owner.epoch, set_of(&written[..1]))).await?, Settled::Done);
    let explanation = only(&store, written[0]).await?;
    match explanation.state {
        EventState::Delivered { before: Some(before) } => {
            assert!(before <= explanation.now && before >= Timestamp::from_micros(1), "{before}");
        }
        other => return Err(failed(format!("it was delivered: {other:?}"))),
    }
    assert_eq!((explanation.hindrance, explanation.relay), (None, None), "nothing is left to do");
    assert!(matches!(state(&store, written[1]).await?, EventState::Backlog { .. }));
    Ok(())
}

/// Which relay leads, which destination is down, who paused, why it halted; and how many events are before it.
pub async fn an_event_that_waits_is_explained_by_what_stops_its_subscription(
    databases: &Databases,
) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(3)).await?;
    let none = Hindrance::NoRelay { last: None, ended_at: None };
    assert_eq!(hindrance(&store, written[2]).await?, Some(none), "no relay ever led it");
    let owner = granted(&store, "a").await?;
    let explanation = only(&store, written[2]).await?;
    assert_eq!(explanation.hindrance, None);
    match &explanation.state {
        EventState::Backlog { ahead: Some(ahead) } => assert_eq!((ahead.events, ahead.at_least), (2, false)),
        other => return Err(failed(format!("it waits to be read: {other:?}"))),
    }
    let since = Timestamp::from_micros(1_000_001);
    let down = DestinationDown {
        destination: "topic".to_owned(),
        since,
        error: "connection refused".to_owned(),
        next_probe_at: later(),
    };
    let report = RelayReport {
        subscription: NAME.to_owned(),
        relay: "a".to_owned(),
        role: RelayRole::Leading,
        duration: Duration::from_secs(600),
        down: vec![down],
        facts: RelayFacts::default(),
    };
    store.report(report).await?;
    let explanation = only(&store, written[0]).await?;
    assert!(
        matches!(&explanation.hindrance, Some(Hindrance::DestinationDown { since: at, .. }) if *at == since)
    );
    assert!(explanation.relay.as_ref().is_some_and(|relay| relay.seen_at.is_some()), "{explanation:?}");
    let said = explanation.to_string();
    assert!(said.contains("\"topic\" is down since") && said.contains("next probe in"), "{said}");

    let audit = AuditRecord::new("bob@shop", "pause", NAME, Some("the warehouse is moving"));
    store.pause_audited(NAME, Some("the warehouse is moving"), audit).await?;
    match hindrance(&store, written[0]).await? {
        Some(Hindrance::Paused { reason, by: Some(by), at: Some(_) }) => {
            assert_eq!((reason.as_str(), by.as_str()), ("the warehouse is moving", "bob@shop"));
        }
        other => return Err(failed(format!("it is paused: {other:?}"))),
    }
    store.pause(NAME, Some("the program paused it")).await?;
    let by_program = hindrance(&store, written[0]).await?;
    assert!(matches!(by_program, Some(Hindrance::Paused { by: None, .. })), "{by_program:?}");
    store.pause(NAME, None).await?;
    under_test.expire_lease(NAME).await?;
    let ended = hindrance(&store, written[0]).await?;
    assert!(matches!(&ended, Some(Hindrance::NoRelay { last: Some(last), .. }) if last == "a"), "{ended:?}");
    store.halt(NAME, owner.epoch, "the timeline changed").await?;
    let halted = Hindrance::Halted { reason: "the timeline changed".to_owned() };
    assert_eq!(hindrance(&store, written[0]).await?, Some(halted));
    Ok(())
}

/// A later event of a key that is not read yet waits for the parked one.
pub async fn an_unread_event_waits_behind_a_parked_one_of_its_key(databases: &Databases) -> Result<()> {
    let rows = [("a", ParkedState::Retry), ("b", ParkedState::Dead)];
    let (under_test, store, _, _, positions) = parked(databases, &rows).await?;
    let unread = vec![Event::new("placed", "{}").with_key("a"), Event::new("placed", "{}").with_key("b")];
    let unread = under_test.write(unread).await?;
    match state(&store, unread[0]).await? {
        EventState::Behind { head, .. } => assert_eq!(head, Some(positions[0].to_string())),
        other => return Err(failed(format!("its key waits: {other:?}"))),
    }
    let free = state(&store, unread[1]).await?;
    assert!(matches!(free, EventState::Backlog { .. }), "a dead event delays no other: {free:?}");
    Ok(())
}

/// With who decided it, when and why; and a later delivery of the same event is not hidden.
pub async fn an_event_that_an_operator_gave_up_is_explained_by_the_audit_trail(
    databases: &Databases,
) -> Result<()> {
    let rows = [("a", ParkedState::Dead), ("b", ParkedState::Unrouted), ("c", ParkedState::Retry)];
    let (_under_test, store, owner, _, positions) = parked(databases, &rows).await?;
    let operator = Operator::new(store.clone(), "alice@shop");
    let of = |number: usize| ParkedFilter::default().events(vec![positions[number].to_string()]);
    let options = || ChangeOptions::default().reason(Some("test data".to_owned()));
    operator.change(NAME, ParkedAction::Discard, &of(0), options(), &mut |_| {}).await?;
    operator.change(NAME, ParkedAction::Skip, &of(1), options(), &mut |_| {}).await?;
    for (number, wanted) in [(0, "discard"), (1, "skip")] {
        match state(&store, positions[number]).await? {
            EventState::Discarded { action, by, reason, .. } => {
                assert_eq!((action.as_str(), by.as_str()), (wanted, "alice@shop"));
                assert_eq!(reason.as_deref(), Some("test data"));
            }
            other => return Err(failed(format!("an operator gave it up: {other:?}"))),
        }
    }
    operator.change(NAME, ParkedAction::Retry, &of(2), options(), &mut |_| {}).await?;
    let settle = Settlement { unpark: vec![positions[2]], ..settlement(owner.epoch, set_of(&positions)) };
    assert_eq!(store.settle(settle).await?, Settled::Done);
    assert!(matches!(state(&store, positions[2]).await?, EventState::Delivered { .. }));
    Ok(())
}

/// It was finished before; only its replay was given up.
pub async fn an_event_whose_replay_an_operator_gave_up_is_not_called_undelivered(
    databases: &Databases,
) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let positions = under_test.write(events(2)).await?;
    let owner = granted(&store, "a").await?;
    store.settle(settlement(owner.epoch, set_of(&positions))).await?;
    let operator = Operator::new(store.clone(), "alice@shop");
    let all = ReplayFilter::default();
    operator.replay(NAME, &all, ReplayOptions::default(), &mut |_| {}).await?;
    let of = |number: usize| ParkedFilter::default().events(vec![positions[number].to_string()]);
    let options = || ChangeOptions::default().reason(Some("enough".to_owned()));
    operator.change(NAME, ParkedAction::Skip, &of(0), options(), &mut |_| {}).await?;
    operator.change(NAME, ParkedAction::Kill, &of(1), options(), &mut |_| {}).await?;
    operator.change(NAME, ParkedAction::Discard, &of(1), options(), &mut |_| {}).await?;
    for (number, wanted) in [(0, "skip"), (1, "discard")] {
        let explanation = only(&store, positions[number]).await?;
        match &explanation.state {
            EventState::Discarded { action, replayed_at: Some(_), .. } => assert_eq!(action, wanted),
            other => return Err(failed(format!("its replay was given up: {other:?}"))),
        }
        let said = explanation.to_string();
        let end = format!("used `{wanted}` at ");
        assert!(said.contains("finished before its replay of ") && said.contains(&end), "{said}");
        assert!(!said.contains("never delivered"), "{said}");
    }
    Ok(())
}

/// It was not delivered, although the subscription is past it.
pub async fn an_event_below_the_start_of_a_subscription_is_not_called_delivered(
    databases: &Databases,
) -> Result<()> {
    let under_test = databases.fresh().await?;
    let store = under_test.open().await?;
    let before = under_test.write(events(2)).await?;
    assert!(store.subscribe(NAME, Start::Now).await?);
    let after = under_test.write(events(1)).await?;
    let owner = granted(&store, "a").await?;
    let mut done = owner.progress.done.clone();
    done.insert(after[0]);
    assert_eq!(store.settle(settlement(owner.epoch, done)).await?, Settled::Done);
    for position in before {
        match state(&store, position).await? {
            EventState::BelowStart { action, start, .. } => {
                assert_eq!((action.as_str(), start.as_str()), ("subscribe", "start now"));
            }
            other => return Err(failed(format!("it is below the start: {other:?}"))),
        }
    }
    assert!(matches!(state(&store, after[0]).await?, EventState::Delivered { .. }));
    Ok(())
}

/// Why there is no event: still open, rolled back, removed, not reached, unknown.
pub async fn an_event_that_does_not_exist_is_explained(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(3)).await?;
    let unknown = explained(&store, Event::new("x", "").id).await?.absent;
    assert!(matches!(unknown, Some(Absent::Unknown { .. })), "{unknown:?}");
    assert!(matches!(explained(&store, "no id").await?.absent, Some(Absent::Unknown { .. })));
    let last = explained(&store, i64::MAX - 1).await?.absent;
    assert!(matches!(last, Some(Absent::NotReached { .. })), "{last:?}");
    under_test.delete(written[1]).await?;
    assert_eq!(explained(&store, written[1]).await?.absent, Some(Absent::Empty));
    under_test.delete(written[0]).await?;
    let removed = explained(&store, written[0]).await?.absent;
    assert!(matches!(removed, Some(Absent::RemovedByRetention { .. })), "{removed:?}");

    let event = Event::new("open", "a secret");
    let id = event.id;
    let open = under_test.begin(vec![event]).await?;
    let absent = explained(&store, id).await?.absent;
    match absent {
        Some(Absent::TransactionOpen { transactions }) if under_test.shows_writers() => {
            assert!(!transactions.is_empty() && !transactions[0].backend.is_empty(), "{transactions:?}");
            assert!(!format!("{transactions:?}").contains("a secret"), "{transactions:?}");
        }
        Some(Absent::Unknown { .. }) if !under_test.shows_writers() => {}
        other => return Err(failed(format!("its transaction is open: {other:?}"))),
    }
    open.commit().await?;
    assert!(explained(&store, id).await?.event.is_some());
    Ok(())
}

/// An id has a time in milliseconds, the oldest event one in microseconds: in the same millisecond, nothing was removed.
pub async fn an_id_of_the_oldest_events_millisecond_is_unknown(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let sought = Event::new("x", "");
    let millis = i64::try_from(sought.id.as_u128() >> 80).map_err(|error| failed(error.to_string()))?;
    let end = Timestamp::from_micros(millis * 1_000 + 999);
    under_test.write(vec![Event::new("placed", "{}").with_time(end)]).await?;
    let absent = explained(&store, sought.id).await?.absent;
    assert!(matches!(absent, Some(Absent::Unknown { .. })), "{absent:?}");
    Ok(())
}

/// Deleted by the relay's own cleanup.
pub async fn an_event_that_retention_removed_is_explained(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    // Long ago on every clock, also on that of the memory store.
    let old = (0..2).map(|_| Event::new("old", "").with_time(Timestamp::from_micros(-1_000_000_000_000_000)));
    let written = under_test.write(old.chain(events(1)).collect()).await?;
    let owner = granted(&store, "a").await?;
    assert_eq!(store.settle(settlement(owner.epoch, set_of(&written))).await?, Settled::Done);
    let purge = Purge::new(Duration::from_secs(3_600), 100);
    let purged = store.purge(purge).await?;
    assert!(purged.deleted >= 1, "{purged:?}");
    let absent = explained(&store, written[0]).await?.absent;
    assert!(matches!(absent, Some(Absent::RemovedByRetention { .. })), "{absent:?}");
    Ok(())
}

/// And why.
pub async fn a_damaged_row_is_explained(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(1)).await?;
    under_test.damage(written[0]).await?;
    for _ in 0..2 {
        match state(&store, written[0]).await? {
            EventState::Damaged { error } => assert!(!error.is_empty()),
            other => return Err(failed(format!("its row is damaged: {other:?}"))),
        }
        // The relay parks it as dead; the reason stays.
        let owner = granted(&store, "a").await?;
        let park = vec![row(written[0], "x", ParkedState::Dead)];
        store.settle(Settlement { park, ..settlement(owner.epoch, set_of(&written)) }).await?;
    }
    Ok(())
}

/// The first of its events that is not finished, in each subscription that has one.
pub async fn a_key_is_explained_by_its_first_unfinished_event(databases: &Databases) -> Result<()> {
    let rows = [("a", ParkedState::Retry), ("a", ParkedState::Behind), ("b", ParkedState::Dead)];
    let (under_test, store, _, _, positions) = parked(databases, &rows).await?;
    let unread = under_test.write(vec![Event::new("placed", "{}").with_key("c%/x")]).await?;
    let operator = Operator::new(store, "test");
    let of = |key: &str| operator.explain(EventSelector::Key(key.to_owned()));
    for (key, position) in [("a", positions[0]), ("b", positions[2]), ("c%/x", unread[0])] {
        let explained = of(key).await?;
        let events: Vec<_> = explained.subscriptions.iter().filter_map(|of| of.event.as_ref()).collect();
        assert_eq!(events.len(), 1, "{explained:?}");
        assert_eq!(events[0].row, position.to_string(), "{explained:?}");
    }
    let nothing = of("none").await?;
    assert_eq!((nothing.absent, nothing.subscriptions), (Some(Absent::NothingWaits), Vec::new()));
    Ok(())
}

/// The table has no index on ids: they are searched around the time in them.
pub async fn an_event_is_found_by_its_id_among_many(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let mut ids = Vec::new();
    for _ in 0..5 {
        let batch = events(500);
        ids.extend(batch.iter().map(|event| event.id));
        under_test.write(batch).await?;
    }
    for number in [0, 1, 700, 1_250, 2_498, 2_499] {
        let found = explained(&store, ids[number]).await?;
        let id = found.event.as_ref().and_then(|event| event.id.clone());
        assert_eq!(id, Some(ids[number].to_string()), "{found:?}");
    }
    Ok(())
}
