"""Opens a virtual account over gRPC, and records a payment into it.

    INFLOW_TOKEN=… python3 payments.py <business id> <reference> <e-mail> <session id>
"""

import sys

import grpc
from inflow.account.v1.account_service_pb2 import CreateAccountRequest
from inflow.account.v1.account_service_pb2_grpc import AccountServiceStub
from inflow.transaction.v1.transaction_service_pb2 import RecordOutcome, RecordPaymentRequest
from inflow.transaction.v1.transaction_service_pb2_grpc import TransactionServiceStub
from inflow.type.v1.bank_pb2 import BANK_9PSB
from inflow_grpc import METADATA, connect, details_of

CALL = {"metadata": METADATA, "timeout": 30}


def run(channel, business_id, reference, email, session_id):
    # A repeat with the same reference returns the same account.
    request = CreateAccountRequest(business_id=business_id, reference=reference, bank=BANK_9PSB)
    request.first_name, request.last_name = "Ada", "Obi"
    request.email, request.phone = email, "08012345678"
    account = AccountServiceStub(channel).CreateAccount(request, **CALL).account
    print("account", account.account_number, account.account_name)
    # A repeat with the same session id records nothing more: its outcome is DUPLICATE.
    payment = RecordPaymentRequest(bank=BANK_9PSB, account_number=account.account_number)
    payment.session_id, payment.amount_minor = session_id, 150050  # kobo
    recorded = TransactionServiceStub(channel).RecordPayment(payment, **CALL)
    print("payment", RecordOutcome.Name(recorded.outcome), recorded.transaction.amount_minor)


try:
    with connect() as channel:
        run(channel, *sys.argv[1:])
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
