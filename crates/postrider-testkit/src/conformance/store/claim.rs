//! Reading events: each one once, in order, within the budget.

use postrider::ledger::{Intervals, Progress};
use postrider::store::{Budget, Fetched, Page};
use postrider::{ActionContext, Event, Limits, Position, Result, Timestamp};
use uuid::Uuid;

use super::Databases;
use super::stage::{
    PLENTY, drain, empty_until, events, failed, granted, page, positions, set_of, settlement, subscribed,
};

/// Including events that are written while it reads.
pub async fn every_event_is_read_once_and_in_order(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let mut claimer = store.claimer(&granted(&store, "a").await?.progress);
    let mut written = under_test.write(events(5)).await?;
    let mut read = positions(&page(&mut claimer, Budget::new(2, PLENTY.bytes_max)).await?.events);
    written.extend(under_test.write(events(5)).await?);
    read.extend(positions(&drain(&mut claimer).await?));
    assert_eq!(read, written);
    assert!(read.is_sorted());
    Ok(())
}

/// Reads five events in pages of two.
async fn two_events_per_page(databases: &Databases, events: Vec<Event>, budget: Budget) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events).await?;
    let mut claimer = store.claimer(&granted(&store, "a").await?.progress);
    for (expected, more) in [(&written[0..2], true), (&written[2..4], true), (&written[4..], false)] {
        let page = page(&mut claimer, budget).await?;
        assert_eq!(positions(&page.events), expected);
        assert_eq!((page.more_at_once, page.has_unread), (more, more));
    }
    Ok(())
}

/// The page reports whether there are more.
pub async fn a_page_keeps_to_the_number_of_events(databases: &Databases) -> Result<()> {
    two_events_per_page(databases, events(5), Budget::new(2, PLENTY.bytes_max)).await
}

/// All columns count. An event that would exceed the budget is in the next page.
pub async fn a_page_keeps_to_the_number_of_bytes(databases: &Databases) -> Result<()> {
    let events = (0..5).map(|_| Event::new("seven..", "123")).collect();
    two_events_per_page(databases, events, Budget::new(PLENTY.events_max, 20)).await
}

/// A budget never blocks the outbox.
pub async fn an_event_larger_than_the_budget_is_read_alone(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(3)).await?;
    let mut claimer = store.claimer(&granted(&store, "a").await?.progress);
    for position in written {
        let page = page(&mut claimer, Budget::new(PLENTY.events_max, 1)).await?;
        assert_eq!(positions(&page.events), [position]);
    }
    Ok(())
}

/// Nothing was read. How many holes the store keeps at most is its own matter.
fn assert_empty(mut page: Page) {
    page.holes_max = 0;
    assert_eq!(page, Page::default());
}

/// Before the first event, and after the last.
pub async fn an_idle_outbox_gives_empty_pages(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let mut claimer = store.claimer(&granted(&store, "a").await?.progress);
    for _ in 0..2 {
        assert_empty(page(&mut claimer, PLENTY).await?);
    }
    let written = under_test.write(events(1)).await?;
    assert_eq!(positions(&drain(&mut claimer).await?), written);
    for _ in 0..2 {
        assert_empty(page(&mut claimer, PLENTY).await?);
    }
    Ok(())
}

/// First the gaps between ranges that are done, then the tail; also in small pages.
pub async fn after_a_load_exactly_the_remaining_events_are_read(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(9)).await?;
    let owner = granted(&store, "a").await?;
    let done = [written[0], written[2], written[3], written[6]];
    store.settle(settlement(owner.epoch, set_of(&done))).await?;
    let left: Vec<_> = written.iter().copied().filter(|position| !done.contains(position)).collect();

    let loaded = granted(&store, "a").await?;
    assert_eq!(positions(&drain(&mut store.claimer(&loaded.progress)).await?), left);
    let mut claimer = store.claimer(&loaded.progress);
    let mut read = Vec::new();
    for _ in &left {
        read.extend(positions(&page(&mut claimer, Budget::new(1, PLENTY.bytes_max)).await?.events));
    }
    assert_eq!(read, left);
    Ok(())
}

