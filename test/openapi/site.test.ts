import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { renderGuide, slugOf } from '../../src/openapi/site/guide.ts'
import { useSharedService } from '../support/service.ts'

const service = useSharedService()
const SITE = join(import.meta.dirname, '../../dist/docs')

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(service.httpUrl + path, { headers, redirect: 'manual' })

test('every page is served, with a policy that allows nothing from elsewhere', async () => {
  // It takes seconds to compress Scalar, which the service does at the first request.
  for (const name of (await readdir(SITE)).filter((each) => each !== 'scalar.js')) {
    const path = name === 'index.html' ? '/docs' : `/docs/${name.replace('.html', '')}`
    const response = await get(path)
    expect([path, response.status]).toEqual([path, 200])
    expect(await response.text()).toBe(await readFile(join(SITE, name), 'utf8'))
    const policy = response.headers.get('content-security-policy')
    // Scalar writes its styles into the page.
    const styles = path === '/docs' ? "'self' 'unsafe-inline'" : "'self'"
    const own = name.endsWith('.html') ? ` script-src 'self'; style-src ${styles};` : ''
    expect(policy).toContain(`default-src 'none';${own}`)
    expect(policy?.replace(own, '')).not.toMatch(/unsafe|\*|https?:/)
  }
  expect((await get('/docs/')).status).toBe(200)
  expect((await get('/docs/..%2f..%2fpackage.json')).status).toBe(404)
})

test('every link leads to a page, and to a place of it', async () => {
  const pages = new Map<string, string>()
  for (const name of await readdir(SITE)) {
    if (!name.endsWith('.html')) continue
    const path = name === 'index.html' ? '/docs' : `/docs/${name.replace('.html', '')}`
    pages.set(path, await readFile(join(SITE, name), 'utf8'))
  }
  const broken: string[] = []
  let links = 0
  for (const [path, html] of pages) {
    for (const [, href = ''] of html.matchAll(/<a [^>]*href="([^"]*)"/g)) {
      links++
      if (/^https:|^\/openapi/.test(href)) continue
      const [page = '', place] = href.split('#')
      const target = pages.get(page === '' ? path : page)
      if (target === undefined || (place && !target.includes(`id="${place}"`)))
        broken.push(`${path}: ${href}`)
    }
  }
  expect(broken).toEqual([])
  expect(links).toBeGreaterThan(200)
})

test('a page is sent compressed, and not again to who has it', async () => {
  const plain = await get('/docs', { 'accept-encoding': 'identity' })
  expect(plain.headers.get('content-encoding')).toBeNull()
  for (const coding of ['br', 'gzip']) {
    const response = await get('/docs', { 'accept-encoding': `${coding}, deflate` })
    expect(response.headers.get('content-encoding')).toBe(coding)
    // fetch expands it.
    expect(await response.text()).toBe(await readFile(join(SITE, 'index.html'), 'utf8'))
  }
  const again = await get('/docs', { 'if-none-match': plain.headers.get('etag')! })
  expect([again.status, await again.text()]).toEqual([304, ''])
})

test('markup in a guide stays text', () => {
  const { html } = renderGuide('x', '<script>alert(1)</script> [x](javascript:alert(1))')
  expect(html).not.toMatch(/<script|href="javascript/)
})

test('headings have the ids that links to the repository use', () => {
  expect(slugOf('Accept or return')).toBe('accept-or-return')
  expect(slugOf('See what happened, and send again')).toBe('see-what-happened-and-send-again')
  expect(slugOf('inflow.account.v1.AccountService')).toBe('inflowaccountv1accountservice')
})
