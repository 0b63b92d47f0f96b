import { expect, test } from 'vitest'
import type { BankPayment, LiveConnector, Requery } from '../../src/banks/bank.ts'
import { createAssignSession } from '../../src/notifications/payment-sessions.ts'
import {
  type ProcessDependencies,
  processNotification,
  type ReversePayment,
} from '../../src/notifications/process-notification.ts'
import { useDatabase } from '../support/database.ts'
import { createTestRuntime } from '../support/runtime.ts'

const db = useDatabase()
const clock = { now: () => 1_000_000 }

const PAYMENT: BankPayment = {
  bankKey: 'order-9',
  sessionId: 'order-9',
  accountNumber: '3000000001',
  amountMinor: 100n,
  paidAtMs: undefined,
  payer: { name: '', accountNumber: '', bankCode: '', bankName: '' },
  narration: '',
}

const records = () => Promise.reject(new Error('a reversal records nothing'))

/** Processes a reversal with the given response to its requery. */
function processReversal(
  response: Requery['kind'],
  reversePayment: ReversePayment | undefined,
  tries = 0,
  receivedAtMs = -3 * 86_400_000,
) {
  const requery = async () =>
    ({ kind: response, payment: PAYMENT, cause: 'the given response' }) as Requery
  const connector = { requery } as unknown as LiveConnector
  const dependencies: ProcessDependencies = {
    assignSession: records,
    isReturned: records,
    recordPayment: records,
    reversePayment,
  }
  return processNotification(createTestRuntime(db.database, { clock }), dependencies, {
    bank: 'PALMPAY',
    served: { connector, callTimeoutMs: 10_000, allowedCidrs: [], requery: true },
    reading: { kind: 'reversal', payment: PAYMENT, bound: true },
    receivedAtMs,
    recordedBy: 'notification',
    tries,
  })
}

test('reverses the payment under the session id with which it was recorded', async () => {
  const assignSession = createAssignSession(createTestRuntime(db.database, { clock }))
  await assignSession({ bank: 'PALMPAY', bankKey: 'order-9', sessionId: 'SESSION' })
  const reversed: string[][] = []
  const reverse: ReversePayment = async (...call) => {
    reversed.push(call)
    return reversed.length === 1 ? 'reversed' : 'already reversed'
  }
  expect(await processReversal('reversed', reverse)).toMatchObject({
    state: 'PROCESSED',
    outcome: 'RECORDED',
  })
  expect(await processReversal('reversed', reverse)).toMatchObject({
    state: 'PROCESSED',
    outcome: 'DUPLICATE',
  })
  expect(reversed[0]).toEqual(['PALMPAY', 'SESSION', expect.any(String)])
})

test('queues a reversal for manual review if the payment is not recorded or cannot be reversed', async () => {
  const none: ReversePayment = async () => 'not recorded'
  expect(await processReversal('reversed', none)).toMatchObject({
    state: 'MANUAL_REVIEW',
    outcome: 'MANUAL_REVIEW',
  })
  expect(await processReversal('reversed', undefined)).toMatchObject({
    state: 'MANUAL_REVIEW',
    outcome: 'MANUAL_REVIEW',
  })
})

test('retries an unconfirmed reversal for two days', async () => {
  const never: ReversePayment = () => Promise.reject(new Error('not to be called'))
  let nowMs = 1_000_000
  for (let tries = 0; tries < 54; tries++) {
    const processed = await processReversal('confirmed', never, tries)
    expect(processed).toMatchObject({ state: 'PENDING', outcome: 'RETRY' })
    nowMs += processed.nextTryAtMs! - 1_000_000
  }
  expect(nowMs).toBeGreaterThan(2 * 86_400_000 - 8 * 3_600_000)
  expect(await processReversal('unknown', never, 54)).toMatchObject({
    state: 'MANUAL_REVIEW',
    outcome: 'MANUAL_REVIEW',
  })
  // The bank repeats its notification at once.
  const repeated = await processReversal('unknown', never, 200, 1_000_000)
  expect(repeated).toMatchObject({ state: 'PENDING', outcome: 'RETRY' })
  const denied = await processReversal('denied', never, 200, 1_000_000)
  expect(denied).toMatchObject({ state: 'PENDING', outcome: 'UNCONFIRMED' })
  expect(await processReversal('denied', never, 0)).toMatchObject({
    state: 'PENDING',
    outcome: 'UNCONFIRMED',
  })
  expect(await processReversal('denied', never, 8)).toMatchObject({
    state: 'PROCESSED',
    outcome: 'UNCONFIRMED',
  })
})
