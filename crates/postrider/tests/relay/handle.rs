//! Using a relay through its handle.

use std::path::Path;

use postrider::layout::{RowLayout, RowTable};
use postrider::relay::OutboxOptions;
use postrider::store::sqlite::{SqliteRowStore, SqliteStore};
use postrider::store::{RowExtras, Store};
use postrider::{Code, Ident, Outbox, Relay, Subscription};
use postrider_testkit::eventually;

use super::shop::{RecordingSink, Shop, order};

#[tokio::test(flavor = "multi_thread")]
async fn clones_of_a_handle_wake_the_relay_and_shut_it_down_while_its_owner_waits() {
    let shop = Shop::open();
    let sink = RecordingSink::new();
    let subscription = Subscription::new("audit", sink.clone());
    let relay =
        Relay::builder().name("shop").outbox(shop.store.clone(), [subscription]).spawn().await.unwrap();
    let (writes, stops) = (relay.handle(), relay.handle());
    Outbox::new().write_all(&shop.connect(), (0..10).map(order)).unwrap();
    writes.wake();
    assert_eq!(sink.wait_for(10).await.len(), 10);
    assert!(writes.name().starts_with("shop#"), "{}", writes.name());

    // Two at once, as from two signals: both return when everything is settled and the lease is released.
    tokio::join!(stops.shutdown(), writes.shutdown());
    let overview = shop.store.overview(10).await.unwrap();
    let audit = &overview.subscriptions[0];
    assert_eq!((audit.floor.get(), audit.lease.is_none()), (10, true), "{audit:?}");
    relay.shutdown().await.unwrap();
    writes.wake();
    assert_eq!(writes.status()[0].subscription, "audit");
    assert_eq!(writes.status()[0].state.leading, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_pauses_all_subscriptions_or_one_and_the_pause_survives_the_relay() {
    let shop = Shop::open();
    let (first, second) = (RecordingSink::new(), RecordingSink::new());
    let relay = || {
        let subscriptions =
            [Subscription::new("first", first.clone()), Subscription::new("second", second.clone())];
        Relay::builder().outbox(shop.store.clone(), subscriptions).spawn()
    };
    let running = relay().await.unwrap();
    let handle = running.handle();
    handle.pause_all("maintenance").await.unwrap();
    let unknown = handle.pause("third", "maintenance").await.unwrap_err();
    assert_eq!(unknown.code(), Code::SubscriptionUnknown);
    running.shutdown().await.unwrap();

    let running = relay().await.unwrap();
    let handle = running.handle();
    Outbox::new().write_all(&shop.connect(), (0..10).map(order)).unwrap();
    handle.resume("first").await.unwrap();
    assert_eq!(first.wait_for(10).await.len(), 10);
    assert!(second.events.lock().unwrap().is_empty(), "the second is still paused");
    handle.resume_all().await.unwrap();
    assert_eq!(second.wait_for(10).await.len(), 10);
    running.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_takes_a_store_by_value_and_the_stores_writer_writes_where_it_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    SqliteStore::migrate(&path).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let outbox = store.outbox();
    carries_what_its_writer_writes(store, outbox, &path).await;

    let path = folder.path().join("rows.db");
    let table = RowTable::new(RowLayout::OutboxEvents).named(Ident::new("my_events").unwrap());
    SqliteRowStore::migrate(&path, &table, RowExtras::default()).unwrap();
    let store = SqliteRowStore::open(&path, &table).unwrap();
    let outbox = store.outbox();
    carries_what_its_writer_writes(store, outbox, &path).await;
}

async fn carries_what_its_writer_writes(store: impl Store, outbox: Outbox, path: &Path) {
    let sink = RecordingSink::new();
    let subscription = Subscription::new("audit", sink.clone());
    let relay = Relay::builder().outbox(store, [subscription]).spawn().await.unwrap();
    outbox.write(&rusqlite::Connection::open(path).unwrap(), order(1)).unwrap();
    relay.wake();
    assert_eq!(sink.wait_for(1).await.len(), 1);
    relay.shutdown().await.unwrap();
}

/// `localhost` and `127.0.0.1` are such names of a server.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_served_twice_under_two_names_is_delivered_once_by_one_of_the_two() {
    let shop = Shop::open();
    let folder = shop.path().parent().unwrap();
    let twin = SqliteStore::open(folder.join(".").join("shop.db")).unwrap();
    let sink = RecordingSink::new();
    let subscription = || [Subscription::new("audit", sink.clone())];
    let relay = Relay::builder()
        .name("shop")
        .outbox_with(shop.store.clone(), subscription(), OutboxOptions::default().name("one"))
        .outbox_with(twin, subscription(), OutboxOptions::default().name("two"))
        .spawn()
        .await
        .unwrap();
    let roles = async || {
        let overview = shop.store.overview(0).await.unwrap();
        let mut roles: Vec<bool> = overview.subscriptions[0].relays.iter().map(|of| of.leading).collect();
        roles.sort_unstable();
        roles
    };
    eventually("one leads and one stands by", async || roles().await == [false, true]).await;
    let holders: Vec<String> = relay.status().into_iter().map(|of| of.holder).collect();
    let name = relay.handle().name().to_owned();
    assert_eq!(holders, [name.clone(), format!("{name}/2")]);
    Outbox::new().write_all(&shop.connect(), (0..100).map(order)).unwrap();
    relay.wake();
    sink.wait_for(100).await;
    relay.shutdown().await.unwrap();
    assert_eq!(sink.events.lock().unwrap().len(), 100, "each event once");
    // The standby may take over when the leader has released its lease, and not before.
    let epoch: i64 =
        shop.connect().query_row("SELECT epoch FROM postrider_subscriptions", [], |row| row.get(0)).unwrap();
    assert!(epoch <= 2, "the lease went back and forth: epoch {epoch}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_of_an_outbox_that_is_used_is_refused_before_anything_is_created() {
    let (first, second) = (Shop::open(), Shop::open());
    let subscription = || [Subscription::new("audit", RecordingSink::new())];
    let named = || OutboxOptions::default().name("shop");
    let created = async |of: &Shop| of.store.overview(0).await.unwrap().subscriptions.len();
    let twice = Relay::builder()
        .outbox_with(first.store.clone(), subscription(), named())
        .outbox_with(second.store.clone(), subscription(), named())
        .spawn()
        .await
        .unwrap_err();
    assert_eq!(twice.code(), Code::SubscriptionTwice, "{twice}");
    assert_eq!((created(&first).await, created(&second).await), (0, 0));

    let relay =
        Relay::builder().outbox_with(first.store.clone(), subscription(), named()).spawn().await.unwrap();
    let handle = relay.handle();
    let twice = handle.add_outbox(second.store.clone(), subscription(), named()).await.unwrap_err();
    assert_eq!(twice.code(), Code::SubscriptionTwice, "{twice}");
    assert_eq!((created(&second).await, handle.status().len()), (0, 1));
    // A refused outbox does not keep its name.
    let other = || OutboxOptions::default().name("other");
    let invalid = [Subscription::new("audit", RecordingSink::new()).alias("old")];
    let refused = handle.add_outbox(second.store.clone(), invalid, other()).await.unwrap_err();
    assert_eq!(refused.code(), Code::HandlerInvalid, "{refused}");
    let nowhere = Shop::open();
    nowhere.connect().execute_batch("DROP TABLE postrider_subscriptions").unwrap();
    handle.add_outbox(nowhere.store.clone(), subscription(), other()).await.unwrap_err();
    handle.add_outbox(second.store.clone(), subscription(), other()).await.unwrap();
    assert_eq!((created(&second).await, handle.status().len()), (1, 2));
    relay.shutdown().await.unwrap();
}
