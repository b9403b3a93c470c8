//! Operators list, count and change parked events, and every change is in the audit trail.

use std::sync::Arc;

use postrider::ledger::{LastSeen, ParkedRow, ParkedState, Redelivery};
use postrider::operate::{
    AuditEntry, AuditQuery, AuditRecord, AuditSearch, ChangeOptions, Operator, ParkedAction, ParkedChange,
    ParkedChanged, ParkedFilter, ParkedQuery,
};
use postrider::store::{Loaded, Renewed, Settled, Settlement, Store};
use postrider::{Code, Event, Position, Result};

use super::stage::{NAME, failed, granted, held, lease, set_of, settlement, subscribed};
use super::{Database, Databases};

const REASON: &str = "the consumer is fixed";

/// Events of two keys, all parked: dead, retry, behind, expired, unrouted, held, in this order.
const STATES: [ParkedState; 6] = [
    ParkedState::Dead,
    ParkedState::Retry,
    ParkedState::Behind,
    ParkedState::Expired,
    ParkedState::Unrouted,
    ParkedState::Held,
];

struct Stage {
    _under_test: Box<dyn Database>,
    store: Arc<dyn Store>,
    owner: Loaded,
    positions: Vec<Position>,
    events: Vec<Event>,
}

fn event(number: usize, key: &str) -> Event {
    let kind = if number.is_multiple_of(2) { "even" } else { "odd" };
    Event::new(kind, format!("payload {number}")).with_key(key)
}

fn row(position: Position, key: &str, state: ParkedState, error: &str) -> ParkedRow {
    ParkedRow {
        position,
        key: Some(key.to_owned()),
        destination: Some("topic".to_owned()),
        state,
        attempts: 3,
        next_attempt_at: None,
        last_error: Some(error.to_owned()),
        redelivery: None,
    }
}

/// Writes and parks events in these states, each with its own key, as an owner does.
async fn parked(databases: &Databases, states: &[ParkedState]) -> Result<Stage> {
    let (under_test, store) = subscribed(databases).await?;
    let events: Vec<Event> =
        (0..states.len()).map(|number| event(number, &format!("key {number}"))).collect();
    let positions = under_test.write(events.clone()).await?;
    let owner = granted(&store, "a").await?;
    let rows = positions.iter().zip(states).enumerate();
    let park =
        rows.map(|(number, (position, state))| row(*position, &format!("key {number}"), *state, "Timed OUT"));
    let last = LastSeen { position: positions[states.len() - 1], id: events[states.len() - 1].id };
    let settle = Settlement {
        park: park.collect(),
        highest: Some(last),
        ..settlement(owner.epoch, set_of(&positions))
    };
    assert_eq!(store.settle(settle).await?, Settled::Done);
    Ok(Stage { _under_test: under_test, store, owner, positions, events })
}

impl Stage {
    async fn change(
        &self,
        action: ParkedAction,
        filter: &ParkedFilter,
        out_of_order: bool,
    ) -> Result<ParkedChanged> {
        let operator = Operator::new(self.store.clone(), "alice@shop");
        let options = ChangeOptions::default().reason(Some(REASON.to_owned())).out_of_order(out_of_order);
        operator.change(NAME, action, filter, options, &mut |_| {}).await
    }

    async fn rows(&self, filter: ParkedFilter) -> Result<Vec<String>> {
        let found = self.store.list_parked(ParkedQuery::new(NAME, filter, 100)).await?;
        Ok(found.into_iter().map(|item| item.row).collect())
    }

    async fn audit(&self) -> Result<Vec<AuditEntry>> {
        self.store.list_audit(AuditQuery::default().commands_max(10)).await
    }

    fn at(&self, numbers: &[usize]) -> Vec<String> {
        numbers.iter().map(|number| self.positions[*number].to_string()).collect()
    }

    fn state(&self, state: ParkedState) -> ParkedFilter {
        ParkedFilter::default().states(vec![state])
    }
}

