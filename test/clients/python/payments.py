"""Opens a virtual account over gRPC, and records a payment into it.

    INFLOW_TOKEN=… python3 payments.py <business id> <reference> <e-mail> <session id>
"""

import os
import sys
from urllib.parse import urlsplit

import grpc
from google.rpc import error_details_pb2, status_pb2
from inflow.account.v1 import account_service_pb2, account_service_pb2_grpc
from inflow.transaction.v1 import transaction_service_pb2, transaction_service_pb2_grpc
from inflow.type.v1 import bank_pb2

DETAILS = (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo)


def connect():
    url = urlsplit(os.environ.get("INFLOW_GRPC_URL", "http://127.0.0.1:50051"))
    if url.scheme == "https":
        return grpc.secure_channel(url.netloc, grpc.ssl_channel_credentials())
    return grpc.insecure_channel(url.netloc)


def details_of(error):
    """The details of a failed call, by the names of their types."""
    found = {}
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        for packed in status_pb2.Status.FromString(value).details:
            for kind in DETAILS:
                if packed.Is(kind.DESCRIPTOR):
                    found[kind.DESCRIPTOR.name] = kind.FromString(packed.value)
    return found


def run(business_id, reference, email, session_id):
    call = {"metadata": [("authorization", f"Bearer {os.environ['INFLOW_TOKEN']}")], "timeout": 30}
    with connect() as channel:
        accounts = account_service_pb2_grpc.AccountServiceStub(channel)
        transactions = transaction_service_pb2_grpc.TransactionServiceStub(channel)
        # A repeat with the same reference returns the same account.
        account = accounts.CreateAccount(
            account_service_pb2.CreateAccountRequest(
                business_id=business_id,
                reference=reference,
                bank=bank_pb2.BANK_9PSB,
                first_name="Ada",
                last_name="Obi",
                email=email,
                phone="08012345678",
            ),
            **call,
        ).account
        print("account", account.account_number, account.account_name)
        # A repeat with the same session id records nothing more: its outcome is DUPLICATE.
        answer = transactions.RecordPayment(
            transaction_service_pb2.RecordPaymentRequest(
                bank=bank_pb2.BANK_9PSB,
                account_number=account.account_number,
                session_id=session_id,
                amount_minor=150050,  # kobo
            ),
            **call,
        )
        outcome = transaction_service_pb2.RecordOutcome.Name(answer.outcome)
        print("payment", outcome, answer.transaction.amount_minor)


try:
    run(*sys.argv[1:])
except grpc.RpcError as error:
    print("error", error.code().name, error.details(), file=sys.stderr)
    details = details_of(error)
    if "ErrorInfo" in details:
        print("reason", details["ErrorInfo"].reason, file=sys.stderr)
    if "BadRequest" in details:
        for violation in details["BadRequest"].field_violations:
            print("field", violation.field, violation.description, file=sys.stderr)
    if "RetryInfo" in details:
        print("retry after", details["RetryInfo"].retry_delay.ToJsonString(), file=sys.stderr)
    sys.exit(1)
