import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'

/** Below the ephemeral ports, which begin at 32768: no connection takes one of these meanwhile. */
const FIRST = 20_000
const LAST = 32_000

/** Each worker of a run has a share of its own. */
const SHARES = 8
const WIDTH = (LAST - FIRST) / SHARES
const from = FIRST + (Number(process.env['VITEST_POOL_ID'] ?? 0) % SHARES) * WIDTH

const TRIES = 20

/** Those of this test file, which may not have begun to listen. */
const given = new Set<number>()

/** A free port, for servers whose port must be known before they start, and survive a restart. */
export async function freePort(): Promise<string> {
  for (let tries = 1; ; tries++) {
    const port = randomInt(from, from + WIDTH)
    if (given.has(port)) continue
    const server = createServer().listen(port, '127.0.0.1')
    try {
      await once(server, 'listening')
    } catch (error) {
      if (tries === TRIES) throw error
      continue
    }
    await new Promise((resolve) => server.close(resolve))
    given.add(port)
    return String(port)
  }
}
