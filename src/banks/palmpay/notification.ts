import type { KeyObject } from 'node:crypto'
import type { Reading } from '../bank.ts'
import { type BankFields, fieldsOf, textOf } from '../bank-fields.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { readOrder } from './order.ts'
import { isSigned, isUnambiguous, type SignedFields } from './signature.ts'

export interface NotificationRules {
  /** Whose notifications are meant for us: PalmPay signs those of all merchants with one key. */
  readonly appId: string
  readonly publicKey: KeyObject
}

/** Verifies and reads a notification. */
export function readNotification(rawBody: Buffer, rules: NotificationRules): Reading {
  const body = fieldsOf(parseBankJson(rawBody.toString('utf8')))
  if (body === undefined) return { kind: 'forged', cause: 'the body is not a JSON object' }
  const { sign, ...fields } = body
  if (typeof sign !== 'string' || sign === '') return { kind: 'forged', cause: 'no signature' }
  const signed = signedFields(fields)
  if (!isSigned(signed, sign, rules.publicKey)) {
    return { kind: 'forged', cause: 'the signature does not fit' }
  }
  const appId = textOf(fields, 'appId')
  if (appId !== '' && appId !== rules.appId) {
    return { kind: 'forged', cause: 'for another app' }
  }
  const order = readOrder(fields)
  if (order.kind === 'other') return { kind: 'noise', cause: order.cause }
  if (order.kind === 'unreadable') return order
  return { kind: 'payment', payment: order.payment, bound: isUnambiguous(signed) }
}

/** Numbers as their tokens; null and what has no one text (lists, objects) as JSON writes it. */
function signedFields(fields: BankFields): SignedFields {
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([, value]) => value !== null)
      .map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  )
}
