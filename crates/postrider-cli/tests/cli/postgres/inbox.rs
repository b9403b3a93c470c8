//! Listing processed messages on PostgreSQL.

use super::Shop;
use super::layouts::program;
use crate::inbox::{inserts, processed_messages_are_listed_page_by_page};

fn quoted(text: &str) -> String {
    format!("'{text}'")
}

#[test]
fn processed_messages_are_listed() {
    let Some(shop) = Shop::new() else { return };
    let program = shop.ready();
    shop.sql(&inserts("postrider.inbox", |time| format!("'{time}+00'"), quoted));
    processed_messages_are_listed_page_by_page(&program, "inbox");
}

#[test]
fn rows_of_processed_events_are_listed_with_and_without_a_key_for_every_group() {
    let Some(shop) = Shop::new() else { return };
    let program = program(&shop, "outbox");
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    // The table as it stands has one row per event.
    shop.sql("INSERT INTO processed_events (event_id, consumer_group) VALUES (gen_random_uuid(), 'a')");
    let listed = program.run(&["inbox", "list", "--json"]);
    assert!(listed.stdout.contains("\"processed_events\""), "{listed:?}");
    shop.sql(
        "DELETE FROM processed_events; ALTER TABLE processed_events DROP CONSTRAINT processed_events_pkey;
         ALTER TABLE processed_events ADD PRIMARY KEY (consumer_group, event_id)",
    );
    shop.sql(&inserts("processed_events", |time| format!("'{time}+00'"), quoted));
    processed_messages_are_listed_page_by_page(&program, "processed_events");
}