/// Otherwise the floor could not pass it.
pub async fn a_wasted_position_is_reported_empty(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    under_test.write(events(1)).await?;
    let wasted = under_test.waste_position().await?;
    under_test.write(events(1)).await?;
    let mut claimer = store.claimer(&granted(&store, "a").await?.progress);
    empty_until(&mut claimer, wasted).await?;
    Ok(())
}

/// Neither a position that was read nor one that is done.
pub async fn a_position_with_an_event_is_never_reported_empty(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let mut written = under_test.write(events(2)).await?;
    let wasted = under_test.waste_position().await?;
    written.extend(under_test.write(events(2)).await?);
    let progress = Progress { done: set_of(&written[1..2]), ..Progress::default() };
    let empty = empty_until(&mut store.claimer(&progress), wasted).await?;
    let wrong: Vec<_> = written.iter().filter(|position| empty.contains(**position)).collect();
    assert!(wrong.is_empty(), "{wrong:?} hold events");
    Ok(())
}

/// It has no next position, and nothing more is read.
pub async fn the_highest_possible_position_is_read_once(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let mut written = under_test.write(events(1)).await?;
    under_test.skip_to(Position::LAST.previous()).await?;
    written.extend(under_test.write(events(1)).await?);
    assert_eq!(written[1], Position::LAST);
    let owner = granted(&store, "a").await?;
    assert_eq!(positions(&drain(&mut store.claimer(&owner.progress)).await?), written);
    let mut claimer = store.claimer(&owner.progress);
    empty_until(&mut claimer, Position::LAST.previous()).await?;
    assert_empty(page(&mut claimer, PLENTY).await?);
    store.overview(10).await?;
    store.settle(settlement(owner.epoch, Intervals::up_to(Position::LAST))).await?;
    let loaded = granted(&store, "a").await?;
    assert_eq!(loaded.progress.done.floor(), Position::LAST);
    let mut claimer = store.claimer(&loaded.progress);
    assert_empty(page(&mut claimer, PLENTY).await?);
    let overview = store.overview(10).await?;
    assert_eq!(overview.subscriptions.len(), 1);
    Ok(())
}

/// Each subscription has its own claimer.
pub async fn two_claimers_read_independently(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(3)).await?;
    let loaded = granted(&store, "a").await?;
    let (mut first, mut second) = (store.claimer(&loaded.progress), store.claimer(&loaded.progress));
    assert_eq!(positions(&drain(&mut first).await?), written);
    assert_eq!(positions(&drain(&mut second).await?), written);
    Ok(())
}

/// It is neither skipped nor reported empty, and fetching it again reports it as missing.
pub async fn a_row_that_cannot_become_an_event_is_reported_once_and_stops_no_other(
    databases: &Databases,
) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(3)).await?;
    under_test.damage(written[1]).await?;
    let mut claimer = store.claimer(&granted(&store, "a").await?.progress);
    let read = page(&mut claimer, PLENTY).await?;
    assert_eq!(positions(&read.events), [written[0], written[2]]);
    let [(position, why)] = &read.damaged[..] else { return Err(failed(format!("{read:?}"))) };
    assert_eq!(*position, written[1]);
    assert!(why.contains(&written[1].to_string()), "{why:?} names the position");
    assert_eq!((read.empty_positions, read.holes), (Vec::new(), 0));
    assert_empty(page(&mut claimer, PLENTY).await?);
    let fetched = store.fetch(written.clone(), usize::MAX).await?;
    assert_eq!(positions(&fetched.events), [written[0], written[2]]);
    assert_eq!(fetched.gone, [written[1]]);
    Ok(())
}

/// Otherwise a damaged row at the end of a page would look like the end of the outbox.
pub async fn damaged_rows_fill_a_page_like_events(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(7)).await?;
    for index in [0, 1, 3, 4] {
        under_test.damage(written[index]).await?;
    }
    let mut claimer = store.claimer(&granted(&store, "a").await?.progress);
    let mut read = Vec::new();
    loop {
        let page = page(&mut claimer, Budget::new(2, PLENTY.bytes_max)).await?;
        let damaged = page.damaged.iter().map(|(position, _)| *position);
        let mut rows: Vec<_> = positions(&page.events).into_iter().chain(damaged).collect();
        assert!((1..=2).contains(&rows.len()), "{rows:?}");
        rows.sort_unstable();
        read.extend(rows);
        if !page.has_unread {
            break;
        }
    }
    assert_eq!(read, written);
    Ok(())
}

