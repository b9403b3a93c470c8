//! What one action writes, on every layout of every database.

use postrider::layout::RowLayout;
use uuid::Uuid;

use crate::drivers::{Case, Driver};
use crate::place::{Layout, Place};
use crate::wallet::{Amount, Open, PlaceOrders};

/// How a layout names what the test reads: event type, aggregate id, payload.
pub(crate) fn columns(layout: Layout) -> &'static str {
    match layout {
        None => "type, aggregate_id, payload",
        Some(RowLayout::Eventlog) => "event_type, model_id, payload",
        Some(RowLayout::EventOutbox) => "event_type, entity_pk, payload",
        Some(_) => "event_type, aggregate_id, payload",
    }
}

pub(crate) fn order_of(layout: Layout) -> &'static str {
    match layout {
        None => "position",
        Some(RowLayout::Eventlog) => "event_date, id",
        Some(RowLayout::Outbox) => "created_at, id",
        Some(_) => "id",
    }
}

/// The layout has the action on its event rows.
fn has_action(layout: Layout) -> bool {
    matches!(layout, None | Some(RowLayout::Eventlog))
}

pub(crate) async fn rows_events_and_the_action_are_written_together<D: Driver>() {
    for layout in D::LAYOUTS {
        let Some(case) = Case::<D>::new(*layout).await else { return };
        let topic = (*layout == Some(RowLayout::Outbox)).then_some("orders");
        let place_orders = PlaceOrders { wallets: case.driver.wallets(), topic };
        let executor = case.builder().action(Open).action(place_orders).principal("ann").build().unwrap();
        let wallet = Uuid::now_v7();
        executor.execute::<Open>(Amount { wallet, amount: 100 }).await.unwrap();
        let orders = executor.execute::<PlaceOrders>(Amount { wallet, amount: 20 }).await.unwrap();

        let place = &case.place;
        let wallets = place.rows("SELECT balance, version FROM wallets").await;
        assert_eq!(wallets, [["60", "2"]], "{layout:?}");
        assert_eq!(place.rows("SELECT amount, version FROM orders").await, [["20", "1"], ["20", "1"]]);
        assert_eq!(place.rows("SELECT text, version FROM notes").await, [["two \"orders\"; ok?", "1"]]);

        let filter = if *layout == Some(RowLayout::Eventlog) { "WHERE event_type IS NOT NULL" } else { "" };
        let sql =
            format!("SELECT {} FROM {{events}} {filter} ORDER BY {}", columns(*layout), order_of(*layout));
        let events = place.rows(&sql).await;
        let found: Vec<[String; 2]> = events.iter().map(|row| [row[0].clone(), row[1].clone()]).collect();
        let expected = [
            ["MoneySpent".to_owned(), wallet.to_string()],
            ["order.placed".to_owned(), orders[0].to_string()],
            ["order.placed".to_owned(), orders[1].to_string()],
        ];
        assert_eq!(found, expected, "{layout:?}");
        // PostgreSQL shows bytes as hexadecimal digits.
        let payload = events[0][2].replace(' ', "");
        assert!(
            [r#"{"amount":40}"#, r#"\x7b22616d6f756e74223a34307d"#].contains(&payload.as_str()),
            "{payload}"
        );

        let recorded =
            place.rows("SELECT name, namespace, principal, event_ids FROM {actions} ORDER BY name").await;
        let names: Vec<&str> = recorded.iter().map(|row| row[0].as_str()).collect();
        match layout {
            Some(RowLayout::Eventlog) => assert_eq!(names, [""; 0]),
            None => assert_eq!(names, ["Open"]),
            Some(_) => {
                assert_eq!(names, ["Open", "PlaceOrders"]);
                assert_eq!(recorded[1][3].matches('-').count(), 3 * 4, "{:?}", recorded[1]);
            }
        }
        assert!(recorded.iter().all(|row| row[1] == "com.example.shop" && row[2] == "ann"), "{recorded:?}");
        if *layout == Some(RowLayout::Eventlog) {
            let actions = "SELECT COUNT(*), COUNT(DISTINCT action_id), COUNT(DISTINCT completion_date) FROM {events}
                           WHERE action_name = 'PlaceOrders' AND namespace = 'com.example.shop' AND NOT delivered
                             AND started_date <= completion_date AND model_type IS NOT NULL";
            assert_eq!(place.rows(actions).await, [["3", "1", "1"]]);
        }
        if layout.is_none() {
            let actions = place.rows("SELECT action, namespace FROM {events}").await;
            assert!(actions.iter().all(|row| row[0].contains("PlaceOrders") && row[1] == "com.example.shop"));
            assert_eq!(actions.iter().map(|row| &row[0]).collect::<std::collections::HashSet<_>>().len(), 1);
        }
        assert_eq!(has_action(*layout), !names.contains(&"PlaceOrders"));
    }
}

pub(crate) async fn an_action_without_events_is_recorded<D: Driver>() {
    for layout in D::LAYOUTS {
        let Some(case) = Case::<D>::new(*layout).await else { return };
        let executor = case.builder().action(Open).build().unwrap();
        let wallet = Uuid::now_v7();
        executor.execute::<Open>(Amount { wallet, amount: 7 }).await.unwrap();
        let place = &case.place;
        if *layout == Some(RowLayout::Eventlog) {
            let sentinel =
                "SELECT action_name, namespace, event_type, model_id, model_type, payload FROM {events}";
            assert_eq!(place.rows(sentinel).await, [["Open", "com.example.shop", "", "", "", ""]]);
            let params = place.one("SELECT action_params FROM {events}").await;
            assert!(params.contains(&wallet.to_string()), "{params}");
            assert_eq!(place.one("SELECT COUNT(*) FROM {actions}").await, "0");
        } else {
            assert_eq!(place.one("SELECT COUNT(*) FROM {events}").await, "0", "{layout:?}");
            let record = place.rows("SELECT name, event_ids, params FROM {actions}").await;
            assert_eq!((record.len(), record[0][0].as_str(), record[0][1].as_str()), (1, "Open", "[]"));
            assert!(record[0][2].contains(&wallet.to_string()), "{record:?}");
            let times = "SELECT COUNT(*) FROM {actions} WHERE started_at <= completed_at";
            assert_eq!(place.one(times).await, "1");
        }
    }
}

/// The last INSERT fails, after the wallet and the orders were written.
pub(crate) async fn an_action_that_fails_leaves_nothing<D: Driver>() {
    let Some(case) = Case::<D>::new(None).await else { return };
    let place_orders = PlaceOrders { wallets: case.driver.wallets(), topic: None };
    let executor = case.builder().action(Open).action(place_orders).build().unwrap();
    let wallet = Uuid::now_v7();
    executor.execute::<Open>(Amount { wallet, amount: 100 }).await.unwrap();
    case.place.rows("DROP TABLE notes").await;
    executor.execute::<PlaceOrders>(Amount { wallet, amount: 20 }).await.unwrap_err();
    let place = &case.place;
    assert_eq!(place.rows("SELECT balance, version FROM wallets").await, [["100", "1"]]);
    assert_eq!(place.one("SELECT COUNT(*) FROM orders").await, "0");
    assert_eq!(place.one("SELECT COUNT(*) FROM {events}").await, "0");
}
