//! The overview of an outbox.

use std::time::Duration;

use postrider::ledger::{ParkedRow, ParkedState};
use postrider::store::{
    Acquired, DestinationDown, Epoch, Overview, RELAYS_MAX, RelayFacts, RelayReport, RelayRole, Settled,
    Settlement, Store, SubscriptionOverview,
};
use postrider::{Position, Result, Timestamp};

use super::Databases;
use super::stage::{NAME, events, failed, granted, lease, set_of, settlement, subscribed, unread};

/// More events than any case has.
const PLENTY: u64 = 1_000;

async fn only(store: &dyn Store, backlog_max: u64) -> Result<(Overview, SubscriptionOverview)> {
    let overview = store.overview(backlog_max).await?;
    match overview.subscriptions.as_slice() {
        [only] => Ok((overview.clone(), only.clone())),
        others => Err(failed(format!("there is one subscription, but: {others:?}"))),
    }
}

/// Unread events, and events between others that are done.
pub async fn the_backlog_is_every_event_that_is_not_done(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let (overview, before) = only(&*store, PLENTY).await?;
    assert_eq!((overview.last, overview.newest), (Position::ZERO, None));
    assert_eq!((before.floor, before.backlog.events, before.oldest()), (Position::ZERO, 0, None));

    let all = events(5);
    let times: Vec<_> = all.iter().map(|event| event.time).collect();
    let last_id = all[4].id;
    let written = under_test.write(all).await?;
    let owner = granted(&store, "a").await?;
    store.settle(settlement(owner.epoch, set_of(&[written[0], written[2]]))).await?;
    let (overview, after) = only(&*store, PLENTY).await?;
    assert_eq!(overview.last, written[4]);
    assert_eq!(
        overview.newest.map(|(mark, time)| (mark.position, mark.id, time)),
        Some((written[4], last_id, times[4]))
    );
    assert_eq!((after.floor, after.epoch), (written[0], owner.epoch));
    assert_eq!((after.backlog.events, after.backlog.more), (3, false));
    assert_eq!((after.backlog.first, after.oldest()), (Some(written[1]), Some(times[1])));
    Ok(())
}

/// The overview reports that the limit was reached.
pub async fn counting_stops_at_its_limit(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(5)).await?;
    let owner = granted(&store, "a").await?;
    store.settle(settlement(owner.epoch, set_of(&written[1..2]))).await?;
    for (max, reported) in [(0, (0, true)), (1, (1, true)), (3, (3, true)), (4, (4, false)), (5, (4, false))]
    {
        let (_, overview) = only(&*store, max).await?;
        assert_eq!((overview.backlog.events, overview.backlog.more), reported, "up to {max}");
        assert_eq!(overview.backlog.first, Some(written[0]), "up to {max}");
    }
    Ok(())
}

/// Until it is released. An expired lease is reported as expired.
pub async fn the_overview_contains_the_owner_and_the_end_of_its_lease(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let (overview, idle) = only(&*store, PLENTY).await?;
    assert_eq!((idle.lease.clone(), idle.clean, idle.leader(overview.now)), (None, true, None));

    let owner = granted(&store, "a").await?;
    let (overview, led) = only(&*store, PLENTY).await?;
    assert_eq!(led.leader(overview.now).map(|lease| lease.holder.as_str()), Some("a"));
    assert!(!led.clean);

    under_test.expire_lease(NAME).await?;
    let (overview, expired) = only(&*store, PLENTY).await?;
    assert_eq!(expired.lease.as_ref().map(|lease| lease.holder.as_str()), Some("a"));
    assert_eq!(expired.leader(overview.now), None);

    store.release(NAME, owner.epoch, true).await?;
    let (_, released) = only(&*store, PLENTY).await?;
    assert_eq!((released.lease, released.clean), (None, true));
    Ok(())
}

/// With their reasons.
pub async fn the_overview_contains_pauses_and_halts(databases: &Databases) -> Result<()> {
    let (_under_test, store) = subscribed(databases).await?;
    store.pause(NAME, Some("maintenance")).await?;
    let (_, overview) = only(&*store, PLENTY).await?;
    assert_eq!((overview.paused.as_deref(), overview.halted), (Some("maintenance"), None));
    store.pause(NAME, None).await?;
    store.halt(NAME, Epoch::default(), "restored").await?;
    let (_, overview) = only(&*store, PLENTY).await?;
    assert_eq!((overview.paused, overview.halted.as_deref()), (None, Some("restored")));
    Ok(())
}

