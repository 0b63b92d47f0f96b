import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { SessionService } from '../../gen/inflow/session/v1/session_service_pb.ts'
import { launchBrowser, seriousFaults } from '../support/browser.ts'
import { ADMIN_TOKEN, type TestService } from '../support/service.ts'
import { WAIT_LIMIT_MS, waitFor } from '../support/wait-for.ts'

/** What `npm run build:console` makes; npm runs it after an installation. */
const BUILT = join(import.meta.dirname, '../../dist/console/index.html')

/** A page of the console. */
export interface ConsolePage {
  readonly page: Page
  readonly dialog: Locator
  /** What the browser complained about: errors, and what the content security policy refused. */
  readonly problems: readonly string[]
  /** Loads another page of the console. */
  go(path: string): Promise<unknown>
  /** Shows another page of the console as a link does, without loading the console again. */
  follow(path: string): Promise<unknown>
  /** Presses a button, and the one of the same name in the dialog that asks, and closes the result. */
  act(name: string, options?: ActOptions): Promise<string>
  close(): Promise<void>
}

interface ActOptions {
  /** Where the button is; default: anywhere on the page. */
  readonly from?: Locator
  /** What the dialog is filled in with. */
  readonly fill?: (dialog: Locator) => Promise<unknown>
  /** What the result says. */
  readonly result?: string | RegExp
  /** The secret that the result shows once, which `act` returns. */
  readonly secret?: RegExp
  /** The result has a secret that does not matter. */
  readonly kept?: boolean
}

interface OpenOptions extends BrowserContextOptions {
  /** Signs in with this token; default: the admin token. Null: not signed in. */
  readonly token?: string | null
}

/**
 * A browser for the tests of a file. After each test its pages are closed, and had no problems but calls that failed.
 *
 * @returns opens a page of the console in a context of its own, signed in
 */
export function useBrowser(service: TestService) {
  let browser: Browser
  const opened: ConsolePage[] = []
  beforeAll(async () => {
    expect(existsSync(BUILT), 'run npm run build:console').toBe(true)
    browser = await launchBrowser()
  })
  afterEach(async () => {
    const pages = opened.splice(0)
    await Promise.all(pages.map(({ close }) => close()))
    const problems = pages.flatMap((each) => each.problems)
    expect(problems.filter((text) => !text.startsWith('Failed to load resource'))).toEqual([])
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
    const go = (to: string) => page.goto(`${service.httpUrl}/console${to}`)
    const follow = (to: string) =>
      page.evaluate(`history.pushState(null, '', ${JSON.stringify(`/console${to}`)})`)
    const close = () => context.close()
    const console = { page, problems, go, follow, close, ...dialogOf(page) }
    opened.push(console)
    await go(path)
    return console
  }
}

function dialogOf(page: Page): Pick<ConsolePage, 'dialog' | 'act'> {
  const dialog = page.getByRole('dialog')
  const press = (name: string, from: Page | Locator) =>
    from.getByRole('button', { name, exact: true }).first().click()
  return {
    dialog,
    async act(name, { from, fill, result, secret, kept = secret !== undefined } = {}) {
      await press(name, from ?? page)
      await fill?.(dialog)
      await press(name, dialog)
      if (result !== undefined) await dialog.getByText(result).first().waitFor()
      const text = secret ? await dialog.getByText(secret).innerText() : ''
      if (kept) await dialog.getByLabel('I have kept it').check()
      await press('Close', dialog)
      return text
    },
  }
}

/** Opens the console by a portal link of its own, as another person. @returns also the link's id */
export async function openPortal(
  open: ReturnType<typeof useBrowser>,
  service: TestService,
  link: { readonly businessId: string; readonly scopes: string[] },
) {
  const { portalLink, urlPath } = await service.client(SessionService).createPortalLink(link)
  const portal = await open(urlPath.slice('/console'.length), { token: null })
  await portal.page.locator('nav.rail a').first().waitFor()
  return { ...portal, portalLinkId: portalLink!.id }
}

/** Waits until a page shows nothing that is still loading. */
export const loaded = (page: Page) =>
  waitFor(async () => expect(await page.locator('.bones').count()).toBe(0))

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
