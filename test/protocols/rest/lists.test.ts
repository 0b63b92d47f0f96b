import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { useSharedService } from '../../support/service.ts'
import { data, scopedBusiness } from '../../thirdparty/scene.ts'

const service = useSharedService()

/** What lists need that cannot list everything. */
const FILTERS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  listDeliveries: { eventId: 'evt_none' },
}

test('every list takes every value that the guide offers', async () => {
  const scoped = await scopedBusiness(service)
  const guide = await readFile('src/docs/rest-api.md', 'utf8')
  const offered = [
    ...guide.matchAll(/^\| `(?:\/v2\/thirdparty\/)?(list\w+)\/` \| (.*) \| .* \|$/gm),
  ]
  expect(offered.length).toBeGreaterThan(4)
  const asked: string[] = []
  for (const [, path = '', fields = ''] of offered) {
    for (const [, field = '', values = ''] of fields.matchAll(
      /`(\w+)\?` \(((?:`\w+`(?:, )?)+)\)/g,
    )) {
      for (const [, value] of values.matchAll(/`(\w+)`/g)) {
        await data(service, scoped.test, path, { ...FILTERS[path], [field]: value })
        asked.push(`${path} ${value}`)
      }
    }
  }
  expect(asked).toContain('listVirtualAccounts EXPIRED')
  expect(asked).toContain('listDeliveries FAILED')
})

const tokenOf = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const BAD_TIMES = [
  ...['yesterday', '2026-01-01', '2026-02-30 10:00:00', '2026-13-01 10:00:00', '1700000000'],
  ...['2026-01-01T10:00:00', '2026-01-01 24:00:00', '2026-02-29T10:00:00Z'],
]

test.each([
  ['from', 'must be YYYY-MM-DD HH:MM:SS or RFC 3339', BAD_TIMES],
  ['to', 'must be YYYY-MM-DD HH:MM:SS or RFC 3339', BAD_TIMES],
  [
    'page_token',
    'is not a token of this list',
    [
      ...['x', 'W10', tokenOf([]), tokenOf(['1']), tokenOf(['x', 'y']), tokenOf(['-1', 'y'])],
      ...[tokenOf([1, 2]), tokenOf(['1', '\0']), tokenOf(['999999999999999', 'y'])],
      tokenOf(['1e3', 'y']),
    ],
  ],
])('a list refuses another %s: it %s', async (field, message, values) => {
  const { key } = await service.business()
  for (const value of values) {
    const { status, body } = await service.post('listTransactions/', key, { [field]: value })
    expect([value, status, body.errors]).toEqual([value, 422, [{ field, message }]])
  }
})
