"""Looks at a Kafka server for the tests: `brokers command arguments`."""
import sys
import time

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import (ACL, ACLFilter, ACLOperation, ACLPermissionType, ACLResourcePatternType, KafkaAdminClient, NewTopic,
                         ResourcePattern, ResourceType)

brokers, command, *arguments = sys.argv[1:]


def read(topic, isolation):
    consumer = KafkaConsumer(bootstrap_servers=brokers, isolation_level=isolation, enable_auto_commit=False,
                             auto_offset_reset="earliest", allow_auto_create_topics=False)
    partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or [])]
    for partition in partitions:
        consumer.assign([partition])
        # Of a reader of committed records the end is the end of what is decided.
        end = consumer.end_offsets([partition])[partition]
        consumer.seek_to_beginning(partition)
        while consumer.position(partition) < end:
            for records in consumer.poll(timeout_ms=1000).values():
                for record in records:
                    key = "-" if record.key is None else record.key.hex()
                    fields = [str(record.partition), str(record.offset), key, (record.value or b"").hex()]
                    for name, value in record.headers:
                        fields += [name.encode().hex(), (value or b"").hex()]
                    print("\t".join(fields))
    consumer.close()


def wait(topic, records, seconds):
    consumer = KafkaConsumer(bootstrap_servers=brokers, enable_auto_commit=False, allow_auto_create_topics=False,
                             metadata_max_age_ms=100)
    end = time.monotonic() + int(seconds)
    found = 0
    while time.monotonic() < end:
        numbers = consumer.partitions_for_topic(topic) if topic in consumer.topics() else None
        partitions = [TopicPartition(topic, number) for number in numbers or []]
        found = sum(consumer.end_offsets(partitions).values()) if partitions else 0
        if found >= int(records):
            return
        time.sleep(0.1)
    sys.exit(f"topic {topic} has {found} records after {seconds} seconds, not {records}")


def admin():
    return KafkaAdminClient(bootstrap_servers=brokers)


if command == "read":
    read(*arguments)
elif command == "wait":
    wait(*arguments)
elif command == "create":
    topic, partitions, *settings = arguments
    configs = dict(setting.split("=", 1) for setting in settings)
    admin().create_topics([NewTopic(topic, int(partitions), 1, topic_configs=configs)])
elif command == "delete":
    admin().delete_topics(arguments)
elif command == "topics":
    print("\n".join(sorted(topic for topic in admin().list_topics() if not topic.startswith("__"))))
elif command == "allow":
    user, prefix = arguments
    pattern = ResourcePattern(ResourceType.TOPIC, prefix, ACLResourcePatternType.PREFIXED)
    for operation in (ACLOperation.WRITE, ACLOperation.DESCRIBE):
        admin().create_acls([ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, pattern)])
elif command == "forbid":
    user, prefix = arguments
    pattern = ResourcePattern(ResourceType.TOPIC, prefix, ACLResourcePatternType.PREFIXED)
    admin().delete_acls([ACLFilter(f"User:{user}", "*", ACLOperation.WRITE, ACLPermissionType.ALLOW, pattern)])
else:
    sys.exit(f"unknown command {command}")
