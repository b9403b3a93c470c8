// Orders and their events on PostgreSQL with pg. DATABASE_URL=postgres://... node orders.js
"use strict";

const { Client } = require("pg");

// A Buffer, never a string: the server would read backslashes in a string as its own escapes.
const toBytes = (value) => Buffer.from(JSON.stringify(value));

async function inTransaction(db, work) {
  await db.query("BEGIN");
  try {
    await work();
    await db.query("COMMIT");
  } catch (error) {
    await db.query("ROLLBACK");
    throw error;
  }
}

const place = (db, order, note) =>
  inTransaction(db, async () => {
    await db.query("INSERT INTO orders (id) VALUES ($1)", [order]);
    await db.query(
      `INSERT INTO postrider.events (type, aggregate_type, aggregate_id, payload)
       VALUES ('order.placed', 'Order', $1, $2)`,
      [String(order), toBytes({ order, note })],
    );
  });

const ship = (db, order) =>
  inTransaction(db, async () => {
    // First the row: its lock is what puts the events of one order in order.
    const { rows } = await db.query("UPDATE orders SET version = version + 1 WHERE id = $1 RETURNING version", [order]);
    // Then the event.
    await db.query(
      `INSERT INTO postrider.events (type, aggregate_type, aggregate_id, payload)
       VALUES ('order.shipped', 'Order', $1, $2)`,
      [String(order), toBytes({ version: Number(rows[0].version) })],
    );
  });

// Every column that may be given.
const sign = (db) =>
  inTransaction(db, () =>
    db.query(
      `INSERT INTO postrider.events (id, type, aggregate_type, aggregate_id, key, payload, headers, time,
                                     topic, max_attempts, expires_at, action, namespace, producer)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
      [
        "01980b7c-5a00-7000-8000-000000000001",
        "order.signed",
        "Order",
        "№ 42",
        "Zoë 🚚",
        Buffer.from([0xff, 0x00, 0xfe, 0x5c, 0x78, 0x34, 0x31, 0x27]),
        { "content-type": "application/octet-stream", tenant: "blå 🌍" }, // pg makes JSON of it
        "2026-11-15T21:35:00.123456Z", // a Date has only milliseconds
        "orders",
        5,
        new Date("2100-01-01T00:00:00Z"),
        {
          id: "01980b7c-5a00-7000-8000-0000000000aa",
          name: "SignOrder",
          params: { by: "Zoë" },
          started: 1794778499900000,
          completed: 1794778500000001,
        },
        "shop.checkout",
        "node-3",
      ],
    ),
  );

async function changeMind(db, order) {
  await db.query("BEGIN");
  await db.query("INSERT INTO orders (id) VALUES ($1)", [order]);
  await db.query(
    `INSERT INTO postrider.events (type, aggregate_type, aggregate_id, payload)
     VALUES ('order.placed', 'Order', $1, $2)`,
    [String(order), Buffer.from("never")],
  );
  await db.query("ROLLBACK"); // neither the order nor its event exists
}

async function main() {
  const db = new Client({ connectionString: process.env.DATABASE_URL });
  await db.connect();
  try {
    await place(db, 1, 'Zoë says "hi"\n🚚');
    await sign(db);
    await changeMind(db, 2);
    await ship(db, 1);
    await ship(db, 1);
  } finally {
    await db.end();
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
