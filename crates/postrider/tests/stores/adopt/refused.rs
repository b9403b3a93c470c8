//! Adoptions that are refused.

use postrider::adopt::{AdoptSource, Adoption, AdoptionBatch, AdoptionRun, OptionalField};
use postrider::ledger::Intervals;
use postrider::store::{Acquired, Budget, Claimed, LeaseRequest, Loaded, Settlement, Start};
use postrider::{Code, Error, Event, Outbox, Result};

use crate::adopt::server::{MariaDb, MySql, Postgres};
use crate::adopt::sqlite::Sqlite;
use crate::adopt::stage::*;
use crate::recording_sink::{LONG, RecordingSink};

pub(crate) async fn refusal(source: &dyn AdoptSource, to: Outbox, adoption: Adoption) -> Error {
    adopt(source, to, adoption).await.expect_err("it is refused")
}

pub(crate) async fn nothing_moves_without_an_explicit_start(stage: &impl Stage) -> Result<()> {
    stage.write(&stage.to_rows(), events(stage.layout(), 0..1)).await?;
    let source = stage.rows().await?;
    let error = refusal(&*source, stage.to_log(), Adoption::of(NAME)).await;
    assert_eq!(error.code(), Code::AdoptionStart);
    assert!(error.message().contains("5 undelivered (5 pending"), "{error}");
    let (_, adopted) = adopt(&*source, stage.to_log(), Adoption::of(NAME).start(Start::Now)).await?;
    assert_eq!((adopted.copied, adopted.counts.pending), (0, 5));
    assert_eq!((states(stage).await?, in_log(stage).await?), ((5, 0), 0));
    // Without rows, no decision is needed.
    let log = stage.log().await?;
    log.subscribe(NAME, Start::Now).await?;
    let (_, adopted) = adopt(&*log, stage.to_rows(), Adoption::of(NAME)).await?;
    assert_eq!(adopted.copied, 0);
    Ok(())
}

pub(crate) async fn nothing_moves_while_a_relay_runs(stage: &impl Stage) -> Result<()> {
    for (store, to, other) in [
        (stage.rows().await?, stage.to_rows(), stage.to_log()),
        (stage.log().await?, stage.to_log(), stage.to_rows()),
    ] {
        let sink = RecordingSink::new(|_, _| None);
        let relay = relay(store.clone(), &sink).await?;
        stage.write(&to, events(stage.layout(), 0..1)).await?;
        sink.wait_for(KEYS).await;
        let error = refusal(&*store, other, all()).await;
        assert_eq!(error.code(), Code::LeaseHeld, "{error}");
        relay.shutdown().await?;
    }
    Ok(())
}

pub(crate) async fn nothing_moves_between_outboxes_of_one_kind(stage: &impl Stage) -> Result<()> {
    let error = refusal(&*stage.rows().await?, stage.to_rows(), all()).await;
    assert_eq!(error.code(), Code::AdoptionRefused);
    assert!(error.report().contains("adopt into an outbox with the layout `postrider`"), "{error}");
    let log = stage.log().await?;
    log.subscribe(NAME, Start::Now).await?;
    assert_eq!(refusal(&*log, stage.to_log(), all()).await.code(), Code::AdoptionRefused);
    Ok(())
}

pub(crate) async fn events_that_do_not_fit_are_reported_before_anything_is_changed(
    stage: &impl Stage,
) -> Result<()> {
    let log = stage.log().await?;
    log.subscribe(NAME, Start::Beginning).await?;
    stage.write(&stage.to_log(), events(stage.layout(), 0..3)).await?;
    let named: Vec<Event> =
        (0..4).map(|number| event(stage.layout(), 0, number).with_namespace("shop")).collect();
    stage.write(&stage.to_log(), named.clone()).await?;
    let error = refusal(&*log, stage.to_rows(), all()).await;
    assert_eq!(error.code(), Code::EventsUnfit);
    let reported = error.report();
    assert!(reported.contains("4 of 19 events"), "{reported}");
    assert!(
        reported.contains(&named[0].id.to_string()) && reported.contains("--leave-out namespace"),
        "{reported}"
    );
    assert_eq!(states(stage).await?, (0, 0));
    assert_eq!(log.counts(NAME).await?.undelivered(), 19);
    let leaving = Adoption { leave_out: vec![OptionalField::Namespace], ..all() };
    let (_, adopted) = adopt(&*log, stage.to_rows(), leaving).await?;
    assert_eq!((adopted.copied, states(stage).await?), (19, (19, 0)));
    Ok(())
}

