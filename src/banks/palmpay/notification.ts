import type { KeyObject } from 'node:crypto'
import type { Reading } from '../bank.ts'
import { type BankFields, fieldsOf, textOf } from '../bank-fields.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { readOrder } from './order.ts'
import { isSigned, isUnambiguous, type SignedFields } from './signature.ts'

export interface NotificationRules {
  /** Our app: PalmPay signs the notifications of all merchants with the same key. */
  readonly appId: string
  readonly publicKey: KeyObject
}

/** Verifies and parses a notification. */
export function readNotification(rawBody: Buffer, rules: NotificationRules): Reading {
  const body = fieldsOf(parseBankJson(rawBody.toString('utf8')))
  if (body === undefined) return { kind: 'unauthenticated', cause: 'the body is not a JSON object' }
  const { sign, ...fields } = body
  if (typeof sign !== 'string' || sign === '')
    return { kind: 'unauthenticated', cause: 'no signature' }
  const signed = signedFields(fields)
  if (!isSigned(signed, sign, rules.publicKey)) {
    return { kind: 'unauthenticated', cause: 'the signature is invalid' }
  }
  const appId = textOf(fields, 'appId')
  if (appId !== '' && appId !== rules.appId) {
    return { kind: 'unauthenticated', cause: 'for another app' }
  }
  const order = readOrder(fields)
  if (order.kind === 'other') return { kind: 'ignored', cause: order.cause }
  if (order.kind === 'malformed') return order
  return { kind: 'payment', payment: order.payment, bound: isUnambiguous(signed) }
}

/** Drops null fields; numbers are their tokens, lists and objects are signed as JSON. */
function signedFields(fields: BankFields): SignedFields {
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([, value]) => value !== null)
      .map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  )
}
