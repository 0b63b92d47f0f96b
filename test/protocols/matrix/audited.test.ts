import { timestampMs } from '@bufbuild/protobuf/wkt'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import type { AuditEntry } from '../../../gen/inflow/admin/v1/audit_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { DeliveryStatus } from '../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { readPolicy } from '../../../src/auth/method-policy.ts'
import { ADMIN_TOKEN, issueToken, useService } from '../../support/service.ts'
import { waitUntil } from '../../support/wait-for.ts'
import { allMethods, nameOf, oneInTurn, PROTOCOLS, protocolsOf } from './protocols.ts'
import { HAPPY, TAKE } from './rows.ts'
import { type Make, openSession, type Request, type Scene, setScene } from './scene.ts'

const service = useService()
const methods = (await allMethods()).filter((method) => readPolicy(method).credential === 'token')
const admin = () => service.client(AdminService)

let scene: Scene
let token: { id: string; secret: string }

beforeAll(async () => {
  scene = await setScene(service)
  token = await issueToken(service, ['admin'], [], 'Ada the operator')
})

afterAll(() => scene?.close())

/** Calls that change something, where the happy one repeats what was done before. */
const CHANGING: Readonly<Record<string, Make>> = {
  'BusinessService.RevokeKey': async ({ businessId }) => ({
    keyId: (await service.client(BusinessService).issueKey({ businessId })).key!.id,
  }),
  'SessionService.RevokeSession': async ({ businessId }) => ({
    sessionId: (await openSession(service, businessId)).sessionId,
  }),
  'AdminService.RevokeToken': async () => ({
    tokenId: (await admin().issueToken({ name: 'x', scopes: ['read'] })).token!.id,
  }),
  // A delivery in progress is not redelivered, so the previous one must have finished.
  'WebhookService.Redeliver': async ({ deliveryId }) => {
    const client = service.client(WebhookService)
    await waitUntil(async () => {
      const { delivery } = await client.getDelivery({ deliveryId })
      return delivery?.status === DeliveryStatus.DELIVERED
    })
    return { deliveryId }
  },
}

/** Methods that operators call. Services record payments and open accounts; operators reverse and decide payments. */
const ADMINISTRATIVE = methods.filter((method) => {
  const policy = readPolicy(method)
  const scopes = policy.credential === 'token' ? policy.scopes : []
  if (nameOf(method) === 'TransactionService.ReverseTransaction') return true
  // It hands on the rights of a token.
  if (nameOf(method) === 'SessionService.CreateSignInCode') return true
  if (/^(HeldPayment|Overview)Service$/.test(method.parent.name)) return method.idempotency !== 1
  // It changes nothing, and is too expensive for the scope read.
  if (/\.Verify(Ledger|Audit)$/.test(nameOf(method))) return false
  return (
    method.name === 'CloseAccount' ||
    method.name === 'CancelPayout' ||
    method.name === 'RefundUnmatchedPayment' ||
    method.name === 'SetAccountSplit' ||
    (method.idempotency !== 1 &&
      scopes.every((scope) => /^(admin|webhooks:write|payouts:approve)$/.test(scope)) &&
      scopes.length > 0)
  )
})
const OTHERS = methods.filter((method) => !ADMINISTRATIVE.includes(method))

async function newest(): Promise<AuditEntry> {
  return (await admin().listAuditEntries({ pageSize: 1 })).entries[0]!
}

describe('every administrative change adds one audit entry with who, what and where', () => {
  const rows = ADMINISTRATIVE.map((method) => [nameOf(method), method] as const)
  test.each(rows)('%s', async (name, method) => {
    for (const [protocol, call] of oneInTurn(protocolsOf(method), methods.indexOf(method))) {
      const request = await (CHANGING[name] ?? HAPPY[name])!(scene, `${name} ${protocol}`)
      const before = await newest()
      const sentMs = Date.now()
      const outcome = await call(service, {
        method,
        request,
        authorization: `Bearer ${token.secret}`,
      })
      expect(outcome).toHaveProperty('messages')
      const entry = await newest()
      expect(entry.number).toBe(before.number + 1n)
      expect(entry.previousHash).toBe(before.hash)
      expect(entry.actor).toMatchObject({ kind: 'token', id: token.id, name: 'Ada the operator' })
      expect(entry.address).toMatch(/^(::ffff:)?127\.0\.0\.1$/)
      expect(entry.requestId).toMatch(/^req_[0-9a-z]{24,}$/)
      expect(Math.abs(timestampMs(entry.at!) - sentMs)).toBeLessThan(60_000)
      const [kind, verb] = entry.action.split('.')
      expect(entry.targetKind).toBe(kind)
      expect(name.toLowerCase()).toContain(verb!.split('_')[0])
      expect(entry.targetId).not.toBe('')
      if (
        !/^(epoch|token|sign_in_code|statement|holiday|unmatched_payment|notification|payment_conflict|payout_discrepancy|payout_statement|review_item)$/.test(
          kind!,
        )
      )
        expect(entry.businessId).toMatch(/^biz_/)
      expect(JSON.parse(entry.details)).toBeTypeOf('object')
      // What the caller was shown once is in no entry.
      for (const secret of JSON.stringify(outcome).match(
        /(sk_live_|whsec_|it_|ic_|pl_)[^"]{20,}/g,
      ) ?? []) {
        expect(JSON.stringify(entry.details)).not.toContain(secret.slice(-30))
      }
    }
  })
})

describe('nothing else does', () => {
  test.each(OTHERS.map((method) => [nameOf(method), method] as const))(
    '%s',
    async (name, method) => {
      const request = await HAPPY[name]!(scene, `quiet-${name}`.replace('.', '-'))
      const before = await newest()
      const call = {
        method,
        request,
        authorization: `Bearer ${ADMIN_TOKEN}`,
        take: TAKE[name] ?? 1,
      }
      expect(await PROTOCOLS['gRPC from grpc-js']!(service, call)).toHaveProperty('messages')
      expect((await newest()).number).toBe(before.number)
    },
  )
})

test('a repeat that changes nothing, and a refusal, leave no entry', async () => {
  const before = await newest()
  const call = (name: string, request: Request) =>
    PROTOCOLS['gRPC from grpc-js']!(service, {
      method: methods.find((each) => nameOf(each) === name)!,
      request,
      authorization: `Bearer ${ADMIN_TOKEN}`,
    })
  await call('BusinessService.RevokeKey', { keyId: scene.revokedKeyId })
  await call('AdminService.RevokeToken', { tokenId: scene.revokedTokenId })
  await call('AdminService.RevokeToken', { tokenId: 'tok_nobody' })
  await call('WebhookService.DeleteEndpoint', { endpointId: 'ep_nobody' })
  await call('WebhookService.CreateEndpoint', {
    businessId: 'biz_nobody',
    url: 'https://a.example/',
  })
  expect((await newest()).number).toBe(before.number)
})
