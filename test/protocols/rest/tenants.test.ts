import { beforeAll, describe, expect, test } from 'vitest'
import { SandboxService } from '../../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { useSharedService } from '../../support/service.ts'
import { creation, golden, until } from './rest.ts'

const service = useSharedService()

let owner: { id: string; key: string }
let stranger: { id: string; key: string }
let reference: string
let sessionId: string

beforeAll(async () => {
  owner = await service.business('Owner')
  stranger = await service.business('Stranger')
  const { body } = await service.post('generateVirtualAccount/', owner.key, creation())
  reference = body.data.reference
  ;({ sessionId } = await service.client(SandboxService).simulateTransfer({
    accountNumber: body.data.account[0].account_number,
    amountMinor: 12_345n,
  }))
  await until(
    () => service.post('listEvents/', owner.key, {}),
    (answer) => answer.body.data.events.length === 2,
  )
})

/** A stranger's answer to what exists, and to what exists nowhere. */
async function both(path: string, existing: unknown, nowhere: unknown) {
  const answers = []
  for (const body of [existing, nowhere]) {
    const answer = await service.post(path, stranger.key, body)
    answers.push([answer.status, golden(answer.text)])
  }
  return answers
}

describe('a business sees nothing of another one', () => {
  test('its transactions are not found', async () => {
    const [existing, nowhere] = await both(
      'getTransaction/',
      { session_id: sessionId },
      { session_id: 'nowhere' },
    )
    expect(existing).toEqual(nowhere)
    expect(existing?.[0]).toBe(404)
  })

  test('its accounts are not found, by either reference', async () => {
    for (const name of [reference, 'order-1']) {
      const [existing, nowhere] = await both(
        'getVirtualAccount/',
        { reference: name },
        { reference: 'nowhere' },
      )
      expect(existing).toEqual(nowhere)
      expect(existing).toEqual([
        404,
        '{"status":false,"message":"There is no such virtual account","code":"not_found","request_id":"*"}',
      ])
    }
  })

  test('its transactions are in no list, whatever the filter or the page', async () => {
    const first = await service.post('listTransactions/', owner.key, { page_size: 1 })
    expect(first.body.data.transactions).toHaveLength(1)
    const token = Buffer.from(JSON.stringify(['9999999999999', 'txn_z'])).toString('base64url')
    for (const filter of [{}, { reference }, { reference: 'order-1' }, { page_token: token }]) {
      const answer = await service.post('listTransactions/', stranger.key, filter)
      expect(answer.body.data).toEqual({ transactions: [] })
    }
  })

  test('its events are in no list, and sequences count by themselves', async () => {
    expect((await service.post('listEvents/', stranger.key, {})).body.data.events).toEqual([])
    const third = await service.business('Third')
    await service.post('generateVirtualAccount/', third.key, creation())
    const { body } = await until(
      () => service.post('listEvents/', third.key, {}),
      (answer) => answer.body.data.events.length === 1,
    )
    expect(body.data.events[0].data.sequence).toBe(1)
  })

  test('its references are free, and the same reference gives another account', async () => {
    const fourth = await service.business('Fourth')
    const { status, body } = await service.post(
      'generateVirtualAccount/',
      fourth.key,
      creation({ firstName: 'Other' }),
    )
    expect(status).toBe(200)
    expect(body.data.reference).not.toBe(reference)
    // A reference of the form that the service assigns is no caller's own, whether it was assigned or not.
    const taken = await service.post('generateVirtualAccount/', fourth.key, creation({ reference }))
    expect([taken.status, taken.body.errors[0].field]).toEqual([422, 'reference'])
    const shown = await service.post('getVirtualAccount/', owner.key, { reference })
    expect(shown.body.data.account[0].account_name).toBe('Owner/Ada Obi')
  })

  test('an account number given as a reference finds nothing', async () => {
    const { body } = await service.post('getVirtualAccount/', owner.key, { reference })
    const { account_number: number } = body.data.account[0]
    expect(
      (await service.post('getVirtualAccount/', owner.key, { reference: number })).status,
    ).toBe(404)
  })
})
