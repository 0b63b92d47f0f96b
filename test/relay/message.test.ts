import { fromBinary, fromJsonString } from '@bufbuild/protobuf'
import { expect, test } from 'vitest'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { toEventMessage } from '../../src/events/message.ts'
import { readLog } from '../../src/events/read-log.ts'
import { toMessage } from '../../src/relay/message.ts'
import { sequence } from '../support/events.ts'
import { useService } from '../support/service.ts'

const service = useService()

test('a message has what a subscriber gets, in either format', async () => {
  const { key } = await service.business()
  const opened = await service.post('generateVirtualAccount/', key, {
    ...{ reference: 'order-1', email: 'ada@example.com', phone: '08012345678' },
    ...{ firstName: 'Ada', lastName: 'Obi', bank: '9PSB' },
  })
  const accountNumber = opened.body.data.account[0].account_number
  await service.client(SandboxService).simulateTransfer({ accountNumber, amountMinor: 100n })
  const { durablePool } = service.database
  await sequence(durablePool)
  const { entries } = await readLog(durablePool, 1n, 100)
  expect(entries.map(({ kind }) => kind)).toEqual(['ACCOUNT_CREATED', 'PAYMENT_NOTIFICATION'])
  for (const entry of entries) {
    const expected = toEventMessage(entry, 3)
    expect(fromBinary(EventSchema, toMessage(entry, 3, 'protobuf').body)).toEqual(expected)
    const json = new TextDecoder().decode(toMessage(entry, 3, 'json').body)
    expect(fromJsonString(EventSchema, json)).toEqual(expected)
  }
})
