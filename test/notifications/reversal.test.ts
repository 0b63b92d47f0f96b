import { expect, test } from 'vitest'
import type { BankPayment, LiveConnector, Requery } from '../../src/banks/bank.ts'
import {
  look,
  type ProcessDependencies,
  type ReversePayment,
} from '../../src/notifications/process-notification.ts'
import { assignSession } from '../../src/notifications/store.ts'
import { useDatabase } from '../support/database.ts'

const db = useDatabase()

const PAYMENT: BankPayment = {
  bankKey: 'order-9',
  sessionId: 'order-9',
  accountNumber: '3000000001',
  amountMinor: 100n,
  paidAtMs: undefined,
  payer: { name: '', accountNumber: '', bankCode: '', bankName: '' },
  narration: '',
}

/** A look at a reversal, which the bank answers for as told. */
function lookAt(answer: Requery['kind'], reversePayment: ReversePayment | undefined, tries = 0) {
  const requery = async () => ({ kind: answer, payment: PAYMENT, cause: 'as told' }) as Requery
  const connector = { requery } as unknown as LiveConnector
  const dependencies: ProcessDependencies = {
    pool: db.database.pool,
    clock: { now: () => 1_000_000 },
    recordPayment: () => Promise.reject(new Error('a reversal records nothing')),
    reversePayment,
  }
  return look(dependencies, {
    bank: 'PALMPAY',
    served: { connector, allowedCidrs: [], requery: true },
    reading: { kind: 'reversal', payment: PAYMENT, bound: true },
    receivedAtMs: 0,
    tries,
  })
}

test('a reversal is made for the session under which the payment was recorded', async () => {
  await assignSession(db.database.pool, 'PALMPAY', { bankKey: 'order-9', sessionId: 'SESSION' }, 0)
  const reversed: string[][] = []
  const reverse: ReversePayment = async (...call) => {
    reversed.push(call)
    return reversed.length === 1 ? 'reversed' : 'reversed before'
  }
  expect(await lookAt('reversed', reverse)).toMatchObject({ state: 'DONE', outcome: 'recorded' })
  expect(await lookAt('reversed', reverse)).toMatchObject({ state: 'DONE', outcome: 'duplicate' })
  expect(reversed[0]).toEqual(['PALMPAY', 'SESSION', expect.any(String)])
})

test('one of a payment that is not recorded, or that nobody can make, is held', async () => {
  const none: ReversePayment = async () => 'not recorded'
  expect(await lookAt('reversed', none)).toMatchObject({ state: 'HELD', outcome: 'held' })
  expect(await lookAt('reversed', undefined)).toMatchObject({ state: 'HELD', outcome: 'held' })
})

test('one that the bank does not confirm is not made, and is looked at again for two days', async () => {
  const never: ReversePayment = () => Promise.reject(new Error('not to be called'))
  let nowMs = 1_000_000
  for (let tries = 0; tries < 54; tries++) {
    const looked = await lookAt('confirmed', never, tries)
    expect(looked).toMatchObject({ state: 'OPEN', outcome: 'try again' })
    nowMs += looked.nextTryAtMs! - 1_000_000
  }
  expect(nowMs).toBeGreaterThan(2 * 86_400_000 - 8 * 3_600_000)
  expect(await lookAt('unknown', never, 54)).toMatchObject({ state: 'HELD', outcome: 'held' })
  expect(await lookAt('denied', never, 0)).toMatchObject({ state: 'OPEN', outcome: 'denied' })
  expect(await lookAt('denied', never, 8)).toMatchObject({ state: 'DONE', outcome: 'denied' })
})