/// The loaded row at a position, or fails the case.
fn row_at(loaded: &Loaded, position: Position) -> Result<&ParkedRow> {
    let row = loaded.parked.iter().find(|row| row.position == position);
    row.ok_or_else(|| failed(format!("{position} is not parked")))
}

/// By state, key, type, error, id and position; in the order of positions.
pub async fn parked_events_are_listed_by_filter_and_page_by_page(databases: &Databases) -> Result<()> {
    let stage = parked(databases, &STATES).await?;
    let all = ParkedFilter::default;
    assert_eq!(stage.rows(all()).await?, stage.at(&[0, 1, 2, 3, 4, 5]));
    assert_eq!(stage.rows(stage.state(ParkedState::Dead)).await?, stage.at(&[0]));
    assert_eq!(stage.rows(all().key(Some("key 2".to_owned()))).await?, stage.at(&[2]));
    assert_eq!(stage.rows(all().event_type(Some("odd".to_owned()))).await?, stage.at(&[1, 3, 5]));
    assert_eq!(stage.rows(all().error(Some("timed out".to_owned()))).await?.len(), 6);
    assert_eq!(stage.rows(all().error(Some("%".to_owned()))).await?, Vec::<String>::new());
    let named = vec![stage.events[4].id.to_string(), stage.positions[1].to_string(), "no such".to_owned()];
    assert_eq!(stage.rows(all().events(named)).await?, stage.at(&[1, 4]));
    assert_eq!(
        stage.rows(all().until(Some(postrider::Timestamp::from_micros(0)))).await?,
        Vec::<String>::new()
    );
    let page = ParkedQuery::new(NAME, all(), 2).after(Some(stage.positions[1].to_string()));
    let found = stage.store.list_parked(page).await?;
    assert_eq!(found.iter().map(|item| item.row.clone()).collect::<Vec<_>>(), stage.at(&[2, 3]));
    assert_eq!(found[0].id, Some(stage.events[2].id.to_string()));
    assert_eq!((found[0].event_type.as_deref(), found[0].state.as_str()), (Some("even"), "behind"));
    assert!(found[0].updated_at.is_some() && found[0].parked_at.is_some());
    let odd = || ParkedQuery::new(NAME, all().event_type(Some("odd".to_owned())), 10);
    for (searched, found) in [(1, 0), (2, 1), (5, 2), (6, 3), (100, 3)] {
        let query = odd().search_max(Some(searched));
        assert_eq!(stage.store.count_parked(query.clone()).await?, found, "of the first {searched}");
        let after = query.after(Some(stage.positions[1].to_string()));
        let left: Vec<String> =
            stage.store.list_parked(after).await?.into_iter().map(|item| item.row).collect();
        let wanted = stage.at(&[3, 5][..usize::from(searched >= 2) + usize::from(searched >= 4)]);
        assert_eq!(left, wanted, "of the {searched} after the second");
    }
    assert_eq!(
        stage.store.count_parked(ParkedQuery::new(NAME, all(), 4)).await?,
        4,
        "counting stops at its limit"
    );
    assert_eq!(stage.store.count_parked(ParkedQuery::new("other", all(), 4)).await?, 0);
    assert_eq!(stage.store.subscription_names().await?, [NAME]);
    Ok(())
}