pub(crate) async fn a_row_that_cannot_become_an_event_is_reported_before_anything_is_changed(
    stage: &impl Stage,
) -> Result<()> {
    stage.write(&stage.to_rows(), events(stage.layout(), 0..1)).await?;
    stage.run("UPDATE {t} SET event_type = 'order\nplaced'").await?;
    stage.write(&stage.to_rows(), events(stage.layout(), 1..2)).await?;
    let error = refusal(&*stage.rows().await?, stage.to_log(), all()).await;
    assert_eq!(error.code(), Code::EventsUnfit, "{error}");
    assert!(error.message().contains("5 of 10 events"), "{error}");
    assert_eq!((states(stage).await?, in_log(stage).await?), ((10, 0), 0));
    Ok(())
}

pub(crate) async fn events_that_were_given_up_stay(stage: &impl Stage) -> Result<()> {
    stage.write(&stage.to_rows(), events(stage.layout(), 0..1)).await?;
    let Words { failed, given_up, .. } = words(stage.layout());
    stage.run(&format!("UPDATE {{t}} SET status = '{failed}', {given_up}")).await?;
    stage.write(&stage.to_rows(), events(stage.layout(), 1..2)).await?;
    let (counts, adopted) = adopt(&*stage.rows().await?, stage.to_log(), all()).await?;
    assert_eq!((counts.undelivered(), counts.given_up), (5, 5));
    assert_eq!((adopted.copied, adopted.counts.given_up), (5, 5));
    assert_eq!((states(stage).await?, in_log(stage).await?), ((5, 5), 5));
    Ok(())
}

pub(crate) async fn another_publisher_that_delivers_after_the_count_is_detected(
    stage: &impl Stage,
) -> Result<()> {
    stage.write(&stage.to_rows(), events(stage.layout(), 0..1)).await?;
    let source = stage.rows().await?;
    let counts = source.counts(NAME).await?;
    stage.run(&format!("UPDATE {{t}} SET status = '{}'", words(stage.layout()).done)).await?;
    stage.write(&stage.to_rows(), events(stage.layout(), 1..2)).await?;
    let error = AdoptionRun::begin(&*source, stage.to_log(), all(), &counts).await.err().expect("refused");
    assert_eq!(error.code(), Code::ForeignPublisher);
    assert!(error.report().contains("nothing was copied"), "{error}");
    assert_eq!((states(stage).await?, in_log(stage).await?), ((5, 5), 0));
    Ok(())
}

pub(crate) async fn another_publisher_that_delivers_between_batches_is_detected(
    stage: &impl Stage,
) -> Result<()> {
    write_each(stage, &stage.to_rows(), events(stage.layout(), 0..4)).await?;
    let source = stage.rows().await?;
    let counts = source.counts(NAME).await?;
    let mut copying = AdoptionRun::begin(&*source, stage.to_log(), all(), &counts).await?;
    assert_eq!(copying.next_batch().await?, Some(7));
    let Words { done, pending, .. } = words(stage.layout());
    stage.run(&format!("UPDATE {{t}} SET status = '{done}' WHERE status = '{pending}'")).await?;
    let error = copying.next_batch().await.expect_err("it is noticed");
    assert_eq!(error.code(), Code::ForeignPublisher);
    assert!(error.report().contains("7 events were copied"), "{error}");
    assert_eq!((states(stage).await?, in_log(stage).await?), ((0, 20), 7));
    Ok(())
}

