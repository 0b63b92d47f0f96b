"""Follows all events, and stores each of them once, over restarts of both sides.

    INFLOW_TOKEN=… python3 follow.py events.db
"""

import sqlite3
import sys
import time

import grpc
from grpc import StatusCode
from inflow.event.v1.event_service_pb2 import SubscribeRequest
from inflow.event.v1.event_service_pb2_grpc import EventServiceStub
from inflow_grpc import METADATA, connect, details_of

# After any other code a retry does not help: the token, the request or the cursor is refused.
TRANSIENT = (StatusCode.UNAVAILABLE, StatusCode.CANCELLED, StatusCode.DEADLINE_EXCEEDED, StatusCode.INTERNAL)
TRANSIENT += (StatusCode.UNKNOWN, StatusCode.ABORTED, StatusCode.RESOURCE_EXHAUSTED)
RETRY_SECONDS = (0.2, 1, 5)


def stream(database):
    """Reads one stream until it ends: the service ends each after half an hour."""
    kept = database.execute("select cursor from position").fetchone()
    start = {"cursor": kept[0]} if kept else {"beginning": True}
    with connect() as channel:
        request = SubscribeRequest(**start)
        for item in EventServiceStub(channel).Subscribe(request, metadata=METADATA):
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


database = sqlite3.connect(sys.argv[1])
database.execute("pragma journal_mode = wal")
database.execute("create table if not exists event (position integer, id text primary key, kind text)")
database.execute("create table if not exists position (one integer primary key, cursor text)")
try:
    follow(database)
except grpc.RpcError as error:
    # If the cursor is refused, the details have one that is safe to resume at.
    info = details_of(error).get("ErrorInfo")
    reason, cursor = (info.reason, info.metadata.get("cursor", "")) if info else (error.code().name, "")
    print("refused:", reason, cursor, error.details(), file=sys.stderr)
    sys.exit(1)
except KeyboardInterrupt:
    pass
