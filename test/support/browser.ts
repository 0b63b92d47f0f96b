import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { type Browser, chromium, type Page } from 'playwright-core'
import { expect } from 'vitest'
import { WAIT_LIMIT_MS } from './wait-for.ts'

/**
 * Debian: `apt-get install chromium-headless-shell`, which does half as much work for a page as the whole
 * browser of `apt-get install chromium`.
 */
const BROWSERS = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium']

const installed = BROWSERS.find((path) => existsSync(path))

/** Whether the tests in a browser can run here. */
export const hasBrowser = installed !== undefined

export function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: installed!,
    args: ['--no-sandbox'],
    timeout: WAIT_LIMIT_MS,
  })
}

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

interface Report {
  readonly violations: readonly {
    readonly id: string
    readonly impact: string
    readonly nodes: readonly { readonly target: readonly string[] }[]
  }[]
  readonly passes: readonly unknown[]
}

/** Returns the serious faults that axe finds, by rule and element. @param exclude a selector of third-party elements */
export async function seriousFaults(page: Page, exclude?: string): Promise<string[]> {
  // The policy of the page refuses scripts that are added to it.
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(`${axe}; 0`)
  const { violations, passes } = (await page.evaluate(
    `axe.run(${JSON.stringify({ exclude: exclude ?? [] })}, { resultTypes: ['violations'] })`,
  )) as Report
  // It has looked.
  expect(passes.length).toBeGreaterThan(10)
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target}`))
}
