"""Looks at a Redis server for the tests: `port command arguments`."""
import sys

import redis

port, command, *arguments = sys.argv[1:]
server = redis.Redis(port=int(port))
# The client would make a dictionary of the fields; the reply itself keeps their order and repeated names.
server.set_response_callback("XRANGE", lambda reply, **_: reply)

if command == "read":
    start = "-"
    while entries := server.execute_command("XRANGE", arguments[0], start, "+", "COUNT", 1000):
        for identity, fields in entries:
            print("\t".join([identity.decode()] + [part.hex() for part in fields]))
        start = "(" + entries[-1][0].decode()
elif command == "command":
    reply = server.execute_command(*arguments)
    print(reply.decode() if isinstance(reply, bytes) else reply)
else:
    sys.exit(f"unknown command {command}")
