"""Orders and their events on SQLite with Python's own module. DATABASE=shop.db python3 orders_sqlite.py"""

import json
import os
import sqlite3


def to_text(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def place(db, order, note):
    with db:  # commits, or rolls back if something is raised
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO orders (id) VALUES (?)", (order,))
        db.execute(
            """INSERT INTO postrider_events (type, aggregate_type, aggregate_id, payload)
               VALUES ('order.placed', 'Order', ?, ?)""",
            (str(order), to_text({"order": order, "note": note})),
        )


def ship(db, order):
    with db:
        db.execute("BEGIN IMMEDIATE")  # one writer at a time: this transaction comes after all others
        db.execute("UPDATE orders SET version = version + 1 WHERE id = ?", (order,))
        (version,) = db.execute("SELECT version FROM orders WHERE id = ?", (order,)).fetchone()
        db.execute(
            """INSERT INTO postrider_events (type, aggregate_type, aggregate_id, payload)
               VALUES ('order.shipped', 'Order', ?, ?)""",
            (str(order), to_text({"version": version})),
        )


def sign(db):
    """Every column that may be given."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        db.execute(
            """INSERT INTO postrider_events (id, type, aggregate_type, aggregate_id, key, payload, headers, time,
                                             topic, max_attempts, expires_at, action, namespace, producer)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            (
                "01980b7c-5a00-7000-8000-000000000001",
                "order.signed",
                "Order",
                "№ 42",
                "Zoë 🚚",
                b"\xff\x00\xfe\\x41'",
                to_text({"content-type": "application/octet-stream", "tenant": "blå 🌍"}),
                1794778500123456,  # times are microseconds since 1970, UTC
                "orders",
                5,
                4102444800000000,
                to_text({
                    "id": "01980b7c-5a00-7000-8000-0000000000aa",
                    "name": "SignOrder",
                    "params": {"by": "Zoë"},
                    "started": 1794778499900000,
                    "completed": 1794778500000001,
                }),
                "shop.checkout",
                "node-3",
            ),
        )


def change_mind(db, order):
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO orders (id) VALUES (?)", (order,))
    db.execute(
        """INSERT INTO postrider_events (type, aggregate_type, aggregate_id, payload)
           VALUES ('order.placed', 'Order', ?, 'never')""",
        (str(order),),
    )
    db.rollback()  # neither the order nor its event exists


db = sqlite3.connect(os.environ["DATABASE"], timeout=30)
place(db, 1, 'Zoë says "hi"\n🚚')
sign(db)
change_mind(db, 2)
ship(db, 1)
ship(db, 1)
db.close()
