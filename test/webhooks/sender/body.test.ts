import { expect, test } from 'vitest'
import { readConfig } from '../../../src/config/config.ts'
import { createToEventBody, encodeEventBody } from '../../../src/webhooks/sender/body.ts'
import { paymentEvent, type TestEvent, timeText } from '../fixture.ts'

const toEventBody = createToEventBody(timeText, readConfig({}).bankNames)

function entryOf(event: TestEvent) {
  return {
    position: 7n,
    eventId: event.id,
    businessId: event.businessId,
    live: event.live ?? true,
    businessSequence: 42n,
    epoch: 1,
    kind: event.kind,
    occurredAtMs: Date.UTC(2026, 10, 20, 9, 0, 0),
    payload: event.payload,
  }
}

test('the body of a payment matches the documented format exactly', () => {
  const event = paymentEvent('biz_1')
  expect(encodeEventBody(toEventBody(entryOf(event)))).toBe(
    '{"event":"PAYMENT_NOTIFICATION","data":{"type":"RESERVED_ACCOUNT_TRANSACTION",' +
      '"reference":"R-ACDEFGHJKMNPQRTWXY34","merchant_reference":"order-1",' +
      '"transaction_ref":"090286261120100000123456789012",' +
      '"wiaxy_ref":"090286261120100000123456789012",' +
      '"amount":"1500.50","status":"SUCCESS","method":"bank_transfer",' +
      '"created_at":"2026-11-20 10:00:00",' +
      '"account":{"account_number":"5010000001","account_name":"Test/Ada Obi",' +
      '"bank_name":"9 Payment Service Bank","bank_id":"9PSB",' +
      '"created_at":"2026-11-20 09:00:00"},' +
      '"payer":{"account_number":"0123456789","account_name":"Ngozi Ệkwueme",' +
      '"bank_code":"000013","bank_name":"GTBank"},' +
      `"event_id":"${event.id}","sequence":42,"live":true,"epoch":1}}`,
  )
})

test.each([
  [1n, '0.01'],
  [100n, '1.00'],
  [1_000_000_000_000_000n, '10000000000000.00'],
])('%d kobo are encoded as %s', (amountMinor, text) => {
  const body = toEventBody(entryOf(paymentEvent('biz_1', amountMinor)))
  expect(JSON.parse(encodeEventBody(body)).data.amount).toBe(text)
})
