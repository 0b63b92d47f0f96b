"""Follows all events, and stores each of them once, over restarts of both sides.

    INFLOW_TOKEN=… python3 follow.py events.db
"""

import os
import sqlite3
import sys
import time
from urllib.parse import urlsplit

import grpc
from google.rpc import error_details_pb2, status_pb2
from inflow.event.v1 import event_service_pb2, event_service_pb2_grpc

# After any other code a retry does not help: the token, the request or the cursor is refused.
TRANSIENT = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)
RETRY_SECONDS = (0.2, 1, 5)
# Finds connections that are dead without a word.
KEEPALIVE = [
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
]


def connect():
    url = urlsplit(os.environ.get("INFLOW_GRPC_URL", "http://127.0.0.1:50051"))
    if url.scheme == "https":
        return grpc.secure_channel(url.netloc, grpc.ssl_channel_credentials(), KEEPALIVE)
    return grpc.insecure_channel(url.netloc, KEEPALIVE)


def stream(database):
    """Reads one stream until it ends: the service ends each after half an hour."""
    kept = database.execute("select cursor from position").fetchone()
    start = {"cursor": kept[0]} if kept else {"beginning": True}
    with connect() as channel:
        items = event_service_pb2_grpc.EventServiceStub(channel).Subscribe(
            event_service_pb2.SubscribeRequest(**start),
            metadata=[("authorization", f"Bearer {os.environ['INFLOW_TOKEN']}")],
        )
        for item in items:
            # A checkpoint has a cursor only.
            event = item.event if item.HasField("event") else None
            yield event, (event or item.checkpoint).cursor


def follow(database):
    failures = 0
    while True:
        try:
            for event, cursor in stream(database):
                failures = 0
                # What the event changes and the cursor, in one transaction: neither without the other.
                with database:
                    if event is not None:
                        row = (event.position, event.id, event.kind)
                        database.execute("insert into event values (?, ?, ?)", row)
                    database.execute("replace into position values (1, ?)", (cursor,))
                if event is not None:
                    print(*row, flush=True)
        except grpc.RpcError as error:
            if error.code() not in TRANSIENT:
                raise
            print("interrupted:", error.code().name, file=sys.stderr, flush=True)
        time.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
        failures += 1


def refusal(error):
    """Why the subscription is refused, and the cursor that is safe to resume at, if it has one."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for packed in status_pb2.Status.FromString(value).details:
                if packed.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
                    info = error_details_pb2.ErrorInfo.FromString(packed.value)
                    return info.reason, info.metadata.get("cursor", "")
    return error.code().name, ""


database = sqlite3.connect(sys.argv[1])
database.execute("pragma journal_mode = wal")
database.execute("create table if not exists event (position integer, id text primary key, kind text)")
database.execute("create table if not exists position (one integer primary key, cursor text)")
try:
    follow(database)
except grpc.RpcError as error:
    print("refused:", *refusal(error), error.details(), file=sys.stderr)
    sys.exit(1)
except KeyboardInterrupt:
    pass
