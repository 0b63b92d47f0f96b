import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, beforeAll, expect } from 'vitest'
import { launchBrowser } from '../support/browser.ts'
import { ADMIN_TOKEN, type TestService } from '../support/service.ts'

/** What `npm run build:console` makes; npm runs it after an installation. */
const BUILT = join(import.meta.dirname, '../../dist/console/index.html')

/** A page of the console, with what its console and its network reported. */
export interface ConsolePage {
  readonly page: Page
  /** What the browser complained about: errors, and what the content security policy refused. */
  readonly problems: readonly string[]
  close(): Promise<void>
}

interface OpenOptions extends BrowserContextOptions {
  /** Signs in with this token; default: the admin token. Null: not signed in. */
  readonly token?: string | null
}

/**
 * A browser for the tests of a file.
 *
 * @returns opens a page of the console in a context of its own, signed in
 */
export function useBrowser(service: TestService) {
  let browser: Browser
  beforeAll(async () => {
    expect(existsSync(BUILT), 'run npm run build:console').toBe(true)
    browser = await launchBrowser()
  })
  afterAll(() => browser?.close())
  return async (path: string, options: OpenOptions = {}): Promise<ConsolePage> => {
    const { token = ADMIN_TOKEN, ...rest } = options
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...rest })
    if (token !== null) {
      const response = await context.request.post(`${service.httpUrl}/console/session`, {
        data: { token },
        headers: { origin: service.httpUrl },
      })
      expect(response.status()).toBe(204)
    }
    const page = await context.newPage()
    const problems: string[] = []
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') problems.push(message.text())
    })
    page.on('pageerror', (error) => problems.push(String(error)))
    await page.goto(`${service.httpUrl}/console${path}`)
    return { page, problems, close: () => context.close() }
  }
}

/** Keeps back the calls of a method, "Service/Method", until they are released. */
export async function hold(page: Page, method: string) {
  const released = Promise.withResolvers<void>()
  const requested = Promise.withResolvers<void>()
  await page.route(`**/*${method}`, async (route) => {
    requested.resolve()
    await released.promise
    await route.continue().catch(() => undefined)
  })
  return { requested: requested.promise, release: released.resolve }
}

/** Whether something of the page is wider than the window. */
export async function overflows(page: Page): Promise<boolean> {
  return page.evaluate(
    'document.documentElement.scrollWidth > document.documentElement.clientWidth',
  )
}
