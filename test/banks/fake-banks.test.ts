import { describe, expect, onTestFinished, test } from 'vitest'
import { createFaults } from '../../src/banks/fake/faults.ts'
import { createNotifier } from '../../src/banks/fake/notifier.ts'
import { startReceiver } from '../support/receiver.ts'
import { ninePsbFixture } from './9psb-fixture.ts'
import { accountOrder, signal } from './fixture.ts'
import { providusFixture } from './providus-fixture.ts'

async function receiverWith(body: string) {
  const receiver = await startReceiver()
  onTestFinished(() => receiver.close())
  receiver.answer({ status: 200, body })
  return receiver
}

const post = (url: string, body: string) => fetch(url, { method: 'POST', body })

describe('paying by hand', () => {
  test('at 9PSB', async () => {
    const receiver = await receiverWith('{"code":"00"}')
    const { bank } = await ninePsbFixture({ notify: receiver.url })
    const { accountNumber } = bank.openAccount('Ada Obi')
    const request = JSON.stringify({ account_number: accountNumber, amount: '1500.50' })
    const response = await post(`${bank.url}/fake/pay`, request)
    const { session_id } = (await response.json()) as { session_id: string }
    expect(session_id).toMatch(/^\d{30}$/)
    expect(bank.transactions).toMatchObject([{ sessionId: session_id, amountMinor: 150_050n }])
    expect((await receiver.next()).rawBody).toContain('"amount":1500.5,')
  })

  test('at Providus', async () => {
    const receiver = await receiverWith('{"responseCode":"00"}')
    const { bank } = await providusFixture({ notify: receiver.url })
    const { accountNumber } = bank.openAccount('Ada Obi')
    const request = `{"account_number":"${accountNumber}","amount":1500.50}`
    expect((await post(`${bank.url}/fake/pay`, request)).status).toBe(200)
    expect((await receiver.next()).rawBody).toContain('"transactionAmount":"1500.5"')
  })

  test.each(['{}', 'x', '{"account_number":"0000000000","amount":"1"}'])(
    'reports an invalid request: %s',
    async (body) => {
      for (const { bank } of [await ninePsbFixture(), await providusFixture()]) {
        const response = await post(`${bank.url}/fake/pay`, body)
        expect([response.status, await response.text()]).toEqual([
          400,
          expect.stringContaining('account'),
        ])
        expect(bank.transactions).toHaveLength(0)
      }
    },
  )
})

test('a later run issues other numbers', async () => {
  const numbers = new Set<string>()
  for (const nowMs of [Date.UTC(2026, 10, 21), Date.UTC(2026, 10, 21, 0, 0, 1)]) {
    const { bank } = await ninePsbFixture({ clock: { now: () => nowMs } })
    for (let i = 0; i < 900; i++) numbers.add(bank.openAccount(`${i}`).accountNumber)
  }
  expect(numbers.size).toBe(1_800)
})

test('only this machine is notified of payments', () => {
  const options = { headers: {}, retryDelaysMs: [], classify: () => 'retry' as const }
  for (const url of ['http://bank.example/n', 'http://10.0.0.1/n', 'http://127.0.0.1.example/']) {
    expect(() => createNotifier({ ...options, url })).toThrow(
      'only notifies addresses of this machine',
    )
  }
})

test('closing the bank aborts its notifications', async () => {
  const receiver = await receiverWith('')
  receiver.answer('hang')
  const { bank } = await providusFixture({ notify: receiver.url, retryDelaysMs: [60_000] })
  const notified = bank.pay(bank.openAccount('Ada Obi').accountNumber, '1')
  await receiver.next()
  await bank.close()
  expect(await notified).toMatchObject({ acknowledged: false })
})

test('faults are taken in order and bounded', () => {
  const faults = createFaults<'create', 'a' | 'b'>()
  faults.add('create', 'a')
  faults.add('create', 'b', 2)
  expect([1, 2, 3, 4].map(() => faults.take('create'))).toEqual(['a', 'b', 'b', undefined])
  expect(() => faults.add('create', 'a', 1_000_000)).toThrow(RangeError)
})

test('survives bodies that are not JSON or too large', async () => {
  const { bank, connector } = await ninePsbFixture()
  expect((await post(`${bank.url}/authenticate`, 'x'.repeat(100_000))).status).toBe(413)
  expect((await post(`${bank.url}/create`, 'x')).status).toBe(200)
  expect((await fetch(`${bank.url}/create`)).status).toBe(404)
  expect((await connector.openAccount(accountOrder(), signal)).kind).toBe('opened')
})

test('notifies of many concurrent payments, each once', async () => {
  const receiver = await receiverWith('{"code":"00","responseCode":"00"}')
  const { bank } = await ninePsbFixture({ notify: receiver.url })
  const { accountNumber } = bank.openAccount('Ada Obi')
  const received = Array.from({ length: 10_000 }, () => bank.receive(accountNumber, '1'))
  expect(new Set(received.map(({ sessionId }) => sessionId)).size).toBe(10_000)
  const results = await Promise.all(received.slice(0, 500).map((payment) => bank.notify(payment)))
  expect(results.every(({ acknowledged }) => acknowledged)).toBe(true)
  expect(receiver.requests).toHaveLength(500)
})
