import type { BankNotification, Reading } from '../bank.ts'
import { type BankFields, fieldsOf, textOf } from '../bank-fields.ts'
import { equalSecrets } from '../equal-secrets.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { plainText } from '../plain-text.ts'
import { readTransfer } from './transfer.ts'

/** Parses a notification. It is not signed, so the bank always has to confirm it. */
export function readNotification(notification: BankNotification, secret: string): Reading {
  if (!equalSecrets(notification.pathSecret, secret)) {
    return { kind: 'unauthenticated', cause: 'wrong secret in the path' }
  }
  const body = fieldsOf(parseBankJson(notification.rawBody.toString('utf8')))
  const transfer = body && fieldsOf(body['data'])
  if (!body || !transfer) return { kind: 'malformed', cause: 'not a JSON object with `data`' }
  const kind = plainText(kindOf(body), 80)
  if (kind === 'transfer') return toReading(transfer, true)
  if (kind === 'virtualAccount.transfer') return toReading(transfer, false)
  // An inward transfer of an unknown kind is reviewed, so that no money is lost.
  return textOf(transfer, 'type').toLowerCase() === 'inwards'
    ? { kind: 'malformed', cause: `inward transfer of unknown kind "${kind}"` }
    : { kind: 'ignored', cause: `unknown kind "${kind}"` }
}

/** The bank uses three names for this field. */
function kindOf(body: BankFields): string {
  return ['type', 'eventType', 'event'].map((name) => textOf(body, name)).find(Boolean) ?? ''
}

function toReading(fields: BankFields, directed: boolean): Reading {
  const transfer = readTransfer(fields, directed)
  switch (transfer.kind) {
    case 'paid':
      return { kind: 'payment', payment: transfer.payment, bound: false }
    case 'reversed':
      return { kind: 'reversal', payment: transfer.payment, bound: false }
    case 'outward':
      return { kind: 'ignored', cause: 'outward transfer' }
    case 'pending':
    case 'failed':
      return { kind: 'ignored', cause: `status ${transfer.status}` }
    case 'malformed':
      return transfer
  }
}
