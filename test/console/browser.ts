import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect } from 'vitest'
import { ADMIN_TOKEN, type TestService } from '../support/service.ts'

/** Debian: `apt-get install chromium`. */
const CHROMIUM = '/usr/bin/chromium'

/** What `npm run build:console` makes; npm runs it after an installation. */
const BUILT = join(import.meta.dirname, '../../dist/console/index.html')

/** Whether the tests in a browser can run here. */
export const hasBrowser = existsSync(CHROMIUM)

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

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
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] })
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

interface Report {
  readonly violations: readonly {
    readonly id: string
    readonly impact: string
    readonly nodes: readonly { readonly target: readonly string[] }[]
  }[]
  readonly passes: readonly unknown[]
}

/** What axe finds to be serious, by rule and place. */
export async function seriousFaults(page: Page): Promise<string[]> {
  // The policy of the page refuses scripts that are added to it.
  const { violations, passes } = (await page.evaluate(`${axe}; axe.run()`)) as Report
  // It has looked.
  expect(passes.length).toBeGreaterThan(10)
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target}`))
}

/** Whether something of the page is wider than the window. */
export async function overflows(page: Page): Promise<boolean> {
  return page.evaluate(
    'document.documentElement.scrollWidth > document.documentElement.clientWidth',
  )
}
