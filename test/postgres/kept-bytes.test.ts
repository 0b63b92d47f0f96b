import { create, toBinary } from '@bufbuild/protobuf'
import { beforeAll, expect, test } from 'vitest'
import { SubscribeResponseSchema } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { createFindOpenAccounts } from '../../src/accounts/open-accounts.ts'
import { findToken } from '../../src/auth/authenticate-token.ts'
import { createFindKey } from '../../src/businesses/authenticate-key.ts'
import { newSecretKey } from '../../src/businesses/secret-key.ts'
import { createSharedEncoder } from '../../src/server/grpc/methods.ts'
import { useDatabase } from '../support/database.ts'

const db = useDatabase(2)

const KEY_ID = `key_${'0'.repeat(26)}`

beforeAll(async () => {
  await db.database.durablePool.query(`
    insert into business (id, name, alias, created_at) values ('biz_1', 'A', 'A', now());
    insert into account (id, business_id, live, reference, merchant_reference, bank, account_number,
        account_name, status, first_name, last_name, email, phone, details_hash, attempts,
        claimed_until, created_at)
      values ('acc_1', 'biz_1', true, 'R-1', 'order-1', '9PSB', '0000000001', 'A/B', 'ACTIVE', 'A', 'B',
        'a@b.co', '08012345678', sha256('a'), 1, now(), now());
    insert into api_key (id, business_id, live, prefix, secret_hash, created_at, allowed_cidrs)
      values ('${KEY_ID}', 'biz_1', true, 'x', sha256('a'), now(), '{}');
    insert into internal_token (id, name, description, prefix, secret_hash, scopes, created_at)
      values ('tok_1', 'x', '', 'x', sha256('a'), '{read}', now())`)
})

test('cached event bytes retain no larger buffer', () => {
  const encode = createSharedEncoder(SubscribeResponseSchema)
  const item = { case: 'checkpoint', value: { cursor: 'somewhere' } } as const
  const message = create(SubscribeResponseSchema, { item })
  const bytes = encode(message)
  expect(encode(message)).toBe(bytes)
  expect(bytes.equals(toBinary(SubscribeResponseSchema, message))).toBe(true)
  expect(bytes.buffer.byteLength).toBe(bytes.length)
})

test('cached bytes do not retain the read buffer of the driver', async () => {
  const { durablePool } = db.database
  const [account] = await createFindOpenAccounts(
    durablePool,
    () => true,
  )([{ bank: '9PSB', accountNumber: '0000000001', live: true }])
  const key = await createFindKey(durablePool)(newSecretKey(KEY_ID, true).secret)
  const token = await findToken(durablePool, 'tok_1')
  for (const kept of [account, key, token]) {
    const bytes = Object.values(kept ?? {}).filter((value) => value instanceof Uint8Array)
    expect(bytes.map((each) => [each.length, each.buffer.byteLength])).toEqual([[32, 32]])
  }
})
