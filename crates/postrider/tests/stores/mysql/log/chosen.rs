//! A user with the right to INSERT may choose the position, with `SET insert_id`. No event is lost silently because of
//! that.

use postrider::ledger::{Intervals, ParkedState};
use postrider::store::mysql::MySqlStore;
use postrider::store::{
    Acquired, Budget, Claimed, Claimer, LeaseRequest, Loaded, Page, Settlement, Start, Store,
};
use postrider::{Position, Result};
use std::time::Duration;

use super::case::{Case, ServerKind, case, failed};
use mysql_async::prelude::Queryable;

const PLENTY: Budget = Budget::new(100, 1_000_000);

fn lease() -> LeaseRequest {
    LeaseRequest {
        subscription: "mail".to_owned(),
        holder: "test".to_owned(),
        duration: Duration::from_secs(600),
    }
}

async fn granted(store: &MySqlStore) -> Result<Loaded> {
    match store.acquire(lease()).await? {
        Acquired::Granted(loaded) => Ok(*loaded),
        other => panic!("{other:?}"),
    }
}

async fn page(claimer: &mut Box<dyn Claimer>) -> Result<Page> {
    match claimer.claim(PLENTY).await? {
        Claimed::Page(page) => Ok(page),
        Claimed::HistoryChanged(why) => panic!("{why}"),
    }
}

/// An event at a position that the writer chooses.
async fn write_at<W: ServerKind>(case: &Case<W>, position: i64) -> Result<()> {
    let mut client = case.another().await?;
    client.query_drop(format!("SET insert_id = {position}")).await.map_err(failed)?;
    case.on(&mut client, "INSERT INTO {schema}.events (type, payload) VALUES ('chosen', 'x')").await
}

/// A position that was rolled back, and an event after it; everything is settled.
async fn with_an_empty_position<W: ServerKind>(case: &Case<W>, store: &MySqlStore) -> Result<i64> {
    store.subscribe("mail", Start::Beginning).await?;
    case.committed("first").await?;
    let mut client = case.writing("rolled back").await?;
    client.query_drop("ROLLBACK").await.map_err(failed)?;
    let last = case.committed("last").await?;
    let owner = granted(store).await?;
    let done = Intervals::up_to(Position::new(last));
    store.settle(settlement(&owner, done)).await?;
    Ok(last - 1)
}

fn settlement(owner: &Loaded, done: Intervals) -> Settlement {
    Settlement {
        subscription: "mail".to_owned(),
        epoch: owner.epoch,
        done,
        highest: None,
        trial: None,
        park: Vec::new(),
        unpark: Vec::new(),
    }
}

case! {
    /// The claimer of the next owner reports it once, and reports no other event.
    async fn an_event_written_at_a_settled_rolled_back_position_is_reported_by_the_next_relay(case) {
        let store = case.store().await?;
        let empty = with_an_empty_position(&case, &store).await?;
        let loaded = granted(&store).await?;
        assert!(page(&mut store.claimer_of("mail", &loaded)).await?.damaged.is_empty());
        // No claim happens while it is written: the empty position is recorded in the table.
        write_at(&case, empty).await?;
        assert_eq!(MySqlStore::late_rows(&case.config).await?, [("mail".to_owned(), vec![Position::new(empty)])]);
        let loaded = granted(&store).await?;
        let mut claimer = store.claimer_of("mail", &loaded);
        let damaged = page(&mut claimer).await?.damaged;
        assert_eq!(damaged.len(), 1, "{damaged:?}");
        assert_eq!(damaged[0].0, Position::new(empty));
        assert!(damaged[0].1.contains("insert_id"), "{damaged:?}");
        assert!(page(&mut claimer).await?.damaged.is_empty());
        // An owner that takes over before that is settled reports it again; a later one does not.
        let loaded = granted(&store).await?;
        assert_eq!(page(&mut store.claimer_of("mail", &loaded)).await?.damaged.len(), 1);
        case.run(&format!(
            "INSERT INTO {{schema}}.parked (subscription, position, state, attempts)
             VALUES ('mail', {empty}, '{}', 0)", ParkedState::Dead.as_str()
        )).await?;
        assert!(MySqlStore::late_rows(&case.config).await?.is_empty());
        let loaded = granted(&store).await?;
        assert!(page(&mut store.claimer_of("mail", &loaded)).await?.damaged.is_empty());
    }
}

case! {
    /// The names can be used in `XA COMMIT`.
    async fn prepared_transactions_and_triggers_are_reported(case) {
        let id = format!("forgotten-{}", case.schema);
        let mut client = case.another().await?;
        case.on(&mut client, "CREATE TABLE {schema}.unrelated (a INT)").await?;
        for step in ["XA START '{id}'", "INSERT INTO {schema}.unrelated VALUES (1)", "XA END '{id}'", "XA PREPARE '{id}'"] {
            case.on(&mut client, &step.replace("{id}", &id)).await?;
        }
        let names = MySqlStore::prepared(&case.config).await?;
        let ours = names.iter().find(|name| name.contains(&id)).unwrap_or_else(|| panic!("{names:?}"));
        assert_eq!(*ours, format!("'{id}','',1"));
        case.on(&mut client, &format!("XA ROLLBACK {ours}")).await?;
        assert!(MySqlStore::triggers(&case.config).await?.is_empty());
        case.run("CREATE TRIGGER {schema}.sly BEFORE INSERT ON {schema}.events FOR EACH ROW SET NEW.type = 'x'").await?;
        let triggers = MySqlStore::triggers(&case.config).await?;
        assert!(triggers.len() == 1 && triggers[0].starts_with("sly on events by "), "{triggers:?}");
    }
}

case! {
    /// Positions of events that retention has deleted are empty like rolled-back ones.
    async fn an_event_written_at_a_deleted_position_is_reported(case) {
        let store = case.store().await?;
        with_an_empty_position(&case, &store).await?;
        case.run("DELETE FROM {schema}.events WHERE type = 'first'").await?;
        let loaded = granted(&store).await?;
        assert!(page(&mut store.claimer_of("mail", &loaded)).await?.damaged.is_empty());
        write_at(&case, 1).await?;
        let loaded = granted(&store).await?;
        let damaged = page(&mut store.claimer_of("mail", &loaded)).await?.damaged;
        assert_eq!(damaged.iter().map(|(at, _)| at.get()).collect::<Vec<_>>(), [1]);
    }
}

case! {
    /// The server refuses the writers; relay and `status` continue, and an operator can repair it.
    async fn a_position_near_the_maximum_stops_no_relay(case) {
        let store = case.store().await?;
        with_an_empty_position(&case, &store).await?;
        write_at(&case, i64::MAX).await?;
        assert!(case.committed("no position is left").await.is_err());
        let store = case.store().await?;
        assert_eq!(store.overview(10).await?.last, Position::LAST);
        assert_eq!(MySqlStore::last_position(&case.config).await?, Position::LAST);
        let loaded = granted(&store).await?;
        let read = page(&mut store.claimer_of("mail", &loaded)).await?;
        assert_eq!(read.events.iter().map(|event| event.position).collect::<Vec<_>>(), [Position::LAST]);
        case.run(&format!("DELETE FROM {{schema}}.events WHERE position = {}", i64::MAX)).await?;
        case.run("ALTER TABLE {schema}.events AUTO_INCREMENT = 4").await?;
        case.committed("there are positions again").await?;
    }
}