/// Takes the lease as an adoption does.
pub(crate) async fn acquired(source: &dyn AdoptSource, holder: &str) -> Result<Loaded> {
    let lease = LeaseRequest { subscription: NAME.to_owned(), holder: holder.to_owned(), duration: LONG };
    match source.acquire(lease).await? {
        Acquired::Granted(loaded) => Ok(*loaded),
        other => panic!("{other:?}"),
    }
}

/// All events of a store, read and packed.
pub(crate) async fn packed(source: &dyn AdoptSource, loaded: &Loaded, to: Outbox) -> Result<AdoptionBatch> {
    let budget = Budget::new(100, 1_000_000);
    let Claimed::Page(page) = source.claimer_of(NAME, loaded).claim(budget).await? else { panic!("no page") };
    let mut done: Intervals = loaded.progress.done.clone();
    page.events.iter().for_each(|event| done.insert(event.position));
    let mut events: Vec<Event> = page.events.iter().map(|event| (*event.event).clone()).collect();
    events.iter_mut().for_each(|event| event.max_attempts = None);
    let settlement = Settlement {
        subscription: NAME.to_owned(),
        epoch: loaded.epoch,
        done,
        highest: loaded.progress.highest,
        trial: None,
        park: Vec::new(),
        unpark: Vec::new(),
    };
    Ok(AdoptionBatch { settlement, to, attempts: vec![0; events.len()], events })
}

pub(crate) async fn a_batch_is_rolled_back_if_another_publisher_takes_one_of_its_rows(
    stage: &impl Stage,
) -> Result<()> {
    let mut written = events(stage.layout(), 0..1);
    written[3].event_type = "order.paid".to_owned();
    write_each(stage, &stage.to_rows(), written).await?;
    let source = stage.rows().await?;
    source.subscribe(NAME, Start::Beginning).await?;
    let loaded = acquired(&*source, "me").await?;
    let parcel = packed(&*source, &loaded, stage.to_log()).await?;
    assert_eq!(parcel.events.len(), KEYS);
    let done = words(stage.layout()).done;
    stage.run(&format!("UPDATE {{t}} SET status = '{done}' WHERE event_type = 'order.paid'")).await?;
    let error = source.move_batch(parcel).await.expect_err("one is gone");
    assert_eq!(error.code(), Code::ForeignPublisher);
    assert_eq!((states(stage).await?, in_log(stage).await?), ((4, 1), 0));
    Ok(())
}

/// Rows that other publishers have marked as being published, recently or long ago.
async fn rows_claimed_by_other_publishers_stay(stage: &impl Stage) -> Result<()> {
    let mark = "UPDATE {t} SET status = 'PUBLISHING', attempt_count = 1, last_attempt_at = ";
    for since in ["CURRENT_TIMESTAMP", "'2020-01-01 00:00:00'"] {
        stage.write(&stage.to_rows(), events(stage.layout(), 0..1)).await?;
        stage.run(&format!("{mark}{since}")).await?;
        stage.write(&stage.to_rows(), events(stage.layout(), 1..2)).await?;
        let error = refusal(&*stage.rows().await?, stage.to_log(), all()).await;
        assert_eq!(error.code(), Code::ForeignPublisher, "{error}");
        assert_eq!(in_log(stage).await?, 0);
    }
    Ok(())
}

macro_rules! on_each {
    ($($name:ident: $stage:ty),+ $(,)?) => { $(
        #[tokio::test]
        async fn $name() -> Result<()> {
            match <$stage>::new(postrider::layout::RowLayout::OutboxEvents).await? {
                Some(stage) => rows_claimed_by_other_publishers_stay(&stage).await,
                None => Ok(()),
            }
        }
    )+ };
}

on_each! {
    rows_claimed_by_other_publishers_stay_on_sqlite: Sqlite,
    rows_claimed_by_other_publishers_stay_on_postgres: Postgres,
    rows_claimed_by_other_publishers_stay_on_mysql: MySql,
    rows_claimed_by_other_publishers_stay_on_mariadb: MariaDb,
}
