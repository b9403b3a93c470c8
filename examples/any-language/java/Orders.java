// Orders and their events on PostgreSQL with JDBC.
// mvn dependency:copy-dependencies
// DATABASE_URL=jdbc:postgresql://... java -Dfile.encoding=UTF-8 -cp 'target/dependency/*' Orders.java

import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Types;
import java.time.OffsetDateTime;
import java.util.UUID;

public class Orders {
    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** With auto-commit off, a transaction begins by itself after the last one ended. */
    static void place(Connection db, long order, byte[] payload) throws SQLException {
        try (var row = db.prepareStatement("INSERT INTO orders (id) VALUES (?)");
                var event = db.prepareStatement("""
                        INSERT INTO postrider.events (type, aggregate_type, aggregate_id, payload)
                        VALUES ('order.placed', 'Order', ?, ?)""")) {
            row.setLong(1, order);
            row.executeUpdate();
            event.setString(1, Long.toString(order));
            event.setBytes(2, payload);
            event.executeUpdate();
            db.commit();
        } catch (SQLException failed) {
            db.rollback();
            throw failed;
        }
    }

    static void ship(Connection db, long order) throws SQLException {
        try (var row = db.prepareStatement("UPDATE orders SET version = version + 1 WHERE id = ? RETURNING version");
                var event = db.prepareStatement("""
                        INSERT INTO postrider.events (type, aggregate_type, aggregate_id, payload)
                        VALUES ('order.shipped', 'Order', ?, ?)""")) {
            // First the row: its lock is what puts the events of one order in order.
            row.setLong(1, order);
            var answer = row.executeQuery();
            answer.next();
            long version = answer.getLong(1);
            // Then the event.
            event.setString(1, Long.toString(order));
            event.setBytes(2, bytes("{\"version\":" + version + "}"));
            event.executeUpdate();
            db.commit();
        } catch (SQLException failed) {
            db.rollback();
            throw failed;
        }
    }

    /** Every column that may be given. */
    static void sign(Connection db) throws SQLException {
        try (var event = db.prepareStatement("""
                INSERT INTO postrider.events (id, type, aggregate_type, aggregate_id, key, payload, headers, time,
                                              topic, max_attempts, expires_at, action, namespace, producer)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""")) {
            event.setObject(1, UUID.fromString("01980b7c-5a00-7000-8000-000000000001"));
            event.setString(2, "order.signed");
            event.setString(3, "Order");
            event.setString(4, "№ 42");
            event.setString(5, "Zoë 🚚");
            event.setBytes(6, new byte[] {(byte) 0xff, 0x00, (byte) 0xfe, '\\', 'x', '4', '1', '\''});
            // JSON is text of the type OTHER; with setString the server would refuse it.
            event.setObject(7, """
                    {"content-type":"application/octet-stream","tenant":"blå 🌍"}""", Types.OTHER);
            event.setObject(8, OffsetDateTime.parse("2026-11-15T21:35:00.123456Z"));
            event.setString(9, "orders");
            event.setLong(10, 5);
            event.setObject(11, OffsetDateTime.parse("2100-01-01T00:00:00Z"));
            event.setObject(12, """
                    {"id":"01980b7c-5a00-7000-8000-0000000000aa","name":"SignOrder","params":{"by":"Zoë"},\
                    "started":1794778499900000,"completed":1794778500000001}""", Types.OTHER);
            event.setString(13, "shop.checkout");
            event.setString(14, "node-3");
            event.executeUpdate();
            db.commit();
        } catch (SQLException failed) {
            db.rollback();
            throw failed;
        }
    }

    static void changeMind(Connection db, long order) throws SQLException {
        try (var row = db.prepareStatement("INSERT INTO orders (id) VALUES (?)");
                var event = db.prepareStatement("""
                        INSERT INTO postrider.events (type, aggregate_type, aggregate_id, payload)
                        VALUES ('order.placed', 'Order', ?, ?)""")) {
            row.setLong(1, order);
            row.executeUpdate();
            event.setString(1, Long.toString(order));
            event.setBytes(2, bytes("never"));
            event.executeUpdate();
        } finally {
            db.rollback(); // neither the order nor its event exists
        }
    }

    public static void main(String[] arguments) throws SQLException {
        try (var db = DriverManager.getConnection(System.getenv("DATABASE_URL"))) {
            db.setAutoCommit(false);
            place(db, 1, bytes("""
                    {"order":1,"note":"Zoë says \\"hi\\"\\n🚚"}"""));
            sign(db);
            changeMind(db, 2);
            ship(db, 1);
            ship(db, 1);
        }
    }
}
