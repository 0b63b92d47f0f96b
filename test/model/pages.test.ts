import type { DescMethod } from '@bufbuild/protobuf'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { restPath } from '../../src/protobuf/contract-services.ts'
import { allMethods, nameOf, PROTOCOLS, REST } from '../protocols/matrix/protocols.ts'
import { authorizationOf, type Scene, setScene } from '../protocols/matrix/scene.ts'
import { useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import { type Fields, LISTINGS, type Option, type Row } from './page-rows.ts'

const service = useService()
let scene: Scene

beforeAll(async () => {
  scene = await setScene(service)
})

afterAll(() => scene?.close())

/** Every method that returns a list in pages. */
// A call of ReconcilePayouts goes on by a token, and is no list.
const methods = (await allMethods()).filter(({ input }) =>
  input.fields.some(({ name }) => name === 'page_size'),
)
const PAGING = new Set(['page_size', 'page_token'])
const ROWS = 6

/** In how many pages a list is read that an option restricts. */
const PAGES = 3

/** How many times larger the pages of a long list are, such as the catalogue of banks. */
const scaleOf = (rows: readonly unknown[]) => Math.ceil(rows.length / 20)

/** Whether no payout is in progress, and each event is in the log. Otherwise a list could get rows by itself. */
async function isStill(): Promise<boolean> {
  const { rowCount } = await service.database.durablePool.query(
    `select from payout where status in ('APPROVED', 'SUBMITTING')
      union all select from outbox o where not exists (select from event_log l where l.outbox_seq = o.seq)`,
  )
  return rowCount === 0
}

test('every list of the contract, and no other, has an entry', () => {
  expect(methods.map(nameOf).toSorted()).toEqual(Object.keys(LISTINGS).toSorted())
})

describe.each(methods.map((method) => [nameOf(method), method] as const))('%s', (name, method) => {
  const listing = LISTINGS[name]!
  const idOf = (row: Row) => `${row[listing.id ?? 'id']}`
  const always = async (): Promise<Fields> => (await listing.request?.(scene)) ?? {}
  let added = 0
  const add = () => listing.add(scene, `${name.replaceAll('.', ' ')} ${added}`, added++)
  const readAll = (request: Fields, pageSize: number, isRest?: boolean) =>
    listAll(method, request, pageSize, isRest)

  beforeAll(async () => {
    while (added < ROWS) await add()
    await waitUntil(isStill)
  })

  const { everywhere } = listing

  test('is the same in pages of any size, and over any protocol', async () => {
    await expectSame(await always(), [1, 2])
    if (everywhere) await expectSame(everywhere.request, [3])
  })

  async function expectSame(request: Fields, sizes: readonly number[]): Promise<void> {
    const whole = (await readAll(request, 0)).map(idOf)
    expect(whole.length).toBeGreaterThanOrEqual(5)
    expect(new Set(whole).size).toBe(whole.length)
    for (const size of sizes) {
      const found = await readAll(request, size * scaleOf(whole), size === 2)
      expect(found.map(idOf)).toEqual(whole)
    }
  }

  test('leaves, with each of its options, what the option says', async () => {
    const base = await always()
    const all = await readAll(base, 0)
    const options = listing.options?.(all, scene) ?? []
    const tried = [base, ...options.map(({ request }) => request)].flatMap(Object.keys)
    const used = [...tried, ...(listing.untried ?? [])]
    const fields = method.input.fields.filter((field) => !PAGING.has(field.name))
    for (const { localName } of fields) expect(used).toContain(localName)
    for (const option of options) await expectOption(base, all, option)
  })

  if (everywhere !== undefined) {
    test('does so among the rows of all businesses', async () => {
      const { request: base, refuses } = everywhere
      const all = await readAll(base, 0)
      const ids = new Set(all.map(idOf))
      const own = (await readAll(await always(), 0)).filter((row) => ids.has(idOf(row)))
      for (const option of listing.options?.(own, scene) ?? []) {
        const isRefused = Object.keys(option.request).some((name) => refuses.includes(name))
        if (!isRefused) await expectOption(base, all, option)
      }
    })
  }

  async function expectOption(base: Fields, all: readonly Row[], option: Option): Promise<void> {
    const { request, matches, isReversed, isReordered } = option
    const expected = all.filter(matches).map(idOf)
    const isPart = expected.length > 0 && expected.length < all.length
    const mayBeAll = Object.keys(request).some((field) => listing.mayLeaveAll?.includes(field))
    expect([request, isPart || mayBeAll]).toEqual([request, true])
    if (isReversed) expected.reverse()
    const pageSize = Math.ceil(expected.length / PAGES) || 1
    const found = (await readAll({ ...base, ...request }, pageSize)).map(idOf)
    if (isReordered) expect(found.toSorted()).toEqual(expected.toSorted())
    else expect([request, found]).toEqual([request, expected])
  }

  test('has each row once that was there all the time, while others come and go', async () => {
    const { request: needed, row: remove } = listing.remove ?? {}
    const request = { ...(await always()), ...needed }
    const before = await readAll(request, 0)
    const gone = remove && before.at(-2)
    const pageSize = 2 * scaleOf(before)
    const found: Row[] = []
    for (let pageToken = '', page = 0; ; page++) {
      const { rows, next } = await readPage(method, { ...request, pageToken }, pageSize, true)
      found.push(...rows)
      if (next === '') break
      pageToken = next
      if (page > 3) continue
      await add()
      // The row that the page ends with, and one of a page to come.
      if (page === 0) await remove?.(scene, rows.at(-1)!)
      if (page === 0 && gone) await remove?.(scene, gone)
    }
    const ids = found.map(idOf)
    expect(new Set(ids).size).toBe(ids.length)
    const kept = before.map(idOf).filter((id) => gone === undefined || id !== idOf(gone))
    expect(ids.filter((id) => kept.includes(id))).toEqual(kept)
  })
})

async function listAll(
  method: DescMethod,
  request: Fields,
  pageSize: number,
  isRest?: boolean,
): Promise<Row[]> {
  const all: Row[] = []
  for (let pageToken = ''; ; ) {
    const { rows, next } = await readPage(method, { ...request, pageToken }, pageSize, isRest)
    all.push(...rows)
    // A list by recorded time never ends: its last token is that of the request.
    if (next === '' || next === pageToken) return all
    pageToken = next
  }
}

/** One page, over REST where the method has it, or over the protocol of its size. */
async function readPage(
  method: DescMethod,
  request: Fields,
  pageSize: number,
  isRest = pageSize === 2,
) {
  const protocols = ['gRPC from connect-node', 'Connect in JSON', 'gRPC-Web'] as const
  const hasRest = restPath(method) !== undefined
  const protocol = isRest && hasRest ? REST : PROTOCOLS[protocols[pageSize % 3]!]!
  const authorization = authorizationOf(scene, nameOf(method))
  const outcome = await protocol(service, {
    method,
    request: { ...request, pageSize },
    authorization,
  })
  if (!('messages' in outcome)) throw new Error(`${JSON.stringify(outcome)} ${method.name}`)
  const [message] = outcome.messages as [Record<string, unknown>]
  const data = (message['data'] ?? message) as Record<string, unknown>
  const page = (data['customer_accounts'] ?? data['customerAccounts'] ?? data) as typeof data
  const rows = Object.values(page).find((value) => Array.isArray(value)) as Row[]
  const { pageMax = 200 } = LISTINGS[nameOf(method)]!
  expect(rows.length).toBeLessThanOrEqual(pageSize || pageMax)
  return { rows, next: (page['next_page_token'] ?? page['nextPageToken'] ?? '') as string }
}
