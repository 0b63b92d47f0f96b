import { describe, expect, onTestFinished, test } from 'vitest'
import { createNotifier } from '../../src/banks/fake/notifier.ts'
import { startReceiver } from '../support/receiver.ts'
import { ninePsbFixture } from './9psb-fixture.ts'
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

test('only this machine is notified of payments', () => {
  const options = { headers: {}, retryDelaysMs: [], classify: () => 'retry' as const }
  for (const url of ['http://bank.example/n', 'http://10.0.0.1/n', 'http://127.0.0.1.example/']) {
    expect(() => createNotifier({ ...options, url })).toThrow(
      'only notifies addresses of this machine',
    )
  }
})
