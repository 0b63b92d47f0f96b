import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'

/** Below the ephemeral ports, which begin at 32768: no connection takes one of these meanwhile. */
const FIRST = 20_000
const LAST = 32_000
const TRIES = 20

/** A free port, for servers whose port must be known before they start, and survive a restart. */
export async function freePort(): Promise<string> {
  for (let tries = 1; ; tries++) {
    const port = randomInt(FIRST, LAST)
    const server = createServer().listen(port, '127.0.0.1')
    try {
      await once(server, 'listening')
    } catch (error) {
      if (tries === TRIES) throw error
      continue
    }
    await new Promise((resolve) => server.close(resolve))
    return String(port)
  }
}
