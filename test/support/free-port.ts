import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'

/** What systems give to connections begins at 32768 or above: none takes one of these meanwhile. */
const FIRST = 20_000
const LAST = 32_000
const TRIES = 20

/** A port that was free a moment ago: for who has to be named before it starts, and started again. */
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
