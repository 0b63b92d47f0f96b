import { create } from '@bufbuild/protobuf'
import { describe, expect, test } from 'vitest'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { decodeCursor } from '../../src/events/cursor.ts'
import {
  encodeEvent,
  toCheckpointItem,
  toEventItem,
  toEventMessage,
} from '../../src/events/message.ts'

type Payload = NonNullable<Parameters<typeof create<typeof EventSchema>>[1]>['payload']

const entryOf = (payload: Payload, live: boolean) => ({
  position: 7n,
  eventId: 'evt_01abcdefgh',
  businessId: 'biz_1',
  live,
  businessSequence: 42n,
  epoch: 1,
  kind: 'PAYMENT_NOTIFICATION',
  occurredAtMs: 5_000,
  payload: encodeEvent(
    create(EventSchema, {
      ...{ id: 'evt_01abcdefgh', businessId: 'biz_1', kind: 'PAYMENT_NOTIFICATION' },
      ...(payload && { payload }),
    }),
  ),
})
const transaction = { case: 'transaction', value: { id: 'txn_1' } } as const

describe('a stored event', () => {
  test.each([true, false])('states its place in the log and its mode (live: %s)', (live) => {
    const event = toEventMessage(entryOf(transaction, live), 3)
    expect(event).toMatchObject({
      id: 'evt_01abcdefgh',
      businessId: 'biz_1',
      position: 7n,
      businessSequence: 42n,
      // The epoch in which it was numbered; its cursor is of the current one.
      epoch: 1,
      live,
      payload: { case: 'transaction', value: { id: 'txn_1', live } },
    })
    expect(decodeCursor(event.cursor)).toEqual({ epoch: 3, position: 7n, tag: 'cdefgh' })
  })

  test('without a payload, or of a payload without a mode, states its mode itself', () => {
    expect(toEventMessage(entryOf(undefined, true), 3)).toMatchObject({ live: true })
    const unmatched = { case: 'unmatchedPayment', value: { id: 'unm_1' } } as const
    const event = toEventMessage(entryOf(unmatched, true), 3)
    expect(event.live).toBe(true)
    expect(event.payload.value).not.toHaveProperty('live')
  })

  test('and a checkpoint are what subscribers receive', () => {
    const entry = entryOf(transaction, true)
    expect(toEventItem(entry, 3).item).toEqual({ case: 'event', value: toEventMessage(entry, 3) })
    const place = { epoch: 2, position: 9n, tag: 'abc' }
    const { item } = toCheckpointItem(place)
    expect(item.case === 'checkpoint' && decodeCursor(item.value.cursor)).toEqual(place)
  })
})
