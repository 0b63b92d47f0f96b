import type { BankNotification, Reading } from '../bank.ts'
import { type BankFields, fieldsOf, textOf } from '../bank-fields.ts'
import { equalSecrets } from '../equal-secrets.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { plainText } from '../plain-text.ts'
import { readTransfer } from './transfer.ts'

/** Reads a notification. Nothing signs it: it is a hint, and the bank has to confirm it. */
export function readNotification(notification: BankNotification, secret: string): Reading {
  if (!equalSecrets(notification.pathSecret, secret)) {
    return { kind: 'forged', cause: 'the path has another secret' }
  }
  const body = fieldsOf(parseBankJson(notification.rawBody.toString('utf8')))
  const transfer = body && fieldsOf(body['data'])
  if (!body || !transfer) return { kind: 'unreadable', cause: 'not an object with data' }
  const kind = plainText(kindOf(body), 80)
  if (kind === 'transfer') return readingOf(transfer, true)
  if (kind === 'virtualAccount.transfer') return readingOf(transfer, false)
  // A kind nobody knows is no reason to lose money that came in.
  return textOf(transfer, 'type').toLowerCase() === 'inwards'
    ? { kind: 'unreadable', cause: `an inward transfer of kind "${kind}"` }
    : { kind: 'noise', cause: `kind "${kind}"` }
}

/** It is spelled in three ways. */
function kindOf(body: BankFields): string {
  return ['type', 'eventType', 'event'].map((name) => textOf(body, name)).find(Boolean) ?? ''
}

function readingOf(fields: BankFields, directed: boolean): Reading {
  const transfer = readTransfer(fields, directed)
  switch (transfer.kind) {
    case 'paid':
      return { kind: 'payment', payment: transfer.payment, bound: false }
    case 'reversed':
      return { kind: 'reversal', payment: transfer.payment, bound: false }
    case 'outward':
      return { kind: 'noise', cause: 'an outward transfer' }
    case 'open':
    case 'failed':
      return { kind: 'noise', cause: `status ${transfer.status}` }
    case 'unreadable':
      return transfer
  }
}
