import { describe, expect, test } from 'vitest'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { ConfigError, readConfig } from '../../../src/config/config.ts'
import { useService } from '../../support/service.ts'

function faultsOf(environment: NodeJS.ProcessEnv): readonly string[] {
  try {
    readConfig(environment)
  } catch (error) {
    if (error instanceof ConfigError) return error.faults
    throw error
  }
  return []
}

describe('the webhook settings', () => {
  test('have defaults', () => {
    expect(readConfig({})).toMatchObject({
      deliveryRetentionDays: 30,
      webhookAllowedCidrs: [],
      webhookLeaseMs: 60_000,
    })
  })

  test('are read', () => {
    const environment = {
      DELIVERY_RETENTION_DAYS: '7',
      WEBHOOK_ALLOWED_CIDRS: '10.1.0.0/16, fd00:1::/32',
      WEBHOOK_LEASE_SECONDS: '2',
    }
    expect(readConfig(environment)).toMatchObject({
      deliveryRetentionDays: 7,
      webhookAllowedCidrs: ['10.1.0.0/16', 'fd00:1::/32'],
      webhookLeaseMs: 2_000,
    })
  })

  test.each([
    ['DELIVERY_RETENTION_DAYS', '0'],
    ['WEBHOOK_ALLOWED_CIDRS', '10.0.0.0/8,'],
    ['WEBHOOK_ALLOWED_CIDRS', '10.0.0.0/33'],
    ['WEBHOOK_ALLOWED_CIDRS', 'intranet.example/8'],
    ['WEBHOOK_LEASE_SECONDS', '1'],
    ['WEBHOOK_LEASE_SECONDS', '1e2'],
  ])('reject %s="%s" at startup', (name, text) => {
    const faults = faultsOf({ [name]: text })
    expect(faults).toHaveLength(1)
    expect(faults[0]).toMatch(new RegExp(`^${name} must be `))
  })
})

describe('WEBHOOK_ALLOWED_CIDRS', () => {
  const service = useService({ WEBHOOK_ALLOWED_CIDRS: '10.1.0.0/16' })

  test('allows its ranges, and no others', async () => {
    const { id: businessId } = await service.business()
    const create = (url: string) =>
      service.client(WebhookService).createEndpoint({ businessId, url })
    expect((await create('https://10.1.2.3/hook')).endpoint?.url).toBe('https://10.1.2.3/hook')
    await expect(create('https://10.2.2.3/hook')).rejects.toThrow('Invalid request: url')
  })
})
