//! Operators add, move and remove subscriptions, and every change is in the audit trail.

use std::sync::Arc;

use postrider::operate::explain::{EventSelector, EventState};
use postrider::operate::{AuditQuery, Operator, SubscriptionAction};
use postrider::store::{Renewed, Settled, Start, Store};
use postrider::{Code, Position, Result};

use super::Databases;
use super::stage::{NAME, events, failed, granted, lease, set_of, settlement, subscribed, unread};

fn operator(store: &Arc<dyn Store>) -> Operator {
    Operator::new(store.clone(), "alice@shop")
}

async fn state(store: &Arc<dyn Store>, position: Position) -> Result<EventState> {
    let explained = operator(store).explain(EventSelector::Event(position.to_string())).await?;
    let only = explained.subscriptions.into_iter().next();
    only.map(|of| of.state).ok_or_else(|| failed("the subscription should be explained"))
}

/// What it skips is not called delivered.
pub async fn an_operator_adds_a_subscription_and_the_audit_trail_says_who(
    databases: &Databases,
) -> Result<()> {
    let under_test = databases.fresh().await?;
    let store = under_test.open().await?;
    let written = under_test.write(events(2)).await?;
    let add = SubscriptionAction::Add(Start::Position(written[1]));
    assert!(operator(&store).change_subscription(NAME, add, Some("a new consumer")).await?);
    assert!(!operator(&store).change_subscription(NAME, add, None).await?, "it exists");
    assert_eq!(unread(&store).await?, written[1..]);
    match state(&store, written[0]).await? {
        EventState::BelowStart { by, action, .. } => {
            assert_eq!((by.as_str(), action.as_str()), ("alice@shop", "subscribe"));
        }
        other => return Err(failed(format!("it is below the start: {other:?}"))),
    }
    let audit = store.list_audit(AuditQuery::default().commands_max(10)).await?;
    let found: Vec<_> = audit.iter().map(|entry| (entry.action.as_str(), entry.reason.as_deref())).collect();
    assert_eq!(found, [("subscribe", Some("a new consumer"))]);
    Ok(())
}

/// And its leader loses the lease.
pub async fn a_moved_subscription_skips_or_repeats_what_the_plan_counted(
    databases: &Databases,
) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(4)).await?;
    let owner = granted(&store, "a").await?;
    assert_eq!(store.settle(settlement(owner.epoch, set_of(&written[..2]))).await?, Settled::Done);
    let counts = |start| {
        let operator = operator(&store);
        async move {
            let plan = operator.plan_move(NAME, start).await?;
            Ok::<_, postrider::Error>((plan.skipped.events, plan.repeated.events))
        }
    };
    assert_eq!(counts(Start::Now).await?, (2, 0));
    assert_eq!(counts(Start::Beginning).await?, (0, 2));
    assert_eq!(counts(Start::Position(written[2])).await?, (0, 0));
    assert_eq!(counts(Start::Position(written[3])).await?, (1, 0));

    let to_last = SubscriptionAction::Move(Start::Position(written[3]));
    assert!(operator(&store).change_subscription(NAME, to_last, None).await?);
    assert_eq!(store.renew(lease("a"), owner.epoch).await?, Renewed::Lost);
    assert_eq!(unread(&store).await?, written[3..]);
    assert!(matches!(state(&store, written[1]).await?, EventState::Delivered { .. }));
    match state(&store, written[2]).await? {
        EventState::BelowStart { action, .. } => assert_eq!(action, "move"),
        other => return Err(failed(format!("it was skipped: {other:?}"))),
    }
    let back = SubscriptionAction::Move(Start::Beginning);
    assert!(operator(&store).change_subscription(NAME, back, None).await?);
    assert_eq!(unread(&store).await?, written);
    let unknown = operator(&store).change_subscription("other", back, None).await;
    assert_eq!(unknown.map_err(|error| error.code()), Err(Code::SubscriptionUnknown));
    Ok(())
}

/// Its progress belongs to another history: `accept-history` is for that, and is in the audit trail as well.
pub async fn a_halted_subscription_is_not_moved(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(1)).await?;
    let owner = granted(&store, "a").await?;
    store.halt(NAME, owner.epoch, "the timeline changed").await?;
    let refused =
        operator(&store).change_subscription(NAME, SubscriptionAction::Move(Start::Now), None).await;
    assert_eq!(refused.map_err(|error| error.code()), Err(Code::HistoryChanged));
    let accept = SubscriptionAction::AcceptHistory(Start::Now);
    assert!(operator(&store).change_subscription(NAME, accept, None).await?);
    match state(&store, written[0]).await? {
        EventState::BelowStart { action, .. } => assert_eq!(action, "accept-history"),
        other => return Err(failed(format!("it was skipped: {other:?}"))),
    }
    Ok(())
}

/// With all its rows, except in the audit trail.
pub async fn a_subscription_is_removed_only_without_a_leader(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    under_test.write(events(1)).await?;
    granted(&store, "a").await?;
    let remove = || {
        let operator = operator(&store);
        async move { operator.change_subscription(NAME, SubscriptionAction::Remove, Some("moved away")).await }
    };
    assert_eq!(remove().await.map_err(|error| error.code()), Err(Code::LeaseHeld));
    under_test.expire_lease(NAME).await?;
    assert!(remove().await?);
    assert_eq!(store.subscription_names().await?, Vec::<String>::new());
    assert_eq!(remove().await.map_err(|error| error.code()), Err(Code::SubscriptionUnknown));
    let audit = store.list_audit(AuditQuery::default().commands_max(10)).await?;
    assert_eq!(audit.first().map(|entry| entry.action.as_str()), Some("remove"));
    assert!(store.subscribe(NAME, Start::Beginning).await?, "it can be created again");
    Ok(())
}
