"""Receives webhooks, and prints those that Inflow signed with the secret.

    INFLOW_WEBHOOK_SECRET=whsec_… python3 webhooks.py 9000
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def verify(secret, headers, body):
    """Whether the body, as the bytes that arrived, was signed with the secret within five minutes."""
    message_id = headers.get("webhook-id") or ""
    timestamp = headers.get("webhook-timestamp") or ""
    if not timestamp.isascii() or not timestamp.isdigit() or len(timestamp) > 12:
        return False
    if abs(time.time() - int(timestamp)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    if not key:
        return False
    signed = f"{message_id}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    # During a rotation there are several signatures, with a space between them.
    given = (headers.get("webhook-signature") or "").encode().split(b" ")
    return any([hmac.compare_digest(expected, each) for each in given])


class Receiver(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self):
        length = self.headers.get("content-length", "")
        body = self.rfile.read(min(int(length), 1_000_000)) if length.isdigit() else b""
        accepted = verify(os.environ["INFLOW_WEBHOOK_SECRET"], self.headers, body)
        if accepted:
            event = json.loads(body)
            # A repeat has the same event_id: handle each once.
            print(event["event"], event["data"]["event_id"], flush=True)
        self.send_response(204 if accepted else 401)
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    print("receiving on port", server.server_port, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
