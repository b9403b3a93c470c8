"""An endpoint for webhooks: `port file secret`. Checks each signature by itself, puts each request into the file, then
answers. A line is id, key, body, then name and value of each header; all but the id in hexadecimal."""
import asyncio
import base64
import hashlib
import hmac
import os
import signal
import sys
import time

port, file, secret = int(sys.argv[1]), sys.argv[2], sys.argv[3]
key = base64.b64decode(secret.removeprefix("whsec_"))
log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
TOLERANCE_SECONDS = 300


def is_signed(headers, body):
    """As the specification of Standard Webhooks says, without a library."""
    identity, sent = headers.get(b"webhook-id", b""), headers.get(b"webhook-timestamp", b"")
    if not identity or not sent.isdigit() or abs(time.time() - int(sent)) > TOLERANCE_SECONDS:
        return False
    made = base64.b64encode(hmac.new(key, identity + b"." + sent + b"." + body, hashlib.sha256).digest())
    signatures = [one.split(b",", 1) for one in headers.get(b"webhook-signature", b"").split(b" ")]
    return any(one[0] == b"v1" and hmac.compare_digest(one[-1], made) for one in signatures)


def answer(headers, body):
    if not is_signed(headers, body):
        print("a request without a valid signature", file=sys.stderr, flush=True)
        return b"400 Bad Request"
    fields = [headers[b"webhook-id"].decode(), headers.get(b"postrider-key", b"").hex(), body.hex()]
    for name, value in headers.items():
        fields += [name.hex(), value.hex()]
    os.write(log, ("\t".join(fields) + "\n").encode())
    return b"204 No Content"


class Connection(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.unread = transport, b""

    def data_received(self, data):
        self.unread += data
        while (end := self.unread.find(b"\r\n\r\n")) >= 0:
            lines = self.unread[:end].split(b"\r\n")[1:]
            headers = {name.lower(): value.strip() for name, value in (line.split(b":", 1) for line in lines)}
            whole = end + 4 + int(headers.get(b"content-length", b"0"))
            if len(self.unread) < whole:
                return
            body, self.unread = self.unread[end + 4:whole], self.unread[whole:]
            self.transport.write(b"HTTP/1.1 " + answer(headers, body) + b"\r\ncontent-length: 0\r\n\r\n")


async def serve():
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=1024)
    print("ready", file=sys.stderr, flush=True)
    await server.serve_forever()


# The parent process may ignore these signals, and a child inherits that.
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
asyncio.run(serve())
