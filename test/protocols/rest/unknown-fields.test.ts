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

test.each([
  [
    'updateVirtualAccount',
    { split: { recipient: [] } },
    'split.recipient',
    'recipients, feeBearer',
  ],
  // Also where unknown fields of the request itself are ignored.
  [
    'generateVirtualAccount',
    { split: { recipients: [{ businessID: 'biz_1' }] } },
    'split.recipients[0].businessID',
    'businessId, percentage, amount',
  ],
])('an object inside a request of %s refuses them too', async (path, request, field, known) => {
  const { test: key } = await scopedBusiness(service)
  const { body } = await service.post(`${path}/`, key, { reference: 'x', ...request })
  const message = `is not a field of this object; known: ${known}`
  expect(body.errors).toContainEqual({ field, message })
})

test('one of several authentication methods is given, not two', async () => {
  const { test: key } = await scopedBusiness(service)
  const authentication = {
    basic: { username: 'a', password: 'b' },
    oauth2: { tokenUrl: 'https://example.com/', clientId: 'a', clientSecret: 'b' },
  }
  const request = { url: 'https://example.com/', options: { authentication } }
  const { body } = await service.post('createWebhook/', key, request)
  expect(body.errors).toEqual([
    { field: 'options.authentication.oauth2', message: 'must not be given together with basic' },
  ])
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
