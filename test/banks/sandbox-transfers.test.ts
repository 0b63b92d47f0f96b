import { Pool } from 'pg'
import { expect, test } from 'vitest'
import { nuban } from '../../src/banks/nuban.ts'
import { createSandboxBank, MAGIC_ACCOUNTS } from '../../src/banks/sandbox.ts'
import type { TransferOrder } from '../../src/banks/transfer.ts'
import { AMOUNT_MINOR_MAX } from '../../src/core/money.ts'
import { signal } from './fixture.ts'
import { transferOrder } from './transfer-guarantees.ts'

/** Transfers need no database. */
const pool = new Pool()

/** A sandbox with a clock that the test moves. */
function sandbox() {
  const clock = { nowMs: 1_800_000_000_000, now: () => clock.nowMs }
  const start = () => {
    const { transfers } = createSandboxBank(pool, clock)
    if (!transfers) throw new Error('no transfers')
    return transfers
  }
  const pass = (seconds: number) => {
    clock.nowMs += seconds * 1_000
  }
  return { transfers: start(), restart: start, pass }
}

const orderTo = (kind: keyof typeof MAGIC_ACCOUNTS, lastDigit = '0'): TransferOrder => {
  const accountNumber = `${MAGIC_ACCOUNTS[kind]}${lastDigit}`
  return transferOrder({ beneficiary: { ...transferOrder().beneficiary, accountNumber } })
}

test('a transfer is paid at once, with a session id that stays the same', async () => {
  const { transfers, restart } = sandbox()
  const order = transferOrder()
  const paid = { kind: 'paid', sessionId: expect.stringMatching(/^999999\d{24}$/) }
  const sent = await transfers.send(order, signal)
  expect(sent).toEqual(paid)
  expect(await transfers.find(order, signal)).toEqual(sent)
  expect(await restart().find(order, signal)).toEqual(sent)
  expect(await transfers.send(order, signal)).toEqual(sent)
  expect(await transfers.send(transferOrder(), signal)).not.toEqual(sent)
})

test('an account always has the same holder', async () => {
  const { transfers, restart } = sandbox()
  const account = { bankCode: '000013', accountNumber: nuban('058', 12_345_678) }
  const found = await transfers.enquireName(account, signal)
  expect(found).toEqual({
    kind: 'found',
    accountName: expect.stringMatching(/^[A-Z]+ [A-Z]+ [A-Z]+$/),
    enquiryReference: '',
  })
  expect(await restart().enquireName(account, signal)).toEqual(found)
})

test('the float never ends', async () => {
  const { transfers } = sandbox()
  const reading = await transfers.readFloat?.(signal)
  expect(reading?.kind === 'read' && reading.availableMinor >= AMOUNT_MINOR_MAX).toBe(true)
  await transfers.send(transferOrder(), signal)
  expect(await transfers.readFloat?.(signal)).toEqual(reading)
})

test.each(['paysLate', 'timesOut'] as const)('%s is paid after five seconds', async (kind) => {
  const { transfers, pass, restart } = sandbox()
  const order = orderTo(kind)
  const open = kind === 'paysLate' ? ['pending', 'pending'] : ['unknown', 'not found']
  expect((await transfers.send(order, signal)).kind).toBe(open[0])
  pass(4)
  expect((await transfers.find(order, signal)).kind).toBe(open[1])
  pass(1)
  expect((await transfers.find(order, signal)).kind).toBe('paid')
  expect((await restart().find(order, signal)).kind).toBe('paid')
  expect(transfers.consistencyMs).toBeGreaterThan(5_000)
})

test.each(['0', '7'])('getsLost is never found, with the last digit %s', async (lastDigit) => {
  const { transfers, pass } = sandbox()
  const order = orderTo('getsLost', lastDigit)
  expect((await transfers.send(order, signal)).kind).toBe('unknown')
  pass(86_400)
  expect((await transfers.find(order, signal)).kind).toBe('not found')
})

test.each(['rejects', 'isUnknown'] as const)('%s fails for good', async (kind) => {
  const { transfers } = sandbox()
  const order = orderTo(kind)
  const failed = { kind: 'failed', reason: 'beneficiary_rejected' }
  expect(await transfers.send(order, signal)).toMatchObject(failed)
  expect(await transfers.find(order, signal)).toMatchObject(failed)
  const enquiry = await transfers.enquireName(order.beneficiary, signal)
  expect(enquiry.kind).toBe(kind === 'isUnknown' ? 'not found' : 'found')
})

test('returns is paid, and sent back after a minute', async () => {
  const { transfers, pass, restart } = sandbox()
  const order = orderTo('returns')
  expect((await transfers.send(order, signal)).kind).toBe('paid')
  pass(59)
  expect((await transfers.find(order, signal)).kind).toBe('paid')
  pass(1)
  expect((await transfers.find(order, signal)).kind).toBe('returned')
  expect((await restart().find(order, signal)).kind).toBe('returned')
})
