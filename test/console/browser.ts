import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, beforeAll, expect } from 'vitest'
import { launchBrowser, seriousFaults } from '../support/browser.ts'
import { ADMIN_TOKEN, type TestService } from '../support/service.ts'
import { WAIT_LIMIT_MS, waitFor } from '../support/wait-for.ts'

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
    context.setDefaultTimeout(WAIT_LIMIT_MS)
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

/** Expects that a page fits and has no serious fault, light on a wide screen and dark on a narrow one. */
export async function expectAccessible(page: Page): Promise<void> {
  const wide = { width: 1280, height: 900 }
  for (const [colorScheme, size] of [
    ['dark', { width: 390, height: 844 }],
    ['light', wide],
  ] as const) {
    await page.emulateMedia({ colorScheme })
    await page.setViewportSize(size)
    // Colours and places that change are not what is left.
    await page.evaluate(TRANSITIONS_END)
    expect(await seriousFaults(page), `${page.url()} ${colorScheme}`).toEqual([])
    await waitFor(async () => expect(await page.evaluate(OVERFLOWS), page.url()).toBe(false))
  }
}

const TRANSITIONS_END = `Promise.allSettled(document.getAnimations()
  .filter((each) => each.effect.getComputedTiming().iterations !== Infinity).map((each) => each.finished))`

const OVERFLOWS = 'document.documentElement.scrollWidth > document.documentElement.clientWidth'
