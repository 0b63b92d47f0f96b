import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Reason } from '../../../src/core/errors.ts'
import { createLogRefusal } from '../../../src/server/interceptors/observation.ts'
import { captureLog } from '../../support/captured-log.ts'

function openLog() {
  const ends: (() => void)[] = []
  const { log, lines } = captureLog()
  const logRefusal = createLogRefusal(log, (end) => ends.push(end))
  const refuse = (address: string, reason: Reason = 'unauthorized') =>
    logRefusal({ address, reason }, reason, address)
  /** Ends the window. */
  const end = () => {
    for (const each of ends.splice(0)) each()
  }
  return { lines, refuse, end }
}

test('100,000 addresses together get 200 lines in a window, and one for all others', () => {
  const { lines, refuse, end } = openLog()
  for (let each = 0; each < 100_000; each++)
    refuse(`2001:db8:${(each >> 8).toString(16)}:${each & 255}::1`)
  expect(lines).toHaveLength(200)
  end()
  expect(lines.slice(200)).toMatchObject([{ left_out: 99_800 }])
  expect(lines.at(-1)).not.toHaveProperty('address_group')
  for (let each = 0; each < 1_000; each++) refuse(`203.0.113.${each & 255}`)
  expect(lines).toHaveLength(401)
})

test('in any flood, a window has at most so many lines, and each refusal is a line or counted', () => {
  const refusals = fc.array(fc.nat(30), { maxLength: 400 })
  fc.assert(
    fc.property(fc.array(refusals, { minLength: 1, maxLength: 4 }), (windows) => {
      const { lines, refuse, end } = openLog()
      for (const addresses of windows) {
        const before = lines.length
        for (const address of addresses) refuse(`203.0.113.${address}`)
        const logged = lines.slice(before)
        expect(logged.length).toBeLessThanOrEqual(200)
        const byAddress = Map.groupBy(logged, (line) => line['address'])
        for (const own of byAddress.values()) expect(own.length).toBeLessThanOrEqual(20)
        end()
        const leftOut = lines.slice(before + logged.length).map((line) => Number(line['left_out']))
        const counted = leftOut.reduce((sum, count) => sum + count, 0)
        expect(logged.length + counted).toBe(addresses.length)
      }
    }),
  )
})

test('other refusals, which only callers get, are all logged', () => {
  const { lines, refuse } = openLog()
  for (let each = 0; each < 100; each++) refuse('203.0.113.7', 'validation_failed')
  expect(lines).toHaveLength(100)
})