/// The row says that an operator asked for it, and the owner learns that it has to load it.
pub async fn a_dead_event_that_is_retried_is_loaded_again_with_its_mark(databases: &Databases) -> Result<()> {
    let stage = parked(databases, &STATES).await?;
    let filter = ParkedFilter::default().states(vec![ParkedState::Dead, ParkedState::Expired]);
    let changed = stage.change(ParkedAction::Retry, &filter, false).await?;
    assert_eq!(changed, ParkedChanged::new(1, 0, 1), "an expired event would expire again");
    let reported = Renewed::Held { paused: None, parked_changed: true };
    assert_eq!(stage.store.renew(lease("a"), stage.owner.epoch).await?, reported);
    let loaded = granted(&stage.store, "a").await?;
    assert_eq!(loaded.dead, []);
    let first = row_at(&loaded, stage.positions[0])?;
    assert_eq!((first.state, first.attempts), (ParkedState::Retry, 0));
    assert_eq!((first.next_attempt_at, first.redelivery), (None, Some(Redelivery::Retry)));
    assert_eq!(stage.store.renew(lease("a"), loaded.epoch).await?, held(None));
    // A failure keeps the mark: it is still not in order.
    let failed = ParkedRow { attempts: 1, ..row(stage.positions[0], "key 0", ParkedState::Retry, "again") };
    let settle = Settlement { park: vec![failed], ..settlement(loaded.epoch, set_of(&stage.positions)) };
    assert_eq!(stage.store.settle(settle).await?, Settled::Done);
    let loaded = granted(&stage.store, "a").await?;
    let first = row_at(&loaded, stage.positions[0])?;
    assert_eq!((first.attempts, first.redelivery), (1, Some(Redelivery::Retry)));
    Ok(())
}

/// Each only in the states that it is for.
pub async fn events_are_skipped_discarded_and_given_up_in_the_states_that_allow_it(
    databases: &Databases,
) -> Result<()> {
    let stage = parked(databases, &STATES).await?;
    let all = ParkedFilter::default();
    assert_eq!(stage.change(ParkedAction::Discard, &all, false).await?, ParkedChanged::new(2, 0, 4));
    assert_eq!(stage.rows(all.clone()).await?, stage.at(&[1, 2, 4, 5]));
    let held = stage.state(ParkedState::Held);
    assert_eq!(stage.change(ParkedAction::Kill, &held, false).await?, ParkedChanged::new(1, 0, 0));
    assert_eq!(stage.rows(stage.state(ParkedState::Dead)).await?, stage.at(&[5]));
    assert_eq!(stage.change(ParkedAction::Skip, &all, false).await?, ParkedChanged::new(3, 0, 1));
    assert_eq!(stage.rows(all).await?, stage.at(&[5]));
    Ok(())
}

/// The relay had already sent it when the operator retried it: it is not delivered a second time.
pub async fn a_delivery_removes_its_row_even_if_an_operator_retried_it_meanwhile(
    databases: &Databases,
) -> Result<()> {
    let stage = parked(databases, &[ParkedState::Retry, ParkedState::Retry, ParkedState::Retry]).await?;
    let retried = ParkedFilter::default().events(vec![stage.positions[0].to_string()]);
    assert_eq!(stage.change(ParkedAction::Retry, &retried, false).await?.changed, 1);
    let killed = ParkedFilter::default().events(vec![stage.positions[1].to_string()]);
    assert_eq!(stage.change(ParkedAction::Kill, &killed, false).await?.changed, 1);
    let delivered = stage.positions[..2].to_vec();
    let settle = Settlement { unpark: delivered, ..settlement(stage.owner.epoch, set_of(&stage.positions)) };
    assert_eq!(stage.store.settle(settle).await?, Settled::Done);
    assert_eq!(stage.rows(ParkedFilter::default()).await?, stage.at(&[2]));
    Ok(())
}

/// The settle says so, so that the owner publishes nothing before it has loaded the change.
pub async fn a_failure_that_is_settled_after_an_operators_change_does_not_overwrite_it(
    databases: &Databases,
) -> Result<()> {
    let stage = parked(databases, &[ParkedState::Retry, ParkedState::Retry]).await?;
    let killed = ParkedFilter::default().events(vec![stage.positions[0].to_string()]);
    assert_eq!(stage.change(ParkedAction::Kill, &killed, false).await?.changed, 1);
    let skipped = ParkedFilter::default().events(vec![stage.positions[1].to_string()]);
    assert_eq!(stage.change(ParkedAction::Skip, &skipped, false).await?.changed, 1);
    let later = |number: usize| ParkedRow {
        attempts: 4,
        ..row(stage.positions[number], "key", ParkedState::Retry, "again")
    };
    let settle = Settlement {
        park: vec![later(0), later(1)],
        ..settlement(stage.owner.epoch, set_of(&stage.positions))
    };
    assert_eq!(stage.store.settle(settle).await?, Settled::ParkedChanged);
    assert_eq!(stage.rows(ParkedFilter::default()).await?, stage.at(&[0]));
    assert_eq!(stage.rows(stage.state(ParkedState::Dead)).await?, stage.at(&[0]));
    Ok(())
}

