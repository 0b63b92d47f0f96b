import { expect, test } from 'vitest'
import { SandboxService } from '../../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { useSharedService } from '../../support/service.ts'

const service = useSharedService()

test('an account is created, money arrives, and the business looks the payment up', async () => {
  const { key } = await service.business()
  const created = await service.post('generateVirtualAccount/', key, {
    reference: 'order-1',
    email: 'ada@example.com',
    phone: '08012345678',
    firstName: 'Ada',
    lastName: 'Obi',
    bank: '9PSB',
  })
  expect(created.status).toBe(200)
  const { reference, account } = created.body.data
  const { sessionId } = await service.client(SandboxService).simulateTransfer({
    accountNumber: account[0].account_number,
    amountMinor: 150_050n,
  })
  const found = await service.post('getTransaction/', key, { session_id: sessionId })
  expect(found.body.data).toMatchObject({ reference, session_id: sessionId, amount: 1500.5 })
})
