"""Looks at an MQTT broker for the tests: `port command arguments`."""
import os
import sys
import threading

from paho.mqtt.client import CallbackAPIVersion, Client, MQTTv5
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

port, command, session, *arguments = sys.argv[1:]
done = threading.Event()
END = b"the end of what the broker has kept: " + os.urandom(8).hex().encode()
INBOX = f"postrider-test-end/{session}"


def connected(client, *_):
    if command == "subscribe":
        client.subscribe([(arguments[0], 2), (INBOX, 2)])
    else:
        # It is queued behind everything that the broker has kept for this session.
        client.publish(INBOX, END, qos=2)


def received(_, __, message):
    if message.topic == INBOX:
        if message.payload == END:
            done.set()
        return
    properties = message.properties
    pairs = getattr(properties, "UserProperty", [])
    fields = [message.topic.encode(), message.payload, getattr(properties, "ContentType", "").encode()]
    print("\t".join(field.hex() for field in fields + [part.encode() for pair in pairs for part in pair]))


client = Client(CallbackAPIVersion.VERSION2, client_id=session, protocol=MQTTv5)
client.max_inflight_messages_set(1000)
client.on_connect, client.on_message = connected, received
client.on_subscribe = lambda *_: done.set()
kept = Properties(PacketTypes.CONNECT)
kept.SessionExpiryInterval = 0xFFFFFFFF
client.connect("127.0.0.1", int(port), clean_start=False, properties=kept)
client.loop_start()
if not done.wait(120):
    sys.exit("no answer in two minutes")
client.disconnect()
client.loop_stop()