/// Unless no later event of the key was delivered, or it has no key.
pub async fn a_dead_event_whose_key_moved_on_is_retried_only_out_of_order(
    databases: &Databases,
) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let keyless = Event::new("keyless", "{}");
    let written = vec![event(0, "moved"), event(1, "stays"), keyless, event(3, "moved"), event(4, "stays")];
    let ids: Vec<_> = written.iter().map(|event| event.id).collect();
    let positions = under_test.write(written).await?;
    let owner = granted(&store, "a").await?;
    let park = vec![
        row(positions[0], "moved", ParkedState::Dead, "no"),
        row(positions[1], "stays", ParkedState::Dead, "no"),
        ParkedRow { key: None, ..row(positions[2], "", ParkedState::Dead, "no") },
        row(positions[4], "stays", ParkedState::Behind, "no"),
    ];
    let highest = Some(LastSeen { position: positions[4], id: ids[4] });
    store.settle(Settlement { park, highest, ..settlement(owner.epoch, set_of(&positions)) }).await?;
    let stage = Stage { _under_test: under_test, store, owner, positions, events: Vec::new() };
    let dead = stage.state(ParkedState::Dead);
    let changed = stage.change(ParkedAction::Retry, &dead, false).await?;
    assert_eq!(changed, ParkedChanged::new(2, 1, 0));
    assert_eq!(stage.rows(dead.clone()).await?, stage.at(&[0]));
    assert_eq!(stage.change(ParkedAction::Retry, &dead, true).await?, ParkedChanged::new(1, 0, 0));
    Ok(())
}

/// With who, what, which, how many and why; newest first. A change of nothing is not recorded.
pub async fn every_change_of_an_operator_is_in_the_audit_trail(databases: &Databases) -> Result<()> {
    let stage = parked(databases, &STATES).await?;
    let dead = stage.state(ParkedState::Dead);
    stage.change(ParkedAction::Retry, &dead, false).await?;
    stage.change(ParkedAction::Retry, &dead, false).await?;
    let audit = AuditRecord::new("bob@shop", "pause", NAME, Some("maintenance"));
    stage.store.pause_audited(NAME, Some("maintenance"), audit).await?;
    let found = stage.audit().await?;
    let actions: Vec<_> = found.iter().map(|entry| (entry.action.as_str(), entry.events)).collect();
    assert_eq!(actions, [("pause", 0), ("retry", 1)]);
    let retry = &found[1];
    assert_eq!((retry.made_by.as_str(), retry.subscription.as_deref()), ("alice@shop", Some(NAME)));
    assert_eq!((retry.selection.as_str(), retry.reason.as_deref()), ("state dead", Some(REASON)));
    assert!(retry.concerns(&stage.positions[0].to_string()), "{retry:?}");
    assert!(!retry.concerns(&stage.positions[1].to_string()), "{retry:?}");
    let paused = Some("maintenance".to_owned());
    let renewed = stage.store.renew(lease("a"), stage.owner.epoch).await?;
    assert_eq!(renewed, Renewed::Held { paused, parked_changed: true });
    let older = AuditQuery::default().before(Some(found[0].command)).commands_max(10);
    assert_eq!(stage.store.list_audit(older).await?.len(), 1);
    let other = AuditQuery::default().subscription(Some("other".to_owned())).commands_max(10);
    assert_eq!(stage.store.list_audit(other).await?, []);
    // What is not about a subscription has a name that no subscription has.
    let note = AuditRecord::new("shop", "serve as handler", "", None);
    stage.store.note_audit("handler:mail", note.clone()).await?;
    let noted = AuditQuery::default().subscription(Some("handler:mail".to_owned())).commands_max(1);
    let noted = stage.store.list_audit(noted).await?;
    assert_eq!(noted.iter().map(|entry| entry.command).collect::<Vec<_>>(), [note.command]);
    Ok(())
}

