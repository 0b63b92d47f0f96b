import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { request } from 'undici'
import { describe, expect, test } from 'vitest'
import { openShop, pay } from '../overview/scene.ts'
import { hasBrowser } from '../support/browser.ts'
import { useService } from '../support/service.ts'
import { hold, useBrowser } from './browser.ts'

const BUILT = join(import.meta.dirname, '../../dist/console')
const service = useService()

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(service.httpUrl + path, { headers: { 'accept-encoding': 'identity', ...headers } })

test('the page is served at every path of the console, under a strict policy, and is asked for anew', async () => {
  expect(existsSync(BUILT), 'run npm run build:console').toBe(true)
  for (const path of ['/console', '/console/', '/console/payments/txn_1?mode=test']) {
    const response = await get(path)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(response.headers.get('cache-control')).toBe('no-cache')
    const policy = response.headers.get('content-security-policy')
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'")
    expect(policy).not.toContain('unsafe')
    const html = await response.text()
    expect(html).toMatch(/<script type="module"[^>]* src="\/console\/assets\/[\w-]+\.js"/)
    // Scripts and styles in the page itself would be refused.
    expect(html).not.toMatch(/<style|<script(?![^>]* src=)|style="/)
    const headers = { 'if-none-match': response.headers.get('etag') as string }
    // fetch would forbid caches to answer.
    expect((await request(service.httpUrl + path, { headers })).statusCode).toBe(304)
  }
})

test('files are compressed, and kept for ever', async () => {
  const names = readdirSync(join(BUILT, 'assets'))
  for (const ending of ['.js', '.css']) {
    const name = names.find((each) => each.endsWith(ending))
    const plain = await get(`/console/assets/${name}`)
    expect(plain.status).toBe(200)
    expect(plain.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
    expect(plain.headers.get('vary')).toBe('accept-encoding')
    const text = await plain.text()
    for (const coding of ['gzip', 'br']) {
      const response = await get(`/console/assets/${name}`, { 'accept-encoding': coding })
      expect(response.headers.get('content-encoding')).toBe(coding)
      // fetch decodes it.
      expect(await response.text()).toBe(text)
    }
  }
})

test.each([
  '/console/assets/none.js',
  '/console/assets/..%2F..%2Fpackage.json',
  '/console/assets/..%2Findex.html',
  '/console/assets/%2e%2e%2f%2e%2e%2fpackage.json.js',
  '/console/assets/none',
])('%s is refused as other unknown paths are', async (path) => {
  const response = await get(path)
  expect(response.status).toBe(404)
  expect(response.headers.get('cache-control')).toBe('no-store')
  expect(await response.json()).toMatchObject({ status: false, code: 'unknown_path' })
})

describe.skipIf(!hasBrowser)('a page that is opened first', () => {
  const open = useBrowser(service)

  /** Of files, compressed: the 160 KiB that the build allows before the page, and the page with what pages share. */
  const BYTES_MAX = 180 * 1024

  test.each([
    ['/', '.tile-number', '/inflow.overview.v1.OverviewService/GetOverview'],
    ['/payments', 'tr[data-row]', '/inflow.transaction.v1.TransactionService/ListTransactions'],
  ])(
    '%s requests all that it begins with at once: fewer than 12 requests, and 180 KiB',
    async (path, content, call) => {
      await pay(service, await openShop(service))
      const { page, go } = await open('/sign-in')
      await page.getByLabel('Token').waitFor()
      const names: string[] = []
      page.on('request', (request) => names.push(new URL(request.url()).pathname))
      const filesOf = (requests: readonly string[]) =>
        requests.filter((name) => name.startsWith('/console/assets/'))
      const devtools = await page.context().newCDPSession(page)
      await devtools.send('Network.clearBrowserCache')
      const app = await hold(page, '/console/assets/app-*.js')
      const stream = await hold(page, 'EventService/Subscribe')
      const opened = go(path)
      // While the largest file is not there yet, the others are requested, and what the page reads.
      await page.waitForResponse((response) => response.url().endsWith(call))
      const early = filesOf(names)
      app.release()
      await opened
      await page.locator(content).first().waitFor()
      await stream.requested
      expect(names.length, names.join(' ')).toBeLessThan(12)
      // The page took the responses to what was requested early, rather than ask again.
      const calls = names.filter((name) => name.startsWith('/inflow.'))
      expect(calls).toContain('/inflow.session.v1.SessionService/GetCaller')
      expect(calls).toEqual([...new Set(calls)])
      stream.release()
      await page.getByRole('button', { name: 'live', exact: true }).waitFor()
      expect(filesOf(names)).toEqual(early)
      const bytes = early
        .map((name) => statSync(`${BUILT}${name.slice('/console'.length)}.gz`).size)
        .reduce((sum, size) => sum + size, 0)
      expect(bytes).toBeGreaterThan(BYTES_MAX / 2)
      expect(bytes).toBeLessThan(BYTES_MAX)
    },
  )
})
