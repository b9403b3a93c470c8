"""Orders and their events on MySQL or MariaDB with PyMySQL. DATABASE_URL=mysql://... python3 orders_mysql.py"""

import json
import os
from contextlib import contextmanager
from datetime import datetime
from urllib.parse import unquote, urlsplit
from uuid import UUID

import pymysql


def to_text(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def to_bytes(value):
    return to_text(value).encode()


@contextmanager
def transaction(db):
    db.begin()
    try:
        with db.cursor() as cursor:
            yield cursor
        db.commit()
    except BaseException:
        db.rollback()
        raise


def place(db, order, note):
    with transaction(db) as tx:
        tx.execute("INSERT INTO orders (id) VALUES (%s)", (order,))
        tx.execute(
            """INSERT INTO postrider.events (type, aggregate_type, aggregate_id, payload)
               VALUES ('order.placed', 'Order', %s, %s)""",
            (str(order), to_bytes({"order": order, "note": note})),
        )


def ship(db, order):
    with transaction(db) as tx:
        # First the row: its lock is what puts the events of one order in order.
        tx.execute("UPDATE orders SET version = version + 1 WHERE id = %s", (order,))
        tx.execute("SELECT version FROM orders WHERE id = %s", (order,))
        (version,) = tx.fetchone()
        # Then the event.
        tx.execute(
            """INSERT INTO postrider.events (type, aggregate_type, aggregate_id, payload)
               VALUES ('order.shipped', 'Order', %s, %s)""",
            (str(order), to_bytes({"version": version})),
        )


def sign(db):
    """Every column that may be given."""
    with transaction(db) as tx:
        tx.execute(
            """INSERT INTO postrider.events (id, type, aggregate_type, aggregate_id, `key`, payload, headers, time,
                                             topic, max_attempts, expires_at, action, namespace, producer)
               VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)""",
            (
                UUID("01980b7c-5a00-7000-8000-000000000001").bytes,
                "order.signed",
                "Order",
                "№ 42",
                "Zoë 🚚",
                b"\xff\x00\xfe\\x41'",
                to_text({"content-type": "application/octet-stream", "tenant": "blå 🌍"}),
                datetime(2026, 11, 15, 21, 35, 0, 123456),  # UTC, whatever the zone of the session
                "orders",
                5,
                datetime(2100, 1, 1),
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


class ChangedMind(Exception):
    pass


def change_mind(db, order):
    with transaction(db) as tx:
        tx.execute("INSERT INTO orders (id) VALUES (%s)", (order,))
        tx.execute(
            """INSERT INTO postrider.events (type, aggregate_type, aggregate_id, payload)
               VALUES ('order.placed', 'Order', %s, %s)""",
            (str(order), b"never"),
        )
        raise ChangedMind  # neither the order nor its event exists


at = urlsplit(os.environ["DATABASE_URL"])
db = pymysql.connect(
    host=at.hostname,
    port=at.port or 3306,
    user=unquote(at.username),
    password=unquote(at.password or ""),
    database=at.path[1:],
    charset="utf8mb4",
)
place(db, 1, 'Zoë says "hi"\n🚚')
sign(db)
try:
    change_mind(db, 2)
except ChangedMind:
    pass
ship(db, 1)
ship(db, 1)
db.close()
