import { getPath } from '../bank-fields.ts'
import { parseBankJson } from '../http/bank-json.ts'
import type { FakeRequest, FakeResponse } from './loopback-server.ts'

/**
 * Serves a developer's payment into an account of a fake bank:
 * `{"account_number":"…","amount":"1500.50"}`. Responds without waiting for the notification.
 */
export function payByHand<Transaction extends { readonly sessionId: string }>(
  { body }: FakeRequest,
  receive: (accountNumber: string, amount: string) => Transaction,
  notify: (transaction: Transaction) => Promise<unknown>,
): FakeResponse {
  const fields = parseBankJson(body)
  try {
    const transaction = receive(getPath(fields, 'account_number'), getPath(fields, 'amount'))
    void notify(transaction)
    return { status: 200, body: JSON.stringify({ session_id: transaction.sessionId }) }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return { status: 400, body: JSON.stringify({ message: error.message }) }
  }
}
