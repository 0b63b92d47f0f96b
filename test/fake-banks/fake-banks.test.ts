import { describe, expect, onTestFinished, test } from 'vitest'
import { createCourier } from '../../src/fake-banks/courier.ts'
import { createFaults } from '../../src/fake-banks/faults.ts'
import { aNinePsb } from '../banks/9psb-scene.ts'
import { anOrder, signal } from '../banks/live.ts'
import { aProvidus } from '../banks/providus-scene.ts'
import { startReceiver } from '../support/receiver.ts'

async function aReceiver(body: string) {
  const receiver = await startReceiver()
  onTestFinished(() => receiver.close())
  receiver.answer({ status: 200, body })
  return receiver
}

const post = (url: string, body: string) => fetch(url, { method: 'POST', body })

describe('a person pays by hand', () => {
  test('into 9PSB', async () => {
    const receiver = await aReceiver('{"code":"00"}')
    const { bank } = await aNinePsb({ notify: receiver.url })
    const { accountNumber } = bank.openAccount('Ada Obi')
    const asked = JSON.stringify({ account_number: accountNumber, amount: '1500.50' })
    const answer = await post(`${bank.url}/fake/pay`, asked)
    const { session_id } = (await answer.json()) as { session_id: string }
    expect(session_id).toMatch(/^\d{30}$/)
    expect(bank.transactions).toMatchObject([{ sessionId: session_id, amountMinor: 150_050n }])
    expect((await receiver.next()).rawBody).toContain('"amount":1500.5,')
  })

  test('into Providus', async () => {
    const receiver = await aReceiver('{"responseCode":"00"}')
    const { bank } = await aProvidus({ notify: receiver.url })
    const { accountNumber } = bank.openAccount('Ada Obi')
    const asked = `{"account_number":"${accountNumber}","amount":1500.50}`
    expect((await post(`${bank.url}/fake/pay`, asked)).status).toBe(200)
    expect((await receiver.next()).rawBody).toContain('"transactionAmount":"1500.5"')
  })

  test.each(['{}', 'x', '{"account_number":"0000000000","amount":"1"}'])(
    'and is told what is wrong with %s',
    async (body) => {
      for (const { bank } of [await aNinePsb(), await aProvidus()]) {
        const answer = await post(`${bank.url}/fake/pay`, body)
        expect([answer.status, await answer.text()]).toEqual([
          400,
          expect.stringContaining('account'),
        ])
        expect(bank.transactions).toHaveLength(0)
      }
    },
  )
})

test('numbers of a later run are others', async () => {
  const numbers = new Set<string>()
  for (const nowMs of [Date.UTC(2026, 10, 21), Date.UTC(2026, 10, 21, 0, 0, 1)]) {
    const { bank } = await aNinePsb({ clock: { now: () => nowMs } })
    for (let i = 0; i < 900; i++) numbers.add(bank.openAccount(`${i}`).accountNumber)
  }
  expect(numbers.size).toBe(1_800)
})

test('nobody but this machine is told of payments', () => {
  const courier = { headers: {}, retryDelaysMs: [], judge: () => 'again' as const }
  for (const url of ['http://bank.example/n', 'http://10.0.0.1/n', 'http://127.0.0.1.example/']) {
    expect(() => createCourier({ ...courier, url })).toThrow('of this machine alone')
  }
})

test('what is under way ends with the bank', async () => {
  const receiver = await aReceiver('')
  receiver.answer('hang')
  const { bank } = await aProvidus({ notify: receiver.url, retryDelaysMs: [60_000] })
  const told = bank.pay(bank.openAccount('Ada Obi').accountNumber, '1')
  await receiver.next()
  await bank.close()
  expect(await told).toMatchObject({ acknowledged: false })
})

test('faults come in the order in which they were asked for, and are bounded', () => {
  const faults = createFaults<'create', 'a' | 'b'>()
  faults.add('create', 'a')
  faults.add('create', 'b', 2)
  expect([1, 2, 3, 4].map(() => faults.take('create'))).toEqual(['a', 'b', 'b', undefined])
  expect(() => faults.add('create', 'a', 1_000_000)).toThrow(RangeError)
})

test('a body that is no JSON, or too large, harms nothing', async () => {
  const { bank, connector } = await aNinePsb()
  expect((await post(`${bank.url}/authenticate`, 'x'.repeat(100_000))).status).toBe(413)
  expect((await post(`${bank.url}/create`, 'x')).status).toBe(200)
  expect((await fetch(`${bank.url}/create`)).status).toBe(404)
  expect((await connector.openAccount(anOrder(), signal)).kind).toBe('opened')
})

test('many payments at once are told of, each once', async () => {
  const receiver = await aReceiver('{"code":"00","responseCode":"00"}')
  const { bank } = await aNinePsb({ notify: receiver.url })
  const { accountNumber } = bank.openAccount('Ada Obi')
  const received = Array.from({ length: 10_000 }, () => bank.receive(accountNumber, '1'))
  expect(new Set(received.map(({ sessionId }) => sessionId)).size).toBe(10_000)
  const told = await Promise.all(received.slice(0, 500).map((payment) => bank.notify(payment)))
  expect(told.every(({ acknowledged }) => acknowledged)).toBe(true)
  expect(receiver.requests).toHaveLength(500)
})
