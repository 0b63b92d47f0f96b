import { setTimeout as pause } from 'node:timers/promises'
import type { CDPSession, Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { naira } from '../../src/console/format/money.ts'
import { useBrowser } from '../console/browser.ts'
import { openAccount } from '../overview/scene.ts'
import { hasBrowser } from '../support/browser.ts'
import { useService } from '../support/service.ts'

const PAYMENTS = Number(process.env['CONSOLE_PAYMENTS'] ?? 2_400)
const RATE = 200
const BATCH = 20

/** At the rate, and as long again for a machine that does not keep up. */
const TEST_MS = 60_000 + (2 * PAYMENTS * 1_000) / RATE

/** What the list shows at most: 200 that arrived, and a page that was read. */
const ROWS_MAX = 250

/** What may be kept for reasons of its own, such as compiled code; 5,000 payments would take three times as much. */
const GROWTH_MAX_BYTES = 6 * 1024 * 1024

describe.skipIf(!hasBrowser)('the list of payments under load', () => {
  const service = useService()
  const open = useBrowser(service)

  test(`${PAYMENTS} payments at 200/s leave the page with as many rows and as much memory`, {
    timeout: TEST_MS,
  }, async () => {
    const { id: businessId } = await service.business('Busy')
    const { accountNumber } = await openAccount(service, businessId, { terms: { test: true } })
    const { page, problems, close } = await open('/payments?mode=test')
    await page.locator('.connection.live').waitFor()
    const cdp = await page.context().newCDPSession(page)
    await cdp.send('Performance.enable')
    await page.evaluate(WATCH_FRAMES)
    const record = (from: number, to: number) => recordPayments(accountNumber, from, to)

    // As they arrive.
    await record(0, PAYMENTS / 4)
    await shows(page, PAYMENTS / 4)
    const first = await memoryOf(cdp)
    await record(PAYMENTS / 4, PAYMENTS / 2)
    await shows(page, PAYMENTS / 2)
    const second = await memoryOf(cdp)
    expect(await rowsOf(page)).toBeLessThanOrEqual(ROWS_MAX)
    // While the viewer reads, they wait.
    await page.locator('tbody tr').nth(3).hover()
    await record(PAYMENTS / 2, (PAYMENTS * 3) / 4)
    await page.locator('.pill').waitFor()
    expect(await rowsOf(page)).toBeLessThanOrEqual(ROWS_MAX)
    const third = await memoryOf(cdp)
    await record((PAYMENTS * 3) / 4, PAYMENTS)
    const fourth = await memoryOf(cdp)
    await page.locator('.pill').click()
    // What arrives after the click is not shown while the pointer is over the rows.
    await page.mouse.move(0, 0)
    await shows(page, PAYMENTS)
    expect(await rowsOf(page)).toBeLessThanOrEqual(ROWS_MAX)

    const frames = (await page.evaluate('window.watchedFrames()')) as Frames
    report({ frames, memory: [first, second, third, fourth] })
    expect(second.heapBytes - first.heapBytes).toBeLessThan(GROWTH_MAX_BYTES)
    expect(fourth.heapBytes - third.heapBytes).toBeLessThan(GROWTH_MAX_BYTES)
    expect(second.nodes).toBeLessThan(first.nodes * 1.5)
    expect(fourth.nodes).toBeLessThan(third.nodes * 1.5)
    expect(problems).toEqual([])
    await close()
  })

  /** Records payments at the rate, as far as the machine keeps up; the amount of each says its number. */
  async function recordPayments(accountNumber: string, from: number, to: number): Promise<void> {
    const client = service.client(TransactionService)
    const startMs = Date.now()
    for (let at = from; at < to; at += BATCH) {
      const payments = Array.from({ length: Math.min(BATCH, to - at) }, (_, index) => ({
        bank: Bank.BANK_9PSB,
        accountNumber,
        sessionId: `load-${at + index + 1}`,
        amountMinor: BigInt(at + index + 1),
        payer: { name: 'BOLA ADE' },
      }))
      await client.recordPayments({ payments })
      const dueMs = startMs + ((at + BATCH - from) / RATE) * 1_000
      if (dueMs > Date.now()) await pause(dueMs - Date.now())
    }
  }
})

/** Waits until the payment of a number is the first row. */
function shows(page: Page, number: number) {
  return page
    .locator('tbody tr')
    .first()
    .getByText(naira(BigInt(number)), { exact: true })
    .waitFor({ timeout: 60_000 })
}

async function rowsOf(page: Page): Promise<number> {
  const rows = await page.locator('tbody tr').count()
  expect(rows).toBeGreaterThan(0)
  return rows
}

interface Memory {
  readonly heapBytes: number
  readonly nodes: number
}

/** What the page keeps, garbage not counted. */
async function memoryOf(cdp: CDPSession): Promise<Memory> {
  await cdp.send('HeapProfiler.collectGarbage')
  const { metrics } = await cdp.send('Performance.getMetrics')
  const of = (name: string) => metrics.find((metric) => metric.name === name)?.value ?? Number.NaN
  return { heapBytes: of('JSHeapUsedSize'), nodes: of('Nodes') }
}

interface Frames {
  readonly count: number
  readonly medianMs: number
  readonly p99Ms: number
  readonly maxMs: number
  readonly longTasks: number
  readonly longestTaskMs: number
}

/** Runs in the page. */
const WATCH_FRAMES = `{
  const gaps = []
  const tasks = []
  let before = performance.now()
  const onFrame = (now) => {
    gaps.push(now - before)
    before = now
    requestAnimationFrame(onFrame)
  }
  requestAnimationFrame(onFrame)
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) tasks.push(duration)
  }).observe({ entryTypes: ['longtask'] })
  window.watchedFrames = () => {
    const sorted = [...gaps].sort((a, b) => a - b)
    const at = (part) => sorted[Math.floor((sorted.length - 1) * part)] ?? 0
    return {
      count: gaps.length, medianMs: at(0.5), p99Ms: at(0.99), maxMs: at(1),
      longTasks: tasks.length, longestTaskMs: Math.max(0, ...tasks),
    }
  }
}`

/** Times depend on the machine: they are printed, and decide nothing. */
function report({ frames, memory }: { frames: Frames; memory: readonly Memory[] }): void {
  const ms = (value: number) => `${value.toFixed(1)} ms`
  const heaps = memory.map(({ heapBytes }) => `${(heapBytes / 1024 / 1024).toFixed(1)} MiB`)
  process.stdout.write(
    `console-load: ${PAYMENTS} payments; ${frames.count} frames, median ${ms(frames.medianMs)}, ` +
      `p99 ${ms(frames.p99Ms)}, longest ${ms(frames.maxMs)}; ${frames.longTasks} long tasks, ` +
      `longest ${ms(frames.longestTaskMs)}; heap at the quarters ${heaps.join(', ')}\n`,
  )
}
