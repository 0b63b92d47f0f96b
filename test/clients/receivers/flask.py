"""In the manner of a Flask view: the raw body, compare_digest, and a task that works after the answer.

    STORE=… WIAXY_SECRET_KEY=… python3 flask.py 9000
"""

import hashlib
import hmac
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ["WIAXY_SECRET_KEY"].encode()
STORE = os.environ["STORE"]


def credit(data):
    """Runs after the response."""
    try:
        with open(os.path.join(STORE, data["wiaxy_ref"]), "x") as row:
            row.write(f"{float(data['amount']):.2f} {data['payer'].get('bank_name')}")
    except FileExistsError:
        pass


class View(BaseHTTPRequestHandler):
    def do_GET(self):
        self.respond(404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        timestamp = self.headers.get("X-Wiaxy-Timestamp", "0")
        signed = timestamp.encode() + b"." + body
        expected = hmac.new(SECRET, signed, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(expected, self.headers.get("X-Wiaxy-Signature-256", "")):
            return self.respond(401)
        if abs(time.time() - int(timestamp)) > 300:
            return self.respond(401)
        event = json.loads(body)
        if event["event"] == "PAYMENT_NOTIFICATION":
            threading.Thread(target=credit, args=(event["data"],)).start()
        self.respond(200)

    def respond(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), View).serve_forever()