/// Also if its first batch changed nothing, and for events of its later batches.
pub async fn a_command_of_many_batches_is_listed_and_each_of_its_events_is_found(
    databases: &Databases,
) -> Result<()> {
    let mut states = vec![ParkedState::Expired; 1_000];
    states.extend([ParkedState::Dead; 3]);
    let stage = parked(databases, &states).await?;
    let both = ParkedFilter::default().states(vec![ParkedState::Dead, ParkedState::Expired]);
    let changed = stage.change(ParkedAction::Retry, &both, true).await?;
    assert_eq!(changed, ParkedChanged::new(3, 0, 1_000));
    let listed = stage.audit().await?;
    assert_eq!(
        listed.iter().map(|entry| (entry.action.as_str(), entry.events)).collect::<Vec<_>>(),
        [("retry", 3)]
    );
    let discarded = stage.change(ParkedAction::Discard, &both, false).await?;
    assert_eq!(discarded.changed, 1_000);
    let again = stage.change(ParkedAction::Skip, &ParkedFilter::default(), false).await?;
    assert_eq!(again.changed, 3);
    let of = |number: usize| AuditSearch::default().rows(stage.at(&[number])).found_max(10);
    for (number, actions) in [(0, &["discard"][..]), (999, &["discard"]), (1_002, &["skip", "retry"])] {
        let found = stage.store.find_audit(of(number)).await?;
        assert_eq!(found.iter().map(|entry| entry.action.as_str()).collect::<Vec<_>>(), actions, "{number}");
    }
    let only_skips = of(1_002).actions(vec!["skip".to_owned()]);
    assert_eq!(stage.store.find_audit(only_skips).await?.len(), 1);
    Ok(())
}

/// Both results are true.
pub async fn two_operators_at_once_change_each_event_once(databases: &Databases) -> Result<()> {
    let stage = parked(databases, &[ParkedState::Dead; 20]).await?;
    let rows: Vec<String> = stage.positions.iter().map(Position::to_string).collect();
    let change = |name: &str| {
        let audit = AuditRecord::new(name, "retry", "all", None);
        stage.store.change_parked(
            ParkedChange::new(NAME, ParkedAction::Retry, rows.clone(), audit).out_of_order(true),
        )
    };
    // A retried event may be retried again: what must not happen twice is the change from dead.
    let (first, second) = tokio::join!(change("a"), change("b"));
    assert_eq!((first?.changed, second?.changed), (20, 20));
    let discard = |name: &str| {
        let audit = AuditRecord::new(name, "skip", "all", None);
        stage.store.change_parked(ParkedChange::new(NAME, ParkedAction::Skip, rows.clone(), audit))
    };
    let (first, second) = tokio::join!(discard("a"), discard("b"));
    let (first, second) = (first?, second?);
    assert_eq!((first.changed + second.changed, first.not_applicable + second.not_applicable), (20, 20));
    Ok(())
}

/// Nothing is written.
pub async fn an_operator_cannot_change_an_unknown_subscription(databases: &Databases) -> Result<()> {
    let stage = parked(databases, &[ParkedState::Dead]).await?;
    let audit = AuditRecord::new("alice", "retry", "all", None);
    let change = ParkedChange::new("other", ParkedAction::Retry, stage.at(&[0]), audit.clone());
    let refused = stage.store.change_parked(change).await;
    assert_eq!(refused.map_err(|error| error.code()), Err(Code::SubscriptionUnknown));
    let refused = stage.store.pause_audited("other", None, audit).await;
    assert_eq!(refused.map_err(|error| error.code()), Err(Code::SubscriptionUnknown));
    assert_eq!(stage.audit().await?, []);
    Ok(())
}