/// Headers, keys, actions and topics count like payloads, so that wide columns do not exhaust memory.
pub async fn every_column_counts_against_the_bytes_of_a_page(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let limits = Limits::default();
    let wide = |_| {
        let text = "t".repeat(limits.text_bytes_max);
        let action = ActionContext::new(&text, format!("\"{}\"", "p".repeat(6_000)))
            .with_id(Uuid::from_u128(1))
            .with_times(Timestamp::from_micros(1), Timestamp::from_micros(2));
        let event = Event::new(&text, "x").with_key(&text).with_topic(&text).with_aggregate(&text, &text);
        let event = event.with_namespace(&text).with_producer(&text).with_action(action);
        event.with_header("wide", "w".repeat(limits.header_value_bytes_max))
    };
    let written = under_test.write((0..30).map(wide).collect()).await?;
    let bytes_max = 40_000;
    let mut claimer = store.claimer(&granted(&store, "a").await?.progress);
    let mut read = Vec::new();
    while read.len() < written.len() {
        let page = page(&mut claimer, Budget::new(PLENTY.events_max, bytes_max)).await?;
        let held: usize = page.events.iter().map(|event| event.event.size_bytes()).sum();
        assert!(held <= bytes_max && !page.events.is_empty(), "{held} bytes in a page of {bytes_max}");
        let whole = wide(0);
        for event in &page.events {
            assert_eq!((&event.event.headers, &event.event.action), (&whole.headers, &whole.action));
        }
        read.extend(positions(&page.events));
    }
    assert_eq!(read, written);
    let fetched = store.fetch(written, bytes_max).await?;
    let held: usize = fetched.events.iter().map(|event| event.event.size_bytes()).sum();
    assert!(held <= bytes_max && !fetched.events.is_empty(), "{held} bytes fetched of {bytes_max}");
    Ok(())
}

/// The relay parks it as dead; all others are read.
pub async fn an_event_beyond_the_limits_is_reported_and_stops_no_other(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(3)).await?;
    under_test.widen(written[1], 5 * 1024 * 1024).await?;
    let mut claimer = store.claimer(&granted(&store, "a").await?.progress);
    let (mut read, mut damaged) = (Vec::new(), Vec::new());
    while read.len() < 2 || damaged.is_empty() {
        let page = page(&mut claimer, PLENTY).await?;
        assert!(!page.events.is_empty() || !page.damaged.is_empty(), "{read:?} {damaged:?} and nothing more");
        read.extend(positions(&page.events));
        damaged.extend(page.damaged);
    }
    assert_eq!(read, [written[0], written[2]]);
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    assert_eq!(damaged[0].0, written[1]);
    let fetched = store.fetch(written.clone(), usize::MAX).await?;
    assert_eq!((positions(&fetched.events), fetched.gone), (vec![written[0], written[2]], vec![written[1]]));
    Ok(())
}

/// In the requested order; missing events are listed.
pub async fn fetch_reads_again_and_reports_missing_events(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let written = under_test.write(events(4)).await?;
    let read = drain(&mut store.claimer(&Progress::default())).await?;
    under_test.delete(written[1]).await?;
    let fetched = store.fetch(vec![written[3], written[1], written[0]], usize::MAX).await?;
    assert_eq!(fetched.events, [read[3].clone(), read[0].clone()]);
    assert_eq!(fetched.gone, [written[1]]);
    assert_eq!(store.fetch(Vec::new(), 0).await?, Fetched::default());
    Ok(())
}

/// At least one, however large. The others are neither returned nor listed as missing.
pub async fn fetch_stops_at_its_byte_budget(databases: &Databases) -> Result<()> {
    let (under_test, store) = subscribed(databases).await?;
    let payload = |bytes: usize| Event::new("sized", "x".repeat(bytes - "sized".len()));
    let written = under_test.write(vec![payload(100), payload(100), payload(100)]).await?;
    for (bytes_max, expected) in [(0, 1), (199, 1), (200, 2), (1000, 3)] {
        let fetched = store.fetch(written.clone(), bytes_max).await?;
        assert_eq!(positions(&fetched.events), written[..expected], "{bytes_max} bytes");
        assert!(fetched.gone.is_empty());
    }
    Ok(())
}
