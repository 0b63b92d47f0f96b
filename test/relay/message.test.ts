import { fromBinary, fromJsonString } from '@bufbuild/protobuf'
import { expect, test } from 'vitest'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { toEventMessage } from '../../src/events/message.ts'
import { toMessage } from '../../src/relay/message.ts'
import { accountEvent, paymentEvent } from '../webhooks/fixture.ts'

test('a message has what a subscriber gets, in either format', () => {
  for (const { id, ...event } of [accountEvent('biz_1'), paymentEvent('biz_1')]) {
    const entry = {
      ...event,
      eventId: id,
      position: 7n,
      businessSequence: 3n,
      epoch: 2,
      live: false,
      occurredAtMs: Date.UTC(2026, 10, 20),
    }
    const expected = toEventMessage(entry, 3)
    const binary = toMessage(entry, 3, 'protobuf')
    expect(fromBinary(EventSchema, binary.body)).toEqual(expected)
    const json = toMessage(entry, 3, 'json')
    expect(fromJsonString(EventSchema, new TextDecoder().decode(json.body))).toEqual(expected)
    expect([binary, json].map(({ contentType }) => contentType)).toEqual([
      'application/protobuf; proto=inflow.event.v1.Event',
      'application/json',
    ])
  }
})
