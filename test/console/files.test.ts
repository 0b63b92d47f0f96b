import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { request } from 'undici'
import { expect, test } from 'vitest'
import { useSharedService } from '../support/service.ts'

const BUILT = join(import.meta.dirname, '../../dist/console')
const service = useSharedService()

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
  for (const name of readdirSync(join(BUILT, 'assets')).filter((each) =>
    /\.(js|css)$/.test(each),
  )) {
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