/// By state, with the oldest row that may still be delivered and the last error.
pub async fn parked_rows_are_counted(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let all = events(3);
    let time = all[1].time;
    let written = under_test.write(all).await?;
    let owner = granted(&store, "a").await?;
    let row = |position, state, last_error: Option<&str>| ParkedRow {
        position,
        key: Some("k".to_owned()),
        destination: None,
        state,
        attempts: 1,
        next_attempt_at: None,
        last_error: last_error.map(str::to_owned),
        redelivery: None,
    };
    let park = vec![
        row(written[0], ParkedState::Dead, Some("first")),
        row(written[1], ParkedState::Behind, None),
        row(written[2], ParkedState::Retry, Some("second")),
    ];
    let settled = store.settle(Settlement { park, ..settlement(owner.epoch, set_of(&written)) }).await?;
    assert_eq!(settled, Settled::Done);
    let (_, overview) = only(&*store, PLENTY).await?;
    let parked = &overview.parked;
    let counts: Vec<u64> = ParkedState::ALL.iter().map(|state| parked.count(*state)).collect();
    assert_eq!(counts, [1, 1, 0, 1, 0, 0]);
    assert_eq!((parked.total(), parked.behind_dead, parked.behind_unrouted), (3, 1, 0));
    assert_eq!(parked.errors, ["second", "first"]);
    assert_eq!((parked.first, overview.oldest()), (Some(written[1]), Some(time)));
    assert_eq!(overview.backlog.events, 0);
    assert!(!parked.more);
    // Those with the lowest positions; a limit of zero is for callers that need all.
    let (_, limited) = only(&*store, 2).await?;
    let limited = &limited.parked;
    assert_eq!((limited.total(), limited.count(ParkedState::Retry), limited.more), (2, 0, true));
    assert_eq!((limited.behind_dead, limited.first), (1, Some(written[1])));
    let (_, all) = only(&*store, 0).await?;
    assert_eq!((all.parked.total(), all.parked.more), (3, false));
    Ok(())
}

/// Leading and standby relays are listed with what they reported, also after their reports expired: then they have died,
/// and what they last knew explains why.
pub async fn the_overview_lists_relays_with_what_they_last_reported(databases: &Databases) -> Result<()> {
    let (_under_test, store) = subscribed(databases).await?;
    let down = vec![DestinationDown {
        destination: "https://example.org/a".to_owned(),
        since: Timestamp::from_micros(1_000_001),
        error: "refused, \"politely\" \u{1F6AB}".to_owned(),
        next_probe_at: Timestamp::from_micros(2_000_002),
    }];
    let facts = |relay: &str| {
        let mut facts = RelayFacts::default();
        facts.version = format!("version of {relay} \u{1F6AB}");
        facts.epoch = Some(Epoch(i64::MAX));
        facts.delivered = u64::from(u32::MAX);
        facts.window = Duration::from_millis(1_001);
        facts
    };
    let report = |relay: &str, role, duration, down: &[DestinationDown]| RelayReport {
        subscription: NAME.to_owned(),
        relay: relay.to_owned(),
        role,
        duration,
        down: down.to_vec(),
        facts: facts(relay),
    };
    let long = Duration::from_secs(600);
    store.report(report("b", RelayRole::StandingBy, long, &[])).await?;
    store.report(report("a", RelayRole::StandingBy, long, &[])).await?;
    store.report(report("a", RelayRole::Leading, long, &down)).await?;
    store.report(report("c", RelayRole::StandingBy, Duration::ZERO, &[])).await?;
    let (all, overview) = only(&*store, PLENTY).await?;
    let reported: Vec<_> =
        overview.relays.iter().map(|of| (of.relay.as_str(), of.leading, of.is_current(all.now))).collect();
    assert_eq!(reported, [("a", true, true), ("b", false, true), ("c", false, false)]);
    assert_eq!(overview.relays[0].down, down);
    for of in &overview.relays {
        assert_eq!(of.facts, facts(&of.relay));
    }
    store.report(report("b", RelayRole::Gone, long, &[])).await?;
    let (_, overview) = only(&*store, PLENTY).await?;
    assert_eq!(overview.relays.len(), 2, "a stopped relay is not listed");
    Ok(())
}

/// However many relays have died, an overview contains the latest reports only.
pub async fn the_overview_contains_a_limited_number_of_reports(databases: &Databases) -> Result<()> {
    let (_under_test, store) = subscribed(databases).await?;
    let report = |number: usize, duration| RelayReport {
        subscription: NAME.to_owned(),
        relay: format!("relay-{number:03}"),
        role: RelayRole::StandingBy,
        duration,
        down: Vec::new(),
        facts: RelayFacts::default(),
    };
    let long = Duration::from_secs(600);
    store.report(report(0, long)).await?;
    for number in 1..RELAYS_MAX + 5 {
        store.report(report(number, Duration::ZERO)).await?;
    }
    store.report(report(999, long)).await?;
    let (_, overview) = only(&*store, PLENTY).await?;
    let listed: Vec<&str> = overview.relays.iter().map(|of| of.relay.as_str()).collect();
    assert_eq!(listed.len(), RELAYS_MAX);
    assert!(listed.is_sorted());
    assert_eq!((listed.first(), listed.last()), (Some(&"relay-000"), Some(&"relay-999")));
    Ok(())
}

/// Neither the owner nor the events are affected.
pub async fn reading_the_overview_changes_nothing(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(2)).await?;
    let owner = granted(&store, "reader").await?;
    let (_, first) = only(&*store, PLENTY).await?;
    let (_, second) = only(&*store, PLENTY).await?;
    assert_eq!(first, second);
    assert_eq!(store.settle(settlement(owner.epoch, set_of(&written[..1]))).await?, Settled::Done);
    assert_eq!(unread(&store).await?, written[1..]);
    assert!(matches!(store.acquire(lease("other")).await?, Acquired::Held { .. }));
    Ok(())
}
