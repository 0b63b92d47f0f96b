import { expect, onTestFinished, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { freePort } from '../support/free-port.ts'
import { startProcess } from '../support/process.ts'
import { waitFor } from '../support/wait-for.ts'

const db = useDatabase()

/** Preloaded into the service: writes the address of each module of the client of NATS as it is loaded. */
const REPORT = `
  import { registerHooks } from 'node:module'
  registerHooks({
    load(url, context, next) {
      if (url.includes('/node_modules/@nats-io/')) process.stderr.write('loaded ' + url + '\\n')
      return next(url, context)
    },
  })`

async function start(environment: NodeJS.ProcessEnv) {
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(REPORT)}`
  const service = await startProcess({ DATABASE_URL: db.url, NODE_OPTIONS, ...environment }, true)
  onTestFinished(service.kill)
  return service
}

test('the client of NATS is loaded by the relay, and without RELAY_URL not at all', async () => {
  const without = await start({})
  expect((await fetch(`${without.httpUrl}/readyz`)).status).toBe(200)
  expect(await without.stop()).toBe(0)
  expect(without.output()).not.toContain('@nats-io')

  const relaying = await start({ RELAY_URL: `nats://127.0.0.1:${await freePort()}` })
  await waitFor(() => expect(relaying.output()).toMatch(/^loaded \S+\/@nats-io\/jetstream\//m))
})
