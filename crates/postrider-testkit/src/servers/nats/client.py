"""Reads and changes the streams of a NATS server: `URL command arguments`. Prints texts in hexadecimal, separated by
tabs."""
import asyncio
import base64
import json
import sys

import nats

url, command, *arguments = sys.argv[1:]


def hexadecimal(value):
    return (value if isinstance(value, bytes) else str(value).encode()).hex()


def headers(block):
    """Names and values, as the bytes that the server stored: `NATS/1.0`, then a line each."""
    for line in base64.b64decode(block).split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            yield name, value.strip()


async def read(client, stream):
    state = (await client.jetstream().stream_info(stream)).state
    for sequence in range(max(state.first_seq, 1), state.last_seq + 1):
        answer = await client.request(f"$JS.API.STREAM.MSG.GET.{stream}", json.dumps({"seq": sequence}).encode())
        message = json.loads(answer.data).get("message")
        if message is None:
            continue
        fields = [sequence, message["subject"], base64.b64decode(message.get("data", ""))]
        for header in sorted(headers(message.get("hdrs", ""))):
            fields += header
        print("\t".join(map(hexadecimal, fields)))


async def main():
    client = await nats.connect(url)
    jetstream = client.jetstream()
    if command == "read":
        await read(client, *arguments)
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
