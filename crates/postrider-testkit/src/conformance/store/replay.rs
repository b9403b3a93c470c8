//! Operators deliver finished events again.

use std::time::Duration;

use postrider::ledger::{ParkedRow, ParkedState, Redelivery};
use postrider::operate::{AuditQuery, AuditRecord, Operator, ReplayBatch, ReplayFilter, ReplayOptions};
use postrider::store::{Loaded, Purge, Renewed, Settlement};
use postrider::{Code, Event, Position, Result, Timestamp};

use super::Databases;
use super::maintain::OLD;
use super::stage::{NAME, failed, granted, held, lease, set_of, settlement, subscribed};

const REASON: &str = "the consumer is fixed";

fn event(number: usize, key: &str) -> Event {
    Event::new(if number.is_multiple_of(2) { "even" } else { "odd" }, "{}").with_key(key)
}

fn dead(position: Position, key: &str) -> ParkedRow {
    ParkedRow {
        position,
        key: Some(key.to_owned()),
        destination: None,
        state: ParkedState::Dead,
        attempts: 3,
        next_attempt_at: None,
        last_error: Some("no".to_owned()),
        redelivery: None,
    }
}

fn batch(filter: ReplayFilter, after: Position, last: Option<Position>, events_max: usize) -> ReplayBatch {
    let audit = Some(AuditRecord::new("alice", "replay", &filter.description(), Some(REASON)));
    ReplayBatch { subscription: NAME.to_owned(), filter, after, last, events_max, audit }
}

fn replayed(loaded: &Loaded) -> Vec<(Position, ParkedState)> {
    let rows = loaded.parked.iter().filter(|row| row.redelivery == Some(Redelivery::Replay));
    let mut rows: Vec<_> = rows.map(|row| (row.position, row.state)).collect();
    rows.sort_by_key(|(position, _)| *position);
    rows
}

/// What is not done, parked or expired is not touched. The owner learns of it, and an event is parked once.
pub async fn a_replay_parks_finished_events_again_and_nothing_else(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let keys = ["a", "b", "a", "b", "c", "d", "a"];
    let mut written: Vec<Event> = keys.iter().enumerate().map(|(number, key)| event(number, key)).collect();
    written[4].expires_at = Some(Timestamp::from_micros(1_000_000));
    written[5] = Event::new("odd", "{}").with_aggregate("Or/der", "4%2");
    let positions = under_test.write(written).await?;
    let owner = granted(&store, "a").await?;
    let park = vec![dead(positions[1], "b")];
    store.settle(Settlement { park, ..settlement(owner.epoch, set_of(&positions[..6])) }).await?;
    let operator = Operator::new(store.clone(), "alice@shop");
    let plan = operator.plan_replay(NAME, &ReplayFilter::default()).await?;
    assert_eq!((plan.counts.replayed, plan.at_least), (4, false));
    assert_eq!(store.renew(lease("a"), owner.epoch).await?, held(None), "a count changes nothing");

    let options = ReplayOptions::default().reason(Some(REASON.to_owned()));
    let filter = ReplayFilter::default();
    let mut last = None;
    let done = operator.replay(NAME, &filter, options.clone(), &mut |now| last = Some(now)).await?;
    assert_eq!(done, plan.counts, "the count is that of the replay");
    assert_eq!((done.already_parked, done.not_done, done.expired, done.damaged), (1, 1, 1, 0));
    assert_eq!(last.map(|last| last.counts), Some(done));
    let reported = Renewed::Held { paused: None, parked_changed: true };
    assert_eq!(store.renew(lease("a"), owner.epoch).await?, reported);
    let found = store.list_audit(AuditQuery::default().commands_max(10)).await?;
    let entry = found.iter().find(|entry| entry.action == "replay");
    let entry = entry.ok_or_else(|| failed("there is no audit row"))?;
    assert_eq!((entry.events, entry.made_by.as_str()), (4, "alice@shop"));
    assert_eq!(entry.reason.as_deref(), Some(REASON));
    assert!(entry.concerns(&positions[3].to_string()) && !entry.concerns(&positions[1].to_string()));

    let again = operator.replay(NAME, &filter, options, &mut |_| ()).await?;
    assert_eq!((again.replayed, again.already_parked), (0, 5), "each is parked once");
    let loaded = granted(&store, "a").await?;
    let (retry, behind) = (ParkedState::Retry, ParkedState::Behind);
    let wanted = [(0, retry), (2, behind), (3, retry), (5, retry)];
    assert_eq!(replayed(&loaded), wanted.map(|(number, state)| (positions[number], state)));
    for row in loaded.parked.iter().filter(|row| row.redelivery.is_some()) {
        let number = positions.iter().position(|position| *position == row.position).unwrap_or_default();
        let key = if number == 5 { "Or%2Fder/4%2" } else { keys[number] };
        assert_eq!(
            (row.key.as_deref(), row.attempts),
            (Some(key), 0),
            "the key of the event, as a relay knows it"
        );
    }
    assert_eq!(loaded.progress.done, set_of(&positions[..6]), "the progress is the same");
    assert_eq!(loaded.dead.len(), 1);
    Ok(())
}

