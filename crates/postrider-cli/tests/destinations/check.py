"""Compares what was committed with what arrived: `written duplicates_max kafka BROKERS TOPIC`, `... redis PORT STREAM`,
`... mqtt PORT SESSION` or `... log FILE`.

A line of `written` is an event: id, key, its number within the key, payload; the payload in hexadecimal. Says what it
found in one line; the exit code is 1 if something is wrong."""
import sys

written, duplicates_max, kind, *place = sys.argv[1:]


def from_kafka(brokers, topic):
    """Id, key and value of every committed record, each partition in its order."""
    from kafka import KafkaConsumer, TopicPartition
    consumer = KafkaConsumer(bootstrap_servers=brokers, isolation_level="read_committed", enable_auto_commit=False,
                             auto_offset_reset="earliest", allow_auto_create_topics=False)
    for partition in [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        consumer.seek_to_beginning(partition)
        while consumer.position(partition) < end:
            for records in consumer.poll(timeout_ms=1000).values():
                for record in records:
                    identity = dict(record.headers)["postrider-id"].decode()
                    yield identity, (record.key or b"").decode(), record.value or b""


def from_redis(port, stream):
    """Id, key and body of every entry, in the order of the stream."""
    import redis
    server, start = redis.Redis(port=int(port)), "-"
    while entries := server.xrange(stream, min=start, count=1000):
        for _, fields in entries:
            yield fields[b"postrider-id"].decode(), fields[b"key"].decode(), fields[b"body"]
        start = "(" + entries[-1][0].decode()


def from_mqtt(port, session):
    """Id, key and payload of every message that the broker has kept for a session, in its order."""
    import queue
    from paho.mqtt.client import CallbackAPIVersion, Client, MQTTv5
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties
    end, messages = f"postrider-test-end/{session}", queue.Queue()
    client = Client(CallbackAPIVersion.VERSION2, client_id=session, protocol=MQTTv5)
    # It is queued behind everything that the broker has kept for this session.
    client.on_connect = lambda *_: client.publish(end, b"end", qos=2)
    client.on_message = lambda _, __, message: messages.put(message)
    kept = Properties(PacketTypes.CONNECT)
    kept.SessionExpiryInterval = 0xFFFFFFFF
    client.connect("127.0.0.1", int(port), clean_start=False, properties=kept)
    client.loop_start()
    while (message := messages.get(timeout=120)).topic != end:
        headers = dict(message.properties.UserProperty)
        yield headers["postrider-id"], headers["key"], message.payload
    client.disconnect()
    client.loop_stop()


def from_log(file):
    """Id, key and body of every request an endpoint took, in its order."""
    for line in open(file):
        identity, key, body = line.rstrip("\n").split("\t")[:3]
        yield identity, bytes.fromhex(key).decode(), bytes.fromhex(body)


READERS = {"kafka": from_kafka, "redis": from_redis, "mqtt": from_mqtt, "log": from_log}

committed = {}
for line in open(written):
    identity, key, number, payload = line.rstrip("\n").split("\t")
    committed[identity] = (key, int(number), bytes.fromhex(payload))

seen, newest, last = set(), {}, {}
received = phantom = changed = misplaced = late = 0
for identity, key, payload in READERS[kind](*place):
    received += 1
    if identity not in committed:
        phantom += 1
        continue
    of_key, number, original = committed[identity]
    changed += key != of_key or payload != original
    if identity in seen:
        # A repeat is expected to be followed by what came after it, again. One that came late is not.
        late += number > last[key] + 1 or number < last[key]
    else:
        # What is new must be the next of its key, whatever was repeated before it.
        misplaced += number != newest.get(key, 0) + 1
        newest[key] = max(number, newest.get(key, 0))
    seen.add(identity)
    last[key] = number

lost, duplicates = len(committed) - len(seen), received - phantom - len(seen)
print(f"written {len(committed)}, received {received}, distinct {len(seen)}, lost {lost}, phantom {phantom}, "
      f"changed {changed}, out of order {misplaced}, duplicates {duplicates} (bound {duplicates_max}), "
      f"repeats from an earlier point {late}")
if lost or phantom or changed or misplaced or duplicates > int(duplicates_max) or not committed:
    sys.exit(1)
