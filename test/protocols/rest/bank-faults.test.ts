import { describe, expect, test } from 'vitest'
import { AccountStatus } from '../../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { MAGIC_PHONES } from '../../../src/banks/sandbox.ts'
import { useSharedService } from '../../support/service.ts'
import { asJson, creation, GENERATE, golden, send } from './rest.ts'

const service = useSharedService()

const generate = (key: string, body: unknown) =>
  send(service.httpUrl, { path: GENERATE, headers: asJson(key), body: JSON.stringify(body) })

describe('503 bank_unavailable, with Retry-After', () => {
  test.each([
    ['does not answer', MAGIC_PHONES.timesOut],
    ['refuses for a passing cause', MAGIC_PHONES.refuses],
    ['refuses a number in international form', `+234${MAGIC_PHONES.refuses.slice(1)}`],
  ])('a bank that %s leaves the account pending; a repeat opens it', async (_what, phone) => {
    const { id, key } = await service.business()
    const body = creation({ phone })
    const refused = await generate(key, body)
    expect([refused.status, golden(refused.text)]).toEqual([
      503,
      '{"status":false,"message":"The bank did not respond; repeat the request","code":"bank_unavailable","request_id":"*"}',
    ])
    expect(refused.headers['retry-after']).toBe('5')

    const accounts = service.client(AccountService)
    const list = (status: AccountStatus) => accounts.listAccounts({ businessId: id, status })
    const { accounts: pending } = await list(AccountStatus.PENDING)
    expect(pending).toMatchObject([{ merchantReference: 'order-1', accountNumber: '' }])
    const shown = await service.post('getVirtualAccount/', key, { reference: 'order-1' })
    expect(shown.body.data).toMatchObject({ reference: pending[0]!.reference, account: [] })

    const opened = await generate(key, body)
    expect(opened.status, opened.text).toBe(200)
    expect(JSON.parse(opened.text).data.reference).toBe(pending[0]!.reference)
    expect(opened.headers['idempotent-replayed']).toBeUndefined()
    expect((await generate(key, body)).headers['idempotent-replayed']).toBe('true')
    expect((await list(AccountStatus.PENDING)).accounts).toEqual([])
    expect((await list(AccountStatus.ACTIVE)).accounts).toHaveLength(1)
  })

  test('a lasting refusal has its own reason, also when the request is repeated', async () => {
    const { key } = await service.business()
    const body = creation({ phone: MAGIC_PHONES.refusesAlways })
    for (let attempt = 1; attempt <= 2; attempt += 1) {
      const refused = await generate(key, body)
      expect([refused.status, golden(refused.text)]).toEqual([
        409,
        '{"status":false,"message":"The bank refused to open the account; nothing was opened. The operator has its cause","code":"bank_refused","request_id":"*"}',
      ])
      expect(refused.headers['retry-after']).toBeUndefined()
    }
  })

  test('a repeat with other details is 409 all the same', async () => {
    const { key } = await service.business()
    expect((await generate(key, creation({ phone: MAGIC_PHONES.refuses }))).status).toBe(503)
    expect((await generate(key, creation())).status).toBe(409)
  })
})

test('422 from the bank: the customer is refused, and the reference is free again', async () => {
  const { id, key } = await service.business()
  const palmpay = { bank: 'PALMPAY', idType: 'bvn', idNumber: '12345678901' }
  const refused = await generate(key, creation({ ...palmpay, phone: MAGIC_PHONES.rejects }))
  expect([refused.status, golden(refused.text)]).toEqual([
    422,
    '{"status":false,"message":"Invalid request: idNumber","code":"validation_failed","errors":[{"field":"idNumber","message":"was not recognised by the bank"}],"request_id":"*"}',
  ])
  const { accounts } = await service.client(AccountService).listAccounts({ businessId: id })
  expect(accounts).toEqual([])
  expect((await generate(key, creation(palmpay))).status).toBe(200)
})

describe('500 internal', () => {
  test('reveals nothing of the cause on any path', async () => {
    const { key } = await service.business()
    const { pool } = service.database
    await pool.query('alter table account rename to account_gone')
    try {
      const calls = {
        generateVirtualAccount: creation(),
        getTransaction: { session_id: '1' },
        getVirtualAccount: { reference: '1' },
        listTransactions: {},
      }
      for (const [name, body] of Object.entries(calls)) {
        const answer = await send(service.httpUrl, {
          path: `/v2/thirdparty/${name}/`,
          headers: asJson(key),
          body: JSON.stringify(body),
        })
        expect([answer.status, golden(answer.text)]).toEqual([
          500,
          '{"status":false,"message":"An internal error occurred","code":"internal","request_id":"*"}',
        ])
        expect(answer.headers['x-request-id']).toBe(JSON.parse(answer.text).request_id)
      }
    } finally {
      await pool.query('alter table account_gone rename to account')
    }
    expect((await generate(key, creation())).status).toBe(200)
  })
})
