"""Connects to Inflow over gRPC, and reads the details of its errors."""

import os
from urllib.parse import urlsplit

import grpc
from google.rpc import error_details_pb2, status_pb2

METADATA = [("authorization", f"Bearer {os.environ['INFLOW_TOKEN']}")]
DETAILS = (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo)
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


def details_of(error):
    """The details of a failed call, by the names of their types."""
    found = {}
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for packed in status_pb2.Status.FromString(value).details:
                for kind in DETAILS:
                    if packed.Is(kind.DESCRIPTOR):
                        found[kind.DESCRIPTOR.name] = kind.FromString(packed.value)
    return found
