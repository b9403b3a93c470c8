//! Writing to a PostgreSQL outbox: the transaction of the caller, and the state after an error.

use postrider::ledger::Progress;
use postrider::store::{Budget, Claimed, Store};
use postrider::{Code, Event, Outbox};
use sqlx::{Connection, PgConnection};

use super::case::{Case, case, failed};

fn event(event_type: &str) -> Event {
    Event::new(event_type, "{}")
}

async fn types(case: &Case) -> postrider::Result<Vec<String>> {
    case.one("SELECT coalesce(array_agg(type ORDER BY position), '{}') FROM {schema}.events").await
}

case! {
    async fn events_commit_and_roll_back_with_a_tokio_postgres_transaction(case) {
        let mut client = case.another().await?;
        let outbox = case.outbox();
        let tx = client.transaction().await.map_err(failed)?;
        outbox.write(&tx, event("lost")).await?;
        tx.rollback().await.map_err(failed)?;

        let tx = client.transaction().await.map_err(failed)?;
        let first = event("kept");
        let written = outbox.write(&tx, &first).await?;
        assert_eq!((written.id, written.position.get()), (first.id, 2));
        let more = outbox.write_all(&tx, [event("kept too"), event("and this")]).await?;
        assert_eq!(more.iter().map(|written| written.position.get()).collect::<Vec<_>>(), [3, 4]);
        tx.commit().await.map_err(failed)?;
        assert_eq!(types(&case).await?, ["kept", "kept too", "and this"]);
    }
}

case! {
    async fn events_commit_and_roll_back_with_a_sqlx_transaction(case) {
        let url = postrider_testkit::servers::postgres::url().unwrap();
        let mut connection = PgConnection::connect(url).await.map_err(failed)?;
        let outbox = case.outbox();
        let mut tx = connection.begin().await.map_err(failed)?;
        outbox.write(&mut tx, event("lost")).await?;
        tx.rollback().await.map_err(failed)?;

        let mut tx = connection.begin().await.map_err(failed)?;
        let all = [
            event("kept").with_header("a", "b").with_aggregate("Order", "7").with_max_attempts(u32::MAX),
            event("kept too").with_topic("t").with_expires_at(postrider::Timestamp::from_micros(-1)),
        ];
        let written = outbox.write_all(&mut tx, all.clone()).await?;
        assert_eq!(written.iter().map(|written| written.position.get()).collect::<Vec<_>>(), [2, 3]);
        tx.commit().await.map_err(failed)?;
        let mut claimer = case.store().await?.claimer(&Progress::default());
        let claimed = claimer.claim(Budget::new(10, 1 << 20)).await?;
        let Claimed::Page(page) = claimed else { panic!("the history did not change") };
        assert!(page.events.iter().map(|stored| &*stored.event).eq(&all));
    }
}

case! {
    async fn many_events_are_one_statement_and_keep_their_order(case) {
        let events: Vec<Event> = (0..10_000).map(|n| Event::new("many", n.to_string())).collect();
        let written = case.outbox().write_all(&case.client, events.clone()).await?;
        assert!(written.iter().map(|written| written.position.get()).eq(1..=10_000));
        assert!(written.iter().map(|written| written.id).eq(events.iter().map(|event| event.id)));
        let transactions: i64 = case.one("SELECT count(DISTINCT tx) FROM {schema}.events").await?;
        assert_eq!(transactions, 1);
    }
}

case! {
    async fn a_refused_event_changes_nothing(case) {
        let client = case.writing("kept").await?;
        let outbox = case.outbox();
        assert_eq!(outbox.write(&client, event("")).await.unwrap_err().code(), Code::TypeEmpty);
        assert_eq!(outbox.write_all(&client, [] as [Event; 0]).await?, []);
        outbox.write(&client, event("after")).await?;
        client.batch_execute("COMMIT").await.map_err(failed)?;
        assert_eq!(types(&case).await?, ["kept", "after"]);
    }
}

case! {
    async fn missing_tables_are_reported(case) {
        let outbox = Outbox::new().schema(postrider::Ident::new("no_such_schema")?);
        let error = outbox.write(&case.client, event("a")).await.unwrap_err();
        assert_eq!(error.code(), Code::SchemaMissing, "{error}");
    }
}

