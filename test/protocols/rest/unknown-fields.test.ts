import { expect, test } from 'vitest'
import { ThirdPartyService } from '../../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { useService } from '../../support/service.ts'
import { data, openByKey, scopedBusiness } from '../../thirdparty/scene.ts'

const service = useService()

/** Callers may send these more than they know, as they always could. */
const IGNORING = ['generateVirtualAccount', 'getVirtualAccount', 'getTransaction', 'getBalance']

test('every request but the first four refuses fields that it does not know, by name', async () => {
  const { test: key } = await scopedBusiness(service)
  for (const { localName } of ThirdPartyService.methods) {
    const { status, body } = await service.post(`${localName}/`, key, { surname: 'Obi' })
    const named = (body.errors ?? []).map(({ field }: { field: string }) => field)
    const expected = IGNORING.includes(localName) ? [] : [422, 'surname']
    expect(named.includes('surname') ? [status, 'surname'] : [], localName).toEqual(expected)
  }
})

test('a request without fields says that it has none', async () => {
  const { test: key } = await scopedBusiness(service)
  const { body } = await service.post('listWebhooks/', key, { status: 'ENABLED' })
  const message = 'is not a field of this request; it has none'
  expect(body.errors).toEqual([{ field: 'status', message }])
})

test('a change with a mistyped field changes nothing', async () => {
  const { test: key } = await scopedBusiness(service)
  const { reference } = await openByKey(service, key)
  const [before] = (await data(service, key, 'listVirtualAccounts')).accounts
  const change = { reference, email: 'new@example.com', lastname: 'Obi' }
  const { status, body } = await service.post('updateVirtualAccount/', key, change)
  expect([status, body.code]).toEqual([422, 'validation_failed'])
  expect(body.errors).toEqual([
    {
      field: 'lastname',
      message:
        'is not a field of this request; known: reference, firstName, lastName, email, phone, expiresAt, expiresIn, split',
    },
  ])
  const [after] = (await data(service, key, 'listVirtualAccounts')).accounts
  expect(after).toEqual(before)
})

test('fields may be written as in responses', async () => {
  const { test: key } = await scopedBusiness(service)
  await openByKey(service, key)
  await openByKey(service, key, { reference: 'second' })
  const first = await data(service, key, 'listVirtualAccounts', { page_size: 1 })
  const request = { pageSize: 1, page_token: first.next_page_token }
  const second = await data(service, key, 'listVirtualAccounts', request)
  expect([first.accounts, second.accounts].map(({ length }) => length)).toEqual([1, 1])
  expect(second.accounts).not.toEqual(first.accounts)
})
