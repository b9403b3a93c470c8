//! Layout `eventlog` on MySQL and MariaDB.

use crate::eventlog::{self, Place};
use crate::mysql::Shop;

/// On every available server.
fn with_places(test: impl Fn(&Place<'_>)) {
    for shop in Shop::all() {
        let (schema, url) = (&shop.schema, &shop.url);
        test(&Place {
            // One server has one database `eventlog`, so each test uses another name.
            outbox: format!(
                "url = '{url}'\nlayout = 'eventlog'\nschema = '{schema}'\ntable_schema = '{schema}_log'"
            ),
            events: format!("{schema}_log.events"),
            notifications: format!("{schema}_log.event_notifications"),
            index: "key: idx_events_action_id",
            sql: &|sql| shop.sql(sql),
            number: &|sql| shop.number(sql),
        });
    }
}

#[test]
fn the_base_alone_is_written_to_and_listed() {
    with_places(eventlog::the_base_alone_is_written_to_and_listed);
}

#[test]
fn events_are_fanned_out_listed_and_counted() {
    with_places(eventlog::events_are_fanned_out_listed_and_counted);
}

#[test]
fn the_doctor_reports_other_handlers_aliases_and_a_missing_index() {
    with_places(|place| {
        let drop_index = format!("DROP INDEX events_undelivered ON {}", place.events);
        eventlog::the_doctor_reports_other_handlers_aliases_and_a_missing_index(place, &drop_index);
    });
}

#[test]
fn an_event_that_does_not_fit_is_refused() {
    with_places(eventlog::an_event_that_does_not_fit_is_refused);
}

#[test]
fn the_printed_scripts_run() {
    with_places(eventlog::the_printed_scripts_run);
}
