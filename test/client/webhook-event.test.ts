import { describe, expect, expectTypeOf, test } from 'vitest'
import type { WebhookPayerAccount } from '../../gen/webhook_data.ts'
import type { WebhookEvent, WebhookEventOf, WebhookKind } from '../../src/client/verify-webhook.ts'
import { createTimeText } from '../../src/core/clock.ts'
import { listEventKinds } from '../../src/webhooks/list-event-kinds.ts'

/** What a receiver does with events: the compiler checks it, and the test below runs it. */
function summaryOf(event: WebhookEvent): string {
  if (event.event === 'PAYMENT_NOTIFICATION') {
    expectTypeOf(event).toEqualTypeOf<WebhookEventOf<'PAYMENT_NOTIFICATION'>>()
    expectTypeOf(event.data.type).toEqualTypeOf<'RESERVED_ACCOUNT_TRANSACTION'>()
    expectTypeOf(event.data.amount).toEqualTypeOf<string>()
    expectTypeOf(event.data.payer).toEqualTypeOf<WebhookPayerAccount>()
    expectTypeOf(event.data.variance).toEqualTypeOf<string | undefined>()
    expectTypeOf(event.data.metadata?.['order']).toEqualTypeOf<string | undefined>()
    expectTypeOf(event.data).not.toHaveProperty('settlement')
    return event.data.amount
  }
  switch (event.event) {
    case 'PAYMENT_ACCEPTED':
      // Only for this kind is it always there.
      expectTypeOf(event.data.variance).toEqualTypeOf<string>()
      return event.data.variance
    case 'SETTLEMENT_COMPLETED':
      expectTypeOf(event.data.settlement.transaction_count).toEqualTypeOf<number>()
      return event.data.settlement.net_amount
    case 'ENDPOINT_DISABLED':
      return event.data.endpoint.disabled_reason ?? ''
    default:
      expectTypeOf(event.event).toExtend<string>()
      expectTypeOf(event.data.sequence).toEqualTypeOf<number>()
      return event.data.event_id
  }
}

describe('the kind of an event determines the type of its data', () => {
  const kinds = listEventKinds(createTimeText('Africa/Lagos'), {
    '9PSB': '9PSB',
    SAFEHAVEN: 'Safe Haven',
    PROVIDUS: 'Providus',
    PALMPAY: 'PalmPay',
  })
  const example = (kind: string) =>
    kinds.find((each) => each.kind === kind)?.example as unknown as WebhookEvent

  test('of the examples of the catalogue', () => {
    expect(summaryOf(example('PAYMENT_NOTIFICATION'))).toBe('1500.50')
    expect(summaryOf(example('PAYMENT_ACCEPTED'))).toBe('UNDERPAID')
    expect(summaryOf(example('SETTLEMENT_COMPLETED'))).toBe('4479.00')
    expect(summaryOf(example('ENDPOINT_DISABLED'))).toBe('FAILING')
  })

  test('of a kind that a later release adds, only of what all kinds have', () => {
    const later = {
      event: 'REFUND_REQUESTED',
      data: { event_id: 'evt_9', sequence: 3, refund: {} },
    }
    expect(summaryOf(later as unknown as WebhookEvent)).toBe('evt_9')
  })

  test('the kinds are those that endpoints are sent', () => {
    expectTypeOf<'ENDPOINT_TEST'>().toExtend<WebhookKind>()
    expectTypeOf<'PAYMENT_UNMATCHED'>().not.toExtend<WebhookKind>()
  })
})
