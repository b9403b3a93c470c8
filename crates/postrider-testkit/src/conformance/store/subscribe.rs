//! Where a subscription begins.

use postrider::store::{Epoch, Start};
use postrider::{Code, Event, Result, Timestamp};

use super::Databases;
use super::stage::{NAME, events, granted, lease, set_of, settlement, subscribed, unread};

/// The first event is delivered first.
pub async fn starting_at_the_beginning_delivers_existing_events(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(3)).await?;
    assert_eq!(unread(&store).await?, written);
    Ok(())
}

/// Events that were committed before are not delivered; later ones are.
pub async fn starting_now_delivers_only_later_events(databases: &Databases) -> Result<()> {
    let under_test = databases.fresh().await?;
    let store = under_test.open().await?;
    under_test.write(events(3)).await?;
    store.subscribe(NAME, Start::Now).await?;
    assert_eq!(unread(&store).await?, []);
    let later = under_test.write(events(2)).await?;
    assert_eq!(unread(&store).await?, later);
    Ok(())
}

/// The first event of the outbox is later than "now".
pub async fn starting_now_on_an_empty_outbox_misses_nothing(databases: &Databases) -> Result<()> {
    let under_test = databases.fresh().await?;
    let store = under_test.open().await?;
    store.subscribe(NAME, Start::Now).await?;
    let written = under_test.write(events(2)).await?;
    assert_eq!(unread(&store).await?, written);
    Ok(())
}

/// The position itself is included.
pub async fn starting_at_a_position_delivers_it_first(databases: &Databases) -> Result<()> {
    let under_test = databases.fresh().await?;
    let store = under_test.open().await?;
    let written = under_test.write(events(4)).await?;
    store.subscribe(NAME, Start::Position(written[2])).await?;
    assert_eq!(unread(&store).await?, written[2..]);
    Ok(())
}

/// Times need not be in the order of positions. All events from the first match on are delivered.
pub async fn starting_at_a_time_delivers_every_event_from_then_on(databases: &Databases) -> Result<()> {
    let under_test = databases.fresh().await?;
    let store = under_test.open().await?;
    let written = under_test.write(at([100, 200, 150, 300])).await?;
    store.subscribe(NAME, Start::Time(Timestamp::from_micros(200))).await?;
    assert_eq!(unread(&store).await?, written[1..]);
    Ok(())
}

/// No event has such a late time.
pub async fn starting_at_a_time_after_every_event_equals_starting_now(databases: &Databases) -> Result<()> {
    let under_test = databases.fresh().await?;
    let store = under_test.open().await?;
    under_test.write(at([100, 200])).await?;
    store.subscribe(NAME, Start::Time(Timestamp::from_micros(201))).await?;
    let later = under_test.write(at([50])).await?;
    assert_eq!(unread(&store).await?, later);
    Ok(())
}

/// The second call creates nothing and changes nothing, whatever start it has.
pub async fn subscribing_twice_keeps_the_progress(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(3)).await?;
    let loaded = granted(&store, "reader").await?;
    store.settle(settlement(loaded.epoch, set_of(&written[..1]))).await?;
    for start in [Start::Beginning, Start::Now, Start::Position(written[2])] {
        assert!(!store.subscribe(NAME, start).await?, "it exists");
    }
    assert_eq!(unread(&store).await?, written[1..]);
    Ok(())
}

/// No operation creates a subscription as a side effect.
pub async fn an_unknown_subscription_is_an_error_of_every_verb(databases: &Databases) -> Result<()> {
    let under_test = databases.fresh().await?;
    let store = under_test.open().await?;
    let unknown = Some(Code::SubscriptionUnknown);
    assert_eq!(store.acquire(lease("a")).await.err().map(|e| e.code()), unknown);
    assert_eq!(store.pause(NAME, None).await.err().map(|e| e.code()), unknown);
    assert_eq!(store.pause_as_owner(NAME, Epoch(1), "why").await.err().map(|e| e.code()), unknown);
    assert_eq!(store.halt(NAME, Epoch(1), "why").await.err().map(|e| e.code()), unknown);
    assert_eq!(store.accept_history(NAME, Start::Now).await.err().map(|e| e.code()), unknown);
    store.release(NAME, Epoch(1), true).await?;
    assert!(store.subscribe(NAME, Start::Now).await?, "it did not exist");
    Ok(())
}

fn at<const N: usize>(times: [i64; N]) -> Vec<Event> {
    times.map(|micros| Event::new("timed", "").with_time(Timestamp::from_micros(micros))).into()
}
