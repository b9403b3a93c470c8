//! Commands of operators on large tables. `make soak` runs it with 10,000,000 delivered and 1,000,000 parked events and keeps
//! how long each command takes; otherwise it only shows that every command answers.

use postrider::{Clock, SystemClock};

use super::Shop;

fn size(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Every tenth event is parked: most are dead, some wait behind a dead one or for a retry.
fn fill(shop: &Shop, delivered: u64, parked: u64) {
    shop.sql("ALTER TABLE postrider.events SET UNLOGGED; ALTER TABLE postrider.parked SET UNLOGGED");
    shop.sql(&format!(
        "INSERT INTO postrider.events (id, type, aggregate_type, aggregate_id, payload, time)
         SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3)
                 || '8' || substr(md5(n::text), 4, 15))::uuid,
                'order.placed', 'Order', (n / 20)::text, '{{\"cents\": 1200}}', at
         FROM (SELECT n, now() - interval '10 milliseconds' * ({delivered} - n) AS at
               FROM generate_series(1, {delivered}) AS n) AS made"
    ));
    shop.sql(&format!(
        "INSERT INTO postrider.parked (subscription, position, event_id, key, state, attempts, last_error, next_attempt_at)
         SELECT 'orders', position, id, 'Order/' || aggregate_id,
                CASE WHEN position % 200 = 0 THEN 'retry' WHEN position % 20 = 0 THEN 'behind' ELSE 'dead' END, 3,
                CASE WHEN position % 20 <> 0 THEN 'HTTP 422: the order is not known' END,
                CASE WHEN position % 200 = 0 THEN now() + interval '1 hour' END
         FROM postrider.events WHERE position % {every} = 0 ORDER BY position",
        every = (delivered / parked).max(1)
    ));
    shop.sql(
        "UPDATE postrider.subscriptions AS s
         SET floor = e.position, done = e.position::text, highest_position = e.position, highest_id = e.id
         FROM (SELECT position, id FROM postrider.events ORDER BY position DESC LIMIT 1) AS e",
    );
    shop.sql("VACUUM ANALYZE postrider.events");
    shop.sql("VACUUM ANALYZE postrider.parked");
}

#[test]
fn every_command_of_an_operator_answers_on_large_tables() {
    let Some(shop) = Shop::new() else { return };
    let (delivered, parked) = (size("LARGE_DELIVERED", 20_000), size("LARGE_PARKED", 2_000));
    let program = shop.program();
    for args in [&["migrate", "up", "--with", "views"][..], &["subscriptions", "add", "orders"]] {
        let ran = program.run(args);
        assert_eq!(ran.exit, Some(0), "{ran:?}");
    }
    fill(&shop, delivered, parked);
    println!("{delivered} delivered events, {parked} parked ones, PostgreSQL; milliseconds of each command");
    let id = super::on(&shop.url, async |client| {
        let sql = "SELECT id::text FROM postrider.events ORDER BY position LIMIT 1 OFFSET 4711";
        client.query_one(sql, &[]).await.unwrap().get::<_, String>(0)
    });
    let commands: [&[&str]; 24] = [
        &["status"],
        &["events", "list"],
        &["events", "list", "--type", "other"],
        &["events", "list", "--key", "Order/other"],
        &["events", "list", "--aggregate", "Order:7"],
        &["events", "list", "--since", "1h"],
        &["events", "show", &id],
        &["explain", &id],
        &["explain", "--key", "Order/7"],
        &["explain", "01a1eb81-8068-732a-a2a2-f7a6ecbada3a"],
        &["parked", "list"],
        &["parked", "list", "--error", "other"],
        &["parked", "list", "--key", "Order/other"],
        &["dead", "list"],
        &["dead", "list", "--type", "other"],
        &["dead", "list", "--error", "other"],
        &["dead", "retry", "--error", "422"],
        &["dead", "retry", "--type", "order.placed"],
        &["parked", "kill", "--key", "Order/7"],
        &["replay", "orders", "--key", "Order/7", "--dry-run"],
        &["replay", "orders", "--since", "1h", "--dry-run"],
        &["subscriptions", "list"],
        &["cleanup", "--before", "1h", "--dry-run"],
        &["audit", "list"],
    ];
    let (clock, mut slowest) = (SystemClock::new(), 0);
    for args in commands {
        let began = clock.now().elapsed;
        let ran = program.run(args);
        let millis = (clock.now().elapsed - began).as_millis();
        // A change counts, and is not made without a terminal.
        assert!(ran.exit == Some(0) || ran.stderr.contains("add --yes"), "{args:?}: {ran:?}");
        println!("{millis:>8}  postrider {}", args.join(" ").replace(&id, "ID"));
        slowest = slowest.max(millis);
    }
    println!("{slowest:>8}  the slowest");
}
