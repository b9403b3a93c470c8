// Orders and their events on PostgreSQL with pgx. DATABASE_URL=postgres://... go run .
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

type placed struct {
	Order int64  `json:"order"`
	Note  string `json:"note"`
}

func place(ctx context.Context, db *pgx.Conn, order int64, note string) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES ($1)", order); err != nil {
			return err
		}
		payload, err := json.Marshal(placed{order, note})
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx,
			`INSERT INTO postrider.events (type, aggregate_type, aggregate_id, payload)
			 VALUES ('order.placed', 'Order', $1, $2)`,
			strconv.FormatInt(order, 10), payload)
		return err
	})
}

func ship(ctx context.Context, db *pgx.Conn, order int64) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		// First the row: its lock is what puts the events of one order in order.
		var version int64
		row := tx.QueryRow(ctx, "UPDATE orders SET version = version + 1 WHERE id = $1 RETURNING version", order)
		if err := row.Scan(&version); err != nil {
			return err
		}
		payload, err := json.Marshal(map[string]any{"version": version})
		if err != nil {
			return err
		}
		// Then the event.
		_, err = tx.Exec(ctx,
			`INSERT INTO postrider.events (type, aggregate_type, aggregate_id, payload)
			 VALUES ('order.shipped', 'Order', $1, $2)`,
			strconv.FormatInt(order, 10), payload)
		return err
	})
}

// sign gives every column that may be given.
func sign(ctx context.Context, db *pgx.Conn) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx,
			`INSERT INTO postrider.events (id, type, aggregate_type, aggregate_id, key, payload, headers, time,
			                               topic, max_attempts, expires_at, action, namespace, producer)
			 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
			"01980b7c-5a00-7000-8000-000000000001",
			"order.signed",
			"Order",
			"№ 42",
			"Zoë 🚚",
			[]byte{0xff, 0x00, 0xfe, '\\', 'x', '4', '1', '\''}, // []byte, never a string
			map[string]string{"content-type": "application/octet-stream", "tenant": "blå 🌍"},
			time.Date(2026, 11, 15, 21, 35, 0, 123_456_000, time.UTC),
			"orders",
			5,
			time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
			map[string]any{
				"id":        "01980b7c-5a00-7000-8000-0000000000aa",
				"name":      "SignOrder",
				"params":    map[string]string{"by": "Zoë"},
				"started":   int64(1794778499900000),
				"completed": int64(1794778500000001),
			},
			"shop.checkout",
			"node-3")
		return err
	})
}

func changeMind(ctx context.Context, db *pgx.Conn, order int64) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES ($1)", order); err != nil {
		return err
	}
	sql := `INSERT INTO postrider.events (type, aggregate_type, aggregate_id, payload)
	        VALUES ('order.placed', 'Order', $1, $2)`
	if _, err := tx.Exec(ctx, sql, strconv.FormatInt(order, 10), []byte("never")); err != nil {
		return err
	}
	return tx.Rollback(ctx) // neither the order nor its event exists
}

func run(ctx context.Context) error {
	db, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	if err := place(ctx, db, 1, "Zoë says \"hi\"\n🚚"); err != nil {
		return err
	}
	if err := sign(ctx, db); err != nil {
		return err
	}
	if err := changeMind(ctx, db, 2); err != nil {
		return err
	}
	if err := ship(ctx, db, 1); err != nil {
		return err
	}
	return ship(ctx, db, 1)
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
