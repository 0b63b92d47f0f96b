import pino from 'pino'
import { expect, test } from 'vitest'
import type { Reason } from '../../../src/core/errors.ts'
import { createLogRefusal } from '../../../src/server/interceptors/refusal-log.ts'

function openLog() {
  const lines: Record<string, unknown>[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => lines.push(JSON.parse(line)) })
  const logRefusal = createLogRefusal(log)
  const refuse = (address: string, nowMs: number, reason: Reason = 'unauthorized') =>
    logRefusal({ address, reason }, reason, address, nowMs)
  return { lines, refuse }
}

test('an address gets 20 lines at once and one a second; the next states what was left out', () => {
  const { lines, refuse } = openLog()
  for (let each = 0; each < 1_000; each++) refuse('203.0.113.7', 0)
  expect(lines).toHaveLength(20)
  refuse('203.0.113.7', 1_000)
  expect(lines.at(-1)).toMatchObject({ address: '203.0.113.7', unlogged: 980 })
  refuse('203.0.113.8', 1_000)
  expect(lines.at(-1)).not.toHaveProperty('unlogged')
})

test('100,000 addresses together get 200 lines at once and 20 a second', () => {
  const { lines, refuse } = openLog()
  for (let each = 0; each < 100_000; each++)
    refuse(`2001:db8:${(each >> 8).toString(16)}:${each & 255}::1`, 0)
  expect(lines).toHaveLength(200)
  for (let each = 0; each < 1_000; each++) refuse(`203.0.113.${each & 255}`, 1_000)
  expect(lines).toHaveLength(220)
})

test('other refusals, which only callers get, are all logged', () => {
  const { lines, refuse } = openLog()
  for (let each = 0; each < 100; each++) refuse('203.0.113.7', 0, 'validation_failed')
  expect(lines).toHaveLength(100)
})
