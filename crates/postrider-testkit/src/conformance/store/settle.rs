//! Recording progress.

use postrider::ledger::{LastSeen, ParkedRow, ParkedState, Progress, Trial};
use postrider::store::{Acquired, LeaseRequest, Renewed, Settled, Settlement, Start};
use postrider::{Position, Result, Timestamp};
use uuid::Uuid;

use super::Databases;
use super::stage::{NAME, failed, granted, held, lease, set_of, settlement, subscribed};

/// Including ranges above the floor, the mark and the trial.
pub async fn progress_is_loaded_as_it_was_settled(databases: &Databases) -> Result<()> {
    let (_under_test, store) = subscribed(databases).await?;
    let owner = granted(&store, "a").await?;
    let progress = progress();
    let settled = store.settle(with_progress(settlement(owner.epoch, set_of(&[])), &progress)).await?;
    assert_eq!(settled, Settled::Done);
    assert_eq!(granted(&store, "a").await?.progress, progress);
    Ok(())
}

/// The new state replaces the old one as a whole.
pub async fn an_empty_settlement_clears_trial_and_mark(databases: &Databases) -> Result<()> {
    let (_under_test, store) = subscribed(databases).await?;
    let owner = granted(&store, "a").await?;
    store.settle(with_progress(settlement(owner.epoch, set_of(&[])), &progress())).await?;
    store.settle(settlement(owner.epoch, set_of(&at([1])))).await?;
    let expected = Progress { done: set_of(&at([1])), highest: None, trial: None };
    assert_eq!(granted(&store, "a").await?.progress, expected);
    Ok(())
}

/// Rows that are still needed, rows that are dead, and the number of all rows.
pub async fn rows_are_parked_in_every_state(databases: &Databases) -> Result<()> {
    let (_under_test, store) = subscribed(databases).await?;
    let owner = granted(&store, "a").await?;
    let rows: Vec<_> = (1..).zip(ParkedState::ALL).map(|(number, state)| row(number, *state)).collect();
    store.settle(Settlement { park: rows.clone(), ..settlement(owner.epoch, set_of(&[])) }).await?;
    let loaded = granted(&store, "a").await?;
    let waiting: Vec<_> = rows.iter().filter(|row| !row.state.is_final()).cloned().collect();
    let dead: Vec<_> = rows.iter().filter(|row| row.state == ParkedState::Dead).cloned().collect();
    assert_eq!(sorted(loaded.parked), waiting);
    assert_eq!(loaded.dead, dead);
    assert_eq!(loaded.parked_count, rows.len() as u64);
    Ok(())
}

/// A settle neither writes it again, nor restores it after it was removed, and says so. A row whose event was delivered
/// is removed. The next owner loads the changed row.
pub async fn a_parked_row_that_an_operator_changed_is_reported_and_never_overwritten(
    databases: &Databases,
) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let owner = granted(&store, "a").await?;
    let rows: Vec<_> = (1..=5).map(|number| row(number, ParkedState::Dead)).collect();
    store.settle(Settlement { park: rows.clone(), ..settlement(owner.epoch, set_of(&[])) }).await?;
    assert_eq!(store.renew(lease("a"), owner.epoch).await?, held(None));
    under_test.revise_parked(NAME, Position::new(1), Some("retry")).await?;
    let reported = Renewed::Held { paused: None, parked_changed: true };
    assert_eq!(store.renew(lease("a"), owner.epoch).await?, reported);
    under_test.revise_parked(NAME, Position::new(2), Some("retry")).await?;
    under_test.revise_parked(NAME, Position::new(3), None).await?;
    let later = ParkedRow { attempts: 9, ..row(2, ParkedState::Retry) };
    let back = ParkedRow { attempts: 9, ..row(3, ParkedState::Retry) };
    let ours = ParkedRow { attempts: 9, ..row(4, ParkedState::Retry) };
    let done = Settlement {
        park: vec![later, back, ours.clone()],
        unpark: at([1, 5]).to_vec(),
        ..settlement(owner.epoch, set_of(&at([1, 2, 3, 4, 5])))
    };
    assert_eq!(store.settle(done).await?, Settled::ParkedChanged);
    assert_eq!(store.renew(lease("a"), owner.epoch).await?, reported);
    let loaded = granted(&store, "a").await?;
    let revised = |number| ParkedRow { attempts: 0, ..row(number, ParkedState::Retry) };
    assert_eq!(sorted(loaded.parked), [revised(2), ours]);
    assert_eq!((loaded.dead, loaded.parked_count), (Vec::new(), 2));
    assert_eq!(loaded.progress.done, set_of(&at([1, 2, 3, 4, 5])));
    assert_eq!(store.renew(lease("a"), loaded.epoch).await?, held(None));
    Ok(())
}