/// Each batch is limited, and together they replay every event once and in order.
pub async fn a_replay_continues_where_its_last_batch_ended(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let positions = under_test.write((0..5).map(|number| event(number, "a")).collect()).await?;
    let owner = granted(&store, "a").await?;
    store.settle(settlement(owner.epoch, set_of(&positions))).await?;
    let (mut after, mut last, mut found) = (Position::ZERO, None, Vec::new());
    loop {
        let part = store.replay(batch(ReplayFilter::default(), after, last, 2)).await?;
        found.push(part.counts.replayed);
        (after, last) = (part.reached, Some(part.last));
        if part.reached >= part.last {
            break;
        }
        // Events that are written after the replay began do not belong to it.
        under_test.write(vec![event(9, "a")]).await?;
    }
    assert_eq!(found, [2, 2, 1]);
    let rows = replayed(&granted(&store, "a").await?);
    assert_eq!(rows.iter().map(|(position, _)| *position).collect::<Vec<_>>(), positions);
    Ok(())
}

/// Nothing is written.
pub async fn a_halted_or_unknown_subscription_is_not_replayed(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let positions = under_test.write(vec![event(0, "a")]).await?;
    let owner = granted(&store, "a").await?;
    store.settle(settlement(owner.epoch, set_of(&positions))).await?;
    let replay = || batch(ReplayFilter::default(), Position::ZERO, None, 10);
    for audit in [None, replay().audit] {
        let other = ReplayBatch { subscription: "other".to_owned(), audit, ..replay() };
        let refused = store.replay(other).await.map_err(|error| error.code());
        assert_eq!(refused.err(), Some(Code::SubscriptionUnknown));
    }
    store.halt(NAME, owner.epoch, "restored").await?;
    let refused = store.replay(replay()).await.map_err(|error| error.code());
    assert_eq!(refused.err(), Some(Code::HistoryChanged));
    let audit = store.list_audit(AuditQuery::default().commands_max(10)).await?;
    assert!(audit.iter().all(|entry| entry.action != "replay"), "{audit:?}");
    Ok(())
}

/// Names are compared exactly on every database, whatever its collation.
pub async fn a_replay_selects_by_time_type_key_and_position(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let hour = |number: i64| Timestamp::from_micros(1_700_000_000_000_000 + number * 3_600_000_000);
    let at = |number: usize, key: &str| {
        let mut event = event(number, key);
        event.time = hour(i64::try_from(number).unwrap_or_default());
        event
    };
    let keys = ["a", "A", "ä", "a ", "a", "b", "c", "a"];
    let written = keys.iter().enumerate().map(|(number, key)| at(number, key)).collect();
    let positions = under_test.write(written).await?;
    let owner = granted(&store, "a").await?;
    store.settle(settlement(owner.epoch, set_of(&positions))).await?;
    let operator = Operator::new(store.clone(), "alice");
    let all = ReplayFilter::default;
    let key = Some("a".to_owned());
    for (filter, wanted) in [
        (all().key(key.clone()), 3),
        (all().event_type(Some("odd".to_owned())), 4),
        (all().event_type(Some("ODD".to_owned())), 0),
        (all().since(Some(hour(2))).until(Some(hour(4))), 3),
        (all().since(Some(hour(6))), 2),
        (all().since(Some(hour(100))), 0),
        (all().until(Some(hour(-1))), 0),
        (all().from(Some(positions[1])).to(Some(positions[3])), 3),
        (all().from(Some(Position::new(i64::MIN))).to(Some(Position::new(i64::MAX))), 8),
        (all().from(Some(Position::new(i64::MAX))), 0),
        (all().key(key).since(Some(hour(1))).to(Some(positions[4])), 1),
    ] {
        let counted = operator.plan_replay(NAME, &filter).await?;
        assert_eq!(counted.counts.replayed, wanted, "{}", filter.description());
        let part =
            store.replay(ReplayBatch { audit: None, ..batch(filter, Position::ZERO, None, 1_000) }).await?;
        assert!(part.reached >= part.last, "{part:?}");
    }
    Ok(())
}

/// Retention keeps it until it is delivered again.
pub async fn an_event_that_is_replayed_is_not_deleted(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let positions =
        under_test.write((0..3).map(|number| event(number, "a").with_time(OLD)).collect()).await?;
    let owner = granted(&store, "a").await?;
    store.settle(settlement(owner.epoch, set_of(&positions))).await?;
    store.replay(batch(ReplayFilter::default().to(Some(positions[0])), Position::ZERO, None, 10)).await?;
    store.purge(Purge::new(Duration::ZERO, 100)).await?;
    let fetched = store.peek(positions.clone(), usize::MAX >> 1).await?;
    let left: Vec<Position> = fetched.events.iter().map(|event| event.position).collect();
    assert!(left.contains(&positions[0]) && !left.contains(&positions[1]), "{left:?}");
    Ok(())
}
