"""Reads and changes the streams of a NATS server: `URL command arguments`. Prints texts in hexadecimal, separated by
tabs."""
import asyncio
import json
import sys

import nats

url, command, *arguments = sys.argv[1:]


def hexadecimal(value):
    return (value if isinstance(value, bytes) else str(value).encode()).hex()


async def read(jetstream, stream):
    state = (await jetstream.stream_info(stream)).state
    for sequence in range(max(state.first_seq, 1), state.last_seq + 1):
        try:
            message = await jetstream.get_msg(stream, sequence)
        except nats.js.errors.NotFoundError:
            continue
        fields = [sequence, message.subject, message.data or b""]
        for header in sorted((message.headers or {}).items()):
            fields += header
        print("\t".join(map(hexadecimal, fields)))


async def main():
    client = await nats.connect(url)
    jetstream = client.jetstream()
    if command == "read":
        await read(jetstream, *arguments)
    elif command == "create":
        stream, subjects, *settings = arguments
        settings = {name: json.loads(value) for name, value in (setting.split("=", 1) for setting in settings)}
        await jetstream.add_stream(name=stream, subjects=subjects.split(","), **settings)
    elif command == "delete":
        await jetstream.delete_stream(*arguments)
    else:
        sys.exit(f"unknown command {command}")
    await client.close()


asyncio.run(main())