case! {
    async fn a_plain_insert_from_any_language_is_enough(case) {
        case.run(
            r#"INSERT INTO {schema}.events (type, aggregate_type, aggregate_id, payload)
               VALUES ('order.placed', 'Order', '7', '{"a":1}');
               INSERT INTO {schema}.events (type, payload, headers, expires_at)
               VALUES ('raw', '\xff00', '{"a":"b","n":5}', 'infinity');"#,
        )
        .await?;
        let mut claimer = case.store().await?.claimer(&Progress::default());
        let claimed = claimer.claim(Budget::new(10, 1 << 20)).await?;
        let Claimed::Page(page) = claimed else { panic!("the history did not change") };
        let [placed, raw] = [&page.events[0].event, &page.events[1].event];
        assert_eq!((placed.message_key(), placed.payload.as_ref()), (Some("7"), &br#"{"a":1}"#[..]));
        assert_eq!(placed.id.get_version_num(), 7);
        let (seconds, nanos) = placed.id.get_timestamp().map(|time| time.to_unix()).unwrap();
        let millis = i64::try_from(seconds).unwrap() * 1000 + i64::from(nanos / 1_000_000);
        assert!((millis - placed.time.as_micros() / 1000).abs() < 1000, "the id and the time are of one moment");
        assert_eq!((raw.headers.get("a"), raw.headers.get("n")), (Some("b"), Some("5")));
        assert_eq!(raw.payload.as_ref(), b"\xff\x00");
        assert_eq!(raw.expires_at, None, "infinity is never");
    }
}

case! {
    async fn the_table_refuses_what_a_relay_could_not_read(case) {
        for values in [
            "(id, type, payload) VALUES ('not a uuid', 'a', '')",
            "(type, payload) VALUES ('', '')",
            "(type, payload, time) VALUES ('a', '', 'infinity')",
            "(type, payload, time) VALUES ('a', '', '-infinity')",
            "(type, payload, time) VALUES ('a', '', '10000-01-01')",
            "(type, payload, expires_at) VALUES ('a', '', '294276-12-31')",
            r#"(type, payload, action) VALUES ('a', '', '{"id": "7"}')"#,
            "(type, payload) VALUES ('a', NULL)",
            "(type, payload, headers) VALUES ('a', '', '[1]')",
            "(type, payload, headers) VALUES ('a', '', '{')",
            "(type, payload, max_attempts) VALUES ('a', '', 0)",
            "(type, payload, aggregate_id) VALUES ('a', '', '7')",
            "(position, type, payload) VALUES (7, 'a', '')",
        ] {
            assert!(case.run(&format!("INSERT INTO {{schema}}.events {values}")).await.is_err(), "{values}");
        }
    }
}

case! {
    /// As in a table that was created before it refused such events.
    async fn a_row_that_no_consumer_could_receive_is_damaged_with_the_reason_and_stops_no_other(case) {
        case.run(
            r#"ALTER TABLE {schema}.events DROP CONSTRAINT events_time_check, DROP CONSTRAINT events_expires_at_check,
                                           DROP CONSTRAINT events_action_check1;
               INSERT INTO {schema}.events (type, payload, time, expires_at, action) VALUES
               ('good', '', DEFAULT, NULL, NULL), ('never', '', 'infinity', NULL, NULL),
               ('late', '', '20000-01-01', NULL, NULL), ('past', '', DEFAULT, '-infinity', NULL),
               ('id', '', DEFAULT, NULL, '{"id": "7", "name": "a", "params": {}, "started": 1, "completed": 2}'),
               ('good', '', DEFAULT, 'infinity', NULL)"#,
        )
        .await?;
        let mut claimer = case.store().await?.claimer(&Progress::default());
        let claimed = claimer.claim(Budget::new(10, 1 << 20)).await?;
        let Claimed::Page(page) = claimed else { panic!("the history did not change") };
        let read: Vec<i64> = page.events.iter().map(|event| event.position.get()).collect();
        assert_eq!(read, [1, 6]);
        let reasons = ["its time is infinite", "outside the years 1 to 9999", "the time of its expiry", "UUID"];
        for ((position, said), (number, reason)) in page.damaged.iter().zip((2..).zip(reasons)) {
            assert!(position.get() == number && said.contains(reason), "{position}: {said} without {reason}");
        }
        assert_eq!(page.damaged.len(), 4);
    }
}

case! {
    async fn the_outbox_can_be_read_as_text(case) {
        case.run(r#"INSERT INTO {schema}.events (type, aggregate_type, aggregate_id, payload)
                    VALUES ('a', 'Order', '7', '{"a":1}'), ('a', NULL, NULL, '\xff00')"#).await?;
        let sql = "SELECT array_agg(payload || ' ' || coalesce(key, '-') ORDER BY position) FROM {schema}.events_json";
        let seen: Vec<String> = case.one(sql).await?;
        assert_eq!(seen, [r#"{"a":1} 7"#, "ff00 -"]);
    }
}

case! {
    async fn payloads_too_large_for_the_page_query_are_read_separately(case) {
        let sizes = [10_000, 10, 300_000, 10, 2_000];
        let all: Vec<Event> = sizes.iter().map(|size| Event::new("sized", vec![7_u8; *size])).collect();
        case.outbox().write_all(&case.client, all.clone()).await?;
        let mut claimer = case.store().await?.claimer(&Progress::default());
        let mut read = Vec::new();
        loop {
            let claimed = claimer.claim(Budget::new(100, 20_000)).await?;
            let Claimed::Page(page) = claimed else { panic!("the history did not change") };
            read.extend(page.events);
            if !page.more_at_once {
                break;
            }
        }
        assert!(read.iter().map(|stored| &*stored.event).eq(&all));
    }
}
