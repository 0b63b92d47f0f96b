import { createServer, connect as dial, type Socket } from 'node:net'
import type { Pool } from 'pg'
import { lockWaits } from './database.ts'
import { listen } from './listen.ts'
import { waitUntil } from './wait-for.ts'

/**
 * A proxy in front of PostgreSQL that can hold a statement, so that two calls overlap at any statement of the first call. The
 * instance whose calls are held connects through the proxy; the other instance does not.
 */
export interface Gate {
  /** The database's URL through the proxy. */
  readonly url: string
  /** Excludes all statements that have passed so far, which belong to the instance's own work. */
  ignorePassed(): void
  /** Holds the nth statement from now on, counted from 0. */
  hold(nth: number): Held
  /**
   * Breaks the connection at the nth statement from now on: before the server gets it, or before the client gets its
   * result.
   *
   * @returns the statement, once it happened
   */
  cut(nth: number, loses: Loss): () => string | undefined
  close(): Promise<void>
}

export type Loss = 'statement' | 'result'

/** A statement that is held, or will be. */
interface Held {
  /** Its text, once it waits. */
  readonly waits: Promise<string>
  /** Lets the held statement and all others pass. */
  release(): void
}

/** @param never statements that are not held */
export async function startGate(databaseUrl: string, never: RegExp): Promise<Gate> {
  const target = new URL(databaseUrl)
  const ignored = new Set<string>()
  let isLearning = true
  let next: { nth: number; meet(text: string): Promise<Loss | undefined> } | undefined
  const sockets = new Set<Socket>()

  /** Called with each statement of a connection, before the server gets it. */
  const createPass = () => {
    let isForeground = false
    return async (text: string): Promise<Loss | undefined> => {
      if (isLearning) ignored.add(text)
      const ends = /^(commit|rollback|end)\b/i.test(text)
      const isOwn = ends ? isForeground : !ignored.has(text) && !never.test(text)
      isForeground = ends ? false : isForeground || isOwn
      if (!isOwn || next === undefined) return undefined
      next.nth -= 1
      return next.nth < 0 ? next.meet(text) : undefined
    }
  }

  const server = createServer((incoming) => {
    const outgoing = dial(Number(target.port), target.hostname)
    for (const [socket, other] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const) {
      sockets.add(socket)
      socket.on('error', () => other.destroy())
      socket.on('close', () => {
        sockets.delete(socket)
        // A server whose result is lost finishes its statement.
        if (!other.writableEnded) other.destroy()
      })
    }
    outgoing.pipe(incoming)
    const pass = createPass()
    const split = splitStatements()
    let passed = Promise.resolve()
    incoming.on('data', (bytes: Buffer) => {
      for (const { text, messages } of split(bytes)) {
        passed = passed.then(async () => {
          const loss = text === undefined ? undefined : await pass(text)
          if (loss === 'result') outgoing.unpipe(incoming).resume().end(messages)
          else if (loss === undefined) outgoing.write(messages)
          if (loss !== undefined) incoming.destroy()
        })
      }
    })
    incoming.on('end', () => void passed.then(() => outgoing.end()))
  })
  const url = new URL(databaseUrl)
  url.host = `127.0.0.1:${await listen(server)}`
  return {
    url: url.href,
    ignorePassed() {
      isLearning = false
    },
    hold(nth) {
      const waits = Promise.withResolvers<string>()
      const released = Promise.withResolvers<void>()
      next = {
        nth,
        async meet(text) {
          next = undefined
          waits.resolve(text)
          await released.promise
          return undefined
        },
      }
      const release = () => {
        next = undefined
        released.resolve()
      }
      return { waits: waits.promise, release }
    },
    cut(nth, loses) {
      let lost: string | undefined
      next = {
        nth,
        async meet(text) {
          next = undefined
          lost = text
          return loses
        },
      }
      return () => {
        next = undefined
        return lost
      }
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}

/**
 * Splits what a client sends into statements: a simple query, or the messages of the extended protocol up to Sync.
 * Other messages come without a text. See "Message Formats" in PostgreSQL's documentation.
 */
function splitStatements() {
  const texts = new Map<string, string>()
  let rest = Buffer.alloc(0)
  let isStarted = false
  let statement: { text: string | undefined; messages: Buffer[] } = {
    text: undefined,
    messages: [],
  }
  return (bytes: Buffer): { text: string | undefined; messages: Buffer }[] => {
    rest = Buffer.concat([rest, bytes])
    const found: { text: string | undefined; messages: Buffer }[] = []
    for (;;) {
      const start = isStarted ? 1 : 0
      if (rest.length < start + 4) return found
      const length = start + rest.readInt32BE(start)
      if (rest.length < length) return found
      const message = rest.subarray(0, length)
      rest = rest.subarray(length)
      const type = isStarted ? String.fromCharCode(message[0] as number) : ''
      // A request for TLS is followed by another one, the startup message by typed ones.
      if (!isStarted) isStarted = message.readInt32BE(4) !== TLS_REQUEST
      const [first = '', second = ''] = message.subarray(5).toString('utf8').split('\0', 2)
      if (type === 'P') texts.set(first, second)
      if (type === 'P') statement.text = second
      if (type === 'B') statement.text ??= texts.get(second)
      if (type === 'Q') statement.text = first
      statement.messages.push(message)
      if (!['P', 'B', 'D', 'E', 'C'].includes(type)) {
        found.push({ text: statement.text, messages: Buffer.concat(statement.messages) })
        statement = { text: undefined, messages: [] }
      }
    }
  }
}

const TLS_REQUEST = 80_877_103

/**
 * Runs the second call while the nth statement of the first call is held, until the second call has ended or waits for a
 * lock.
 *
 * @param first a call of the instance behind the proxy
 * @returns the held statement; undefined if the first call has fewer statements, so that it ended before the second began
 */
export async function overlap<First, Second>(
  { gate, pool }: { readonly gate: Gate; readonly pool: Pool },
  nth: number,
  first: () => Promise<First>,
  second: () => Promise<Second>,
): Promise<{ readonly held: string | undefined; readonly results: [First, Second] }> {
  const hold = gate.hold(nth)
  try {
    const firstResult = first()
    // The caller gets its failure with the results.
    firstResult.catch(() => undefined)
    const held = await Promise.race([hold.waits, firstResult.then(() => undefined)])
    const secondResult = second()
    if (held !== undefined) {
      let isDone = false
      const done = secondResult.then(
        () => (isDone = true),
        () => (isDone = true),
      )
      await Promise.race([done, waitUntil(async () => isDone || (await lockWaits(pool)) > 0)])
    }
    hold.release()
    return { held, results: await Promise.all([firstResult, secondResult]) }
  } finally {
    hold.release()
  }
}
