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
    status = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    packed = status_pb2.Status.FromString(status).details
    pairs = [(kind, each) for kind in DETAILS for each in packed if each.Is(kind.DESCRIPTOR)]
    return {kind.DESCRIPTOR.name: kind.FromString(each.value) for kind, each in pairs}
