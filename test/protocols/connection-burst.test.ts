import { readFileSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { startInstance } from '../support/instance.ts'

const db = useDatabase()

/** Above Node's default backlog of 511. */
const BURST = 700

const CONNECT = `
const { connect } = require('node:net')
const { ports, burst, connected } = require('node:worker_threads').workerData
for (const port of ports) {
  for (let i = 0; i < burst; i++) {
    connect(port, '127.0.0.1', () => {
      Atomics.add(connected, 0, 1)
      Atomics.notify(connected, 0)
    }).on('error', () => undefined)
  }
}`

/** The longest backlog that the kernel allows; elsewhere than on Linux it is not known. */
function somaxconn(): number {
  try {
    return Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8'))
  } catch {
    return 0
  }
}

test.skipIf(somaxconn() < BURST)(
  'connections that arrive while the process is busy wait until it accepts them',
  async () => {
    const { httpUrl, grpcUrl, close } = await startInstance(db.url)
    onTestFinished(close)
    const ports = [httpUrl, grpcUrl].map((url) => Number(new URL(url).port))
    const connected = new Int32Array(new SharedArrayBuffer(4))
    const workerData = { ports, burst: BURST, connected }
    const worker = new Worker(CONNECT, { eval: true, workerData })
    onTestFinished(async () => void (await worker.terminate()))
    const until = Date.now() + 20_000
    for (let count = 0; count < 2 * BURST && Date.now() < until; ) {
      Atomics.wait(connected, 0, count, 1_000)
      count = Atomics.load(connected, 0)
    }
    expect(Atomics.load(connected, 0)).toBe(2 * BURST)
  },
  60_000,
)
