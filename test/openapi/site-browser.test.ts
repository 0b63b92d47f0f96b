import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, BrowserContextOptions } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasBrowser, launchBrowser, seriousFaults } from '../support/browser.ts'
import { ROOT } from '../support/embedded-service.ts'
import { useService } from '../support/service.ts'
import { WAIT_LIMIT_MS } from '../support/wait-for.ts'

const service = useService()

/** A page with what its console and its network reported. */
async function open(browser: Browser, path: string, options: BrowserContextOptions = {}) {
  const context = await browser.newContext(options)
  context.setDefaultTimeout(WAIT_LIMIT_MS)
  const page = await context.newPage()
  const problems: string[] = []
  const requests: string[] = []
  page.on('console', (message) => {
    // Scalar logs its version.
    if (!message.text().startsWith('@scalar/')) problems.push(message.text())
  })
  page.on('pageerror', (error) => problems.push(String(error)))
  page.on('request', (request) => requests.push(request.url()))
  await page.goto(service.httpUrl + path)
  return { page, problems, requests, close: () => context.close() }
}

describe.skipIf(!hasBrowser)('in a browser', () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await launchBrowser()
  })
  afterAll(() => browser?.close())

  test.each([
    [1280, 'light', '/docs', 'Inflow'],
    [390, 'dark', '/docs', 'Inflow'],
    [1280, 'dark', '/docs/errors', 'Errors'],
    [390, 'light', '/docs/webhooks', 'Webhooks'],
    [390, 'dark', '/docs/guides', 'Guides'],
  ] as const)(
    'at %i pixels, %s, %s is accessible, fits, and loads nothing from elsewhere',
    async (width, colorScheme, path, title) => {
      const options = { viewport: { width, height: 900 }, colorScheme }
      const { page, problems, requests, close } = await open(browser, path, options)
      await page.getByRole('heading', { level: 1, name: title }).waitFor()
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
      // Scalar's colours, tabs and scrolling lists break rules of axe.
      expect(await seriousFaults(page, '#reference')).toEqual([])
      expect(problems).toEqual([])
      for (const url of requests) expect(url).toMatch(/^data:,|^http:\/\/127\.0\.0\.1:/)
      await close()
    },
  )

  test('the reference lists every request and every webhook, and shows the one in the address', async () => {
    const { page, problems, close } = await open(browser, '/docs#tag/payments/getTransaction')
    await page.getByRole('heading', { name: "Returns one of the caller's transactions" }).waitFor()
    await page.getByText('"session_id": "').first().waitFor()
    const { paths, webhooks } = JSON.parse(readFileSync(join(ROOT, 'gen/openapi.json'), 'utf8'))
    const operations = Object.values<{ post: { tags: string[]; operationId: string } }>(paths)
    const expected = [
      ...operations.map(({ post }) => `#tag/${post.tags[0]}/${post.operationId}`),
      ...Object.keys(webhooks).map(
        (kind) => `#webhook/POST/${kind.toLowerCase().replaceAll('_', '-')}`,
      ),
    ]
    const shown = await page
      .locator('#reference a:visible')
      .evaluateAll((links) => links.map((link) => link.getAttribute('href')))
    expect(shown).toEqual(expect.arrayContaining(expected))
    expect(problems).toEqual([])
    await close()
  })
})