/// Also after rows of another owner were loaded, replaced and removed.
pub async fn rows_that_an_owner_parks_itself_are_not_reported_as_changed(
    databases: &Databases,
) -> Result<()> {
    let (_under_test, store) = subscribed(databases).await?;
    let first = granted(&store, "a").await?;
    let rows: Vec<_> = (1..).zip(ParkedState::ALL).map(|(number, state)| row(number, *state)).collect();
    store.settle(Settlement { park: rows, ..settlement(first.epoch, set_of(&[])) }).await?;
    let owner = granted(&store, "a").await?;
    assert_eq!(store.renew(lease("a"), owner.epoch).await?, held(None));
    for (number, &state) in (1..).zip(ParkedState::ALL.iter().rev()) {
        let park = vec![ParkedRow { attempts: 7, ..row(number, state) }];
        let unpark = at([number, number + 1]).to_vec();
        store.settle(Settlement { park, unpark, ..settlement(owner.epoch, set_of(&[])) }).await?;
        assert_eq!(store.renew(lease("a"), owner.epoch).await?, held(None), "{state:?}");
    }
    assert_eq!(granted(&store, "a").await?.parked_count, 6);
    Ok(())
}

/// By position; other rows stay. A new row without a key or destination keeps the previous values.
pub async fn parked_rows_are_replaced_and_removed(databases: &Databases) -> Result<()> {
    let (_under_test, store) = subscribed(databases).await?;
    let owner = granted(&store, "a").await?;
    let rows: Vec<_> = (1..=3).map(|number| row(number, ParkedState::Retry)).collect();
    store.settle(Settlement { park: rows.clone(), ..settlement(owner.epoch, set_of(&[])) }).await?;
    let bare = ParkedRow {
        position: Position::new(2),
        key: None,
        destination: None,
        state: ParkedState::Unrouted,
        attempts: 0,
        next_attempt_at: None,
        last_error: None,
        redelivery: None,
    };
    let change = Settlement {
        park: vec![bare.clone()],
        unpark: at([1, 99]).into(),
        ..settlement(owner.epoch, set_of(&[]))
    };
    store.settle(change).await?;
    let loaded = granted(&store, "a").await?;
    let replaced = ParkedRow { key: rows[1].key.clone(), destination: rows[1].destination.clone(), ..bare };
    assert_eq!(sorted(loaded.parked), [replaced, rows[2].clone()]);
    assert_eq!(loaded.parked_count, 2);
    Ok(())
}

/// A new subscription does not affect existing ones.
pub async fn subscriptions_do_not_share_progress_or_parked_rows(databases: &Databases) -> Result<()> {
    let (_under_test, store) = subscribed(databases).await?;
    store.subscribe("search", Start::Beginning).await?;
    let owner = granted(&store, "a").await?;
    let park = vec![row(1, ParkedState::Retry)];
    store.settle(Settlement { park, ..settlement(owner.epoch, set_of(&at([1, 2]))) }).await?;
    let other = LeaseRequest { subscription: "search".to_owned(), ..lease("a") };
    let Acquired::Granted(loaded) = store.acquire(other).await? else {
        return Err(failed("the lease of the other subscription is free"));
    };
    assert_eq!((loaded.progress, loaded.parked_count), (Progress::default(), 0));
    Ok(())
}

/// Neither progress nor parked rows are written or removed.
pub async fn a_fenced_settlement_changes_nothing_at_all(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let first = granted(&store, "a").await?;
    let kept = row(1, ParkedState::Retry);
    let before = Settlement { park: vec![kept.clone()], ..settlement(first.epoch, set_of(&[])) };
    store.settle(with_progress(before, &progress())).await?;
    under_test.expire_lease(NAME).await?;
    granted(&store, "b").await?;

    let late = Settlement {
        park: vec![row(1, ParkedState::Dead), row(2, ParkedState::Retry)],
        unpark: at([1]).into(),
        ..settlement(first.epoch, set_of(&at([1, 2, 3, 4, 5])))
    };
    assert_eq!(store.settle(late).await?, Settled::Fenced);

    let loaded = granted(&store, "b").await?;
    assert_eq!(loaded.progress, progress());
    assert_eq!((loaded.parked, loaded.parked_count), (vec![kept], 1));
    Ok(())
}

/// The epoch decides, not the time: no other owner has loaded the state yet.
pub async fn an_expired_lease_without_a_takeover_can_still_settle(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let owner = granted(&store, "a").await?;
    under_test.expire_lease(NAME).await?;
    assert_eq!(store.settle(settlement(owner.epoch, set_of(&at([1])))).await?, Settled::Done);
    Ok(())
}

fn progress() -> Progress {
    Progress {
        done: set_of(&at([1, 2, 5, 6, 7, 9])),
        highest: Some(LastSeen {
            position: Position::new(12),
            id: Uuid::from_u128(0x0195_f000_7000_8000_0000_0000_0000_0007),
        }),
        trial: Some(Trial { positions: at([3, 4]).into(), deaths: 2 }),
    }
}

fn with_progress(settlement: Settlement, progress: &Progress) -> Settlement {
    let Progress { done, highest, trial } = progress.clone();
    Settlement { done, highest, trial, ..settlement }
}

fn row(position: i64, state: ParkedState) -> ParkedRow {
    ParkedRow {
        position: Position::new(position),
        key: Some("schlüssel 7".to_owned()),
        destination: Some("topic".to_owned()),
        state,
        attempts: u32::MAX,
        next_attempt_at: Some(Timestamp::from_micros(1_700_000_000_123_456)),
        last_error: Some("no \"answer\"\nat all".to_owned()),
        redelivery: None,
    }
}

fn sorted(mut rows: Vec<ParkedRow>) -> Vec<ParkedRow> {
    rows.sort_by_key(|row| row.position);
    rows
}

fn at<const N: usize>(numbers: [i64; N]) -> [Position; N] {
    numbers.map(Position::new)
}
