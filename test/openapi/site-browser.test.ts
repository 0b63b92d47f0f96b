import type { Browser, BrowserContextOptions } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasBrowser, launchBrowser, seriousFaults } from '../support/browser.ts'
import { useService } from '../support/service.ts'

const service = useService()

/** A page with what its console and its network reported. */
async function open(browser: Browser, path: string, options: BrowserContextOptions = {}) {
  const context = await browser.newContext(options)
  const page = await context.newPage()
  const problems: string[] = []
  const requests: string[] = []
  page.on('console', (message) => problems.push(message.text()))
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
    [1280, 'light', '/docs'],
    [390, 'dark', '/docs'],
    [1280, 'dark', '/docs/errors'],
    [390, 'light', '/docs/webhooks'],
  ] as const)(
    'at %i pixels, %s, %s is accessible, fits, and loads nothing from elsewhere',
    async (width, colorScheme, path) => {
      const options = { viewport: { width, height: 900 }, colorScheme }
      const { page, problems, requests, close } = await open(browser, path, options)
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
      expect(await seriousFaults(page)).toEqual([])
      expect(problems).toEqual([])
      for (const url of requests) expect(url).toMatch(/^data:,|^http:\/\/127\.0\.0\.1:/)
      await close()
    },
  )

  test('examples have the address of the service, in the chosen language', async () => {
    const { page, close } = await open(browser, '/docs')
    const shown = () =>
      page.locator('.operation').first().locator('.examples .code:visible').allTextContents()
    expect((await shown())[0]).toContain(`${service.httpUrl}/v2/thirdparty/generateVirtualAccount/`)
    await page.getByLabel('Python').check()
    expect((await shown())[0]).toMatch(/^import json/)
    // It is remembered.
    await page.reload()
    expect((await shown())[0]).toMatch(/^import json/)
    await close()
  })

  test('an example is copied as it stands', async () => {
    const permissions = ['clipboard-read', 'clipboard-write']
    const { page, close } = await open(browser, '/docs', { permissions })
    const block = page.locator('.operation .code:visible').first()
    await block.hover()
    await block.getByRole('button', { name: 'Copy' }).click()
    await block.getByRole('button', { name: 'Copied' }).waitFor()
    const copied = await page.evaluate('navigator.clipboard.readText()')
    expect(copied).toBe(await block.locator('code').textContent())
    await close()
  })

  test('the search finds a request, a kind of event and a guide, by keyboard', async () => {
    const { page, close } = await open(browser, '/docs/webhooks')
    for (const [words, title, hash] of [
      ['gettransaction', '/v2/thirdparty/getTransaction/', '/docs#getTransaction'],
      ['payment_reversed', 'PAYMENT_REVERSED', '/docs#PAYMENT_REVERSED'],
      ['strict order', 'Webhooks: In strict order', '/docs/webhooks#in-strict-order'],
    ] as const) {
      await page.keyboard.press('/')
      await page.keyboard.type(words)
      await page
        .getByRole('listitem')
        .getByRole('link', { name: title, exact: true })
        .first()
        .waitFor()
      await page.keyboard.press('ArrowDown')
      await page.keyboard.press('Enter')
      await page.waitForURL(service.httpUrl + hash)
    }
    await page.keyboard.press('/')
    await page.keyboard.type('zebra')
    await page.getByText('Nothing found').waitFor()
    await close()
  })

  test('without JavaScript everything can be read, also in another language', async () => {
    const { page, close } = await open(browser, '/docs', { javaScriptEnabled: false })
    await page.getByLabel('Go', { exact: true }).check()
    const code = page.locator('.operation').first().locator('.examples .code:visible').first()
    expect(await code.textContent()).toContain('http.NewRequest')
    expect(await page.getByRole('search').isVisible()).toBe(false)
    await page.getByRole('link', { name: 'Errors' }).first().click()
    await page.getByRole('heading', { level: 1, name: 'Errors' }).waitFor()
    await close()
  })
})
