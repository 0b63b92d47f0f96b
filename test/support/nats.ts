import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  type StoredMsg,
  type StreamInfo,
} from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { makeFolder } from './folder.ts'
import { freePort } from './free-port.ts'
import { WAIT_LIMIT_MS } from './wait-for.ts'

/** Debian installs the server into a folder that may be missing from the PATH of a user. */
const env = { ...process.env, PATH: `${process.env['PATH']}:/usr/sbin` }

/** Whether the server is installed on this machine. Debian: `apt-get install nats-server`. */
export const hasNats = spawnSync('nats-server', ['--version'], { env }).status === 0

/** A NATS server with JetStream, in a separate process. */
export interface NatsServer {
  /** `host:port` */
  readonly address: string
  readonly url: string
  readonly pid: number
  /** Kills the server, like a crash. */
  kill(): Promise<void>
  /** Starts it again with the same port and store. */
  restart(): Promise<void>
  /** Copies its store, while it is down. */
  saveStore(): Promise<void>
  /** Replaces the store by the saved one, while the server is down. */
  restoreStore(): Promise<void>
  /** Ends it, and removes the store. */
  stop(): Promise<void>
}

/** How much of the output is shown if the server ends by itself. */
const OUTPUT_MAX = 10_000

/** A start takes tenths of a second; on a machine that stands still, longer. */
const TRIES = 6_000
const RETRY_MS = 50

/** @param extra arguments of the command line */
export async function startNats(...extra: readonly string[]): Promise<NatsServer> {
  const folder = await makeFolder('nats')
  const port = await freePort()
  const address = `127.0.0.1:${port}`
  const store = join(folder, 'store')
  const saved = join(folder, 'saved')
  let child: ChildProcess
  const start = async (): Promise<void> => {
    const options = ['--jetstream', '--store_dir', store, '--addr', '127.0.0.1', '--port', port]
    const started = spawn('nats-server', [...options, ...extra], {
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let output = ''
    started.stderr.on('data', (text) => {
      output = (output + text).slice(-OUTPUT_MAX)
    })
    started.once('exit', (code, signal) => {
      if (signal !== 'SIGKILL')
        console.error(`nats-server ended with ${code ?? signal}:\n${output}`)
    })
    child = started
    for (let tries = 1; !(await responds(address)); tries++) {
      if (tries === TRIES || started.exitCode !== null) throw new Error(`nats-server: ${output}`)
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
    }
  }
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }
  await start()
  return {
    address,
    url: `nats://${address}`,
    get pid() {
      return child.pid!
    },
    kill,
    restart: start,
    async saveStore() {
      await rm(saved, { recursive: true, force: true })
      await cp(store, saved, { recursive: true })
    },
    async restoreStore() {
      await rm(store, { recursive: true, force: true })
      await cp(saved, store, { recursive: true })
    },
    async stop() {
      await kill()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Whether a server accepts connections, or refuses the connection because the password is missing. */
async function responds(address: string): Promise<boolean> {
  try {
    const probe = await connect({ servers: address, reconnect: false })
    await probe.close()
    return true
  } catch (error) {
    return /authorization/i.test(String(error))
  }
}

/** Reads streams in a test. */
export interface StreamReader {
  readonly connection: NatsConnection
  readonly manager: JetStreamManager
  /** All stored messages of a stream, in order. */
  messages(stream: string): Promise<StoredMessage[]>
  info(stream: string): Promise<StreamInfo>
  last(stream: string): Promise<StoredMsg | null>
  close(): Promise<void>
}

/** One message of a stream. */
export interface StoredMessage {
  readonly sequence: number
  readonly subject: string
  readonly header: (name: string) => string
  readonly body: Uint8Array
}

const FETCH_MAX = 5_000

export async function openReader(server: Pick<NatsServer, 'address'>): Promise<StreamReader> {
  const connection = await connect({ servers: server.address, reconnect: false })
  const options = { timeout: WAIT_LIMIT_MS }
  const manager = await jetstreamManager(connection, options)
  return {
    connection,
    manager,
    async messages(stream) {
      const { state } = await manager.streams.info(stream)
      const consumer = await jetstream(connection, options).consumers.get(stream)
      const found: StoredMessage[] = []
      while (found.length < state.messages) {
        const batch = Math.min(FETCH_MAX, state.messages - found.length)
        for await (const { seq, subject, headers, data } of await consumer.fetch({
          max_messages: batch,
          expires: 10_000,
        })) {
          found.push({
            sequence: seq,
            subject,
            header: (name) => headers?.get(name) ?? '',
            body: data,
          })
        }
      }
      return found
    },
    info: (stream) => manager.streams.info(stream),
    async last(stream) {
      // NATS 2.9 crashes now and then when it is asked for the last message of a stream that is empty.
      const { state } = await manager.streams.info(stream)
      return state.messages === 0 ? null : manager.streams.getMessage(stream, { last_by_subj: '>' })
    },
    close: () => connection.close(),
  }
}
