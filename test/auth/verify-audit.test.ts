import { expect, test } from 'vitest'
import {
  AdminService,
  type VerifyAuditResponse,
} from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { useService } from '../support/service.ts'
import { append, withoutTriggers } from './audit-fixture.ts'

const service = useService()
const admin = (token?: string) => service.client(AdminService, token)

async function verify(from = ''): Promise<VerifyAuditResponse[]> {
  const progress: VerifyAuditResponse[] = []
  for await (const each of admin().verifyAudit({ from })) progress.push(each)
  return progress
}

test('the audit log is verified with progress, from where an earlier verification ended', async () => {
  const { durablePool } = service.database
  for (let i = 0; i < 1_005; i++) await append(durablePool, `key_${i}`)
  const progress = await verify()
  expect(progress.map(({ verifiedNumber }) => verifiedNumber)).toEqual([1_000n, 1_005n])
  expect(progress.map(({ completed }) => completed)).toEqual([false, true])
  const last = progress.at(-1)!
  expect(last).toMatchObject({ headNumber: 1_005n })
  expect(last.firstBreak).toBeUndefined()

  await append(durablePool, 'key_last')
  expect(await verify(progress[0]!.cursor)).toMatchObject([
    { verifiedNumber: 1_006n, completed: true },
  ])
  expect(await verify(last.cursor)).toMatchObject([{ verifiedNumber: 1_006n, completed: true }])

  await withoutTriggers(durablePool, ["update audit_entry set target_id = 'x' where number = 1003"])
  const broken = { verifiedNumber: 1_002n, completed: true }
  const firstBreak = { number: 1_003n, problem: expect.stringContaining('was changed') }
  expect((await verify()).at(-1)).toMatchObject({ ...broken, firstBreak })
  // What was verified before is not verified again.
  expect((await verify(last.cursor)).at(-1)!.firstBreak).toBeUndefined()

  await withoutTriggers(durablePool, ['delete from audit_entry where number = 1006'])
  const missing = (await verify(last.cursor)).at(-1)!
  expect(missing.firstBreak).toMatchObject({ number: 1_006n, problem: 'is missing' })
})

test('a text that is no cursor is refused', async () => {
  for (const from of ['nonsense', Buffer.from('["1","2"]').toString('base64url')]) {
    await expect(verify(from)).rejects.toThrow(/Invalid request: from/)
  }
})

test('tokens are listed by whether they can be used', async () => {
  const issue = async (name: string) =>
    (await admin().issueToken({ name, scopes: ['read'] })).token!
  const first = await issue('first')
  const revoked = await issue('revoked')
  const last = await issue('last')
  await admin().revokeToken({ tokenId: revoked.id })
  const list = async (active: boolean, pageSize = 0, pageToken = '') => {
    const page = await admin().listTokens({ active, pageSize, pageToken })
    return { ids: page.tokens.map(({ id }) => id), next: page.nextPageToken }
  }
  expect((await list(true)).ids).toEqual([last.id, first.id])
  expect((await list(false)).ids).toEqual([revoked.id])
  const { ids, next } = await list(true, 1)
  expect(ids).toEqual([last.id])
  expect(await list(true, 1, next)).toEqual({ ids: [first.id], next: '' })
})
