"""Orders and their events on PostgreSQL with psycopg 3. DATABASE_URL=postgres://... python3 orders.py"""

import json
import os
from datetime import datetime, timezone
from uuid import UUID

import psycopg
from psycopg.types.json import Json


def to_bytes(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def place(db, order, note):
    with db.transaction():
        db.execute("INSERT INTO orders (id) VALUES (%s)", (order,))
        db.execute(
            """INSERT INTO postrider.events (type, aggregate_type, aggregate_id, payload)
               VALUES ('order.placed', 'Order', %s, %s)""",
            (str(order), to_bytes({"order": order, "note": note})),
        )


def ship(db, order):
    with db.transaction():
        # First the row: its lock is what puts the events of one order in order.
        row = db.execute("UPDATE orders SET version = version + 1 WHERE id = %s RETURNING version", (order,))
        (version,) = row.fetchone()
        # Then the event.
        db.execute(
            """INSERT INTO postrider.events (type, aggregate_type, aggregate_id, payload)
               VALUES ('order.shipped', 'Order', %s, %s)""",
            (str(order), to_bytes({"version": version})),
        )


def sign(db):
    """Every column that may be given."""
    with db.transaction():
        db.execute(
            """INSERT INTO postrider.events (id, type, aggregate_type, aggregate_id, key, payload, headers, time,
                                             topic, max_attempts, expires_at, action, namespace, producer)
               VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)""",
            (
                UUID("01980b7c-5a00-7000-8000-000000000001"),
                "order.signed",
                "Order",
                "№ 42",
                "Zoë 🚚",
                b"\xff\x00\xfe\\x41'",
                Json({"content-type": "application/octet-stream", "tenant": "blå 🌍"}),
                datetime(2026, 11, 15, 21, 35, 0, 123456, tzinfo=timezone.utc),
                "orders",
                5,
                datetime(2100, 1, 1, tzinfo=timezone.utc),
                Json({
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
    with db.transaction():
        db.execute("INSERT INTO orders (id) VALUES (%s)", (order,))
        db.execute(
            """INSERT INTO postrider.events (type, aggregate_type, aggregate_id, payload)
               VALUES ('order.placed', 'Order', %s, %s)""",
            (str(order), b"never"),
        )
        raise psycopg.Rollback()  # neither the order nor its event exists


with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as db:
    place(db, 1, 'Zoë says "hi"\n🚚')
    sign(db)
    change_mind(db, 2)
    ship(db, 1)
    ship(db, 1)
