"""Reads and changes a RabbitMQ server: `URL command arguments`. Prints texts in hexadecimal, separated by tabs."""
import sys

import pika

url, command, *arguments = sys.argv[1:]
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()


def hexadecimal(value):
    return (value if isinstance(value, bytes) else str(value).encode()).hex()


def read(queue):
    while True:
        method, properties, body = channel.basic_get(queue)
        if method is None:
            return
        fields = [method.exchange, method.routing_key, properties.message_id or "", properties.content_type or "",
                  properties.delivery_mode or 1, body]
        for header in sorted((properties.headers or {}).items()):
            fields += header
        print("\t".join(map(hexadecimal, fields)))


if command == "read":
    # Without an acknowledgement they are back in the queue when the connection is closed.
    read(*arguments)
elif command == "queue":
    queue, *settings = arguments
    settings = dict(setting.split("=", 1) for setting in settings)
    settings = {name: int(value) if value.isdigit() else value for name, value in settings.items()}
    channel.queue_declare(queue, durable=True, arguments=settings)
elif command == "exchange":
    exchange, exchange_type = arguments
    channel.exchange_declare(exchange, exchange_type, durable=True)
elif command == "bind":
    queue, exchange, routing_key = arguments
    channel.queue_bind(queue, exchange, routing_key)
elif command == "delete-exchange":
    channel.exchange_delete(*arguments)
elif command == "purge":
    channel.queue_purge(*arguments)
else:
    sys.exit(f"unknown command {command}")
connection.close()
