import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import ipaddr from 'ipaddr.js'

/** A nameserver on this machine (RFC 1035). */
export interface Nameserver {
  /** "127.0.0.1:5353" */
  readonly address: string
  /** The received questions: "name A", "name AAAA". */
  readonly asked: readonly string[]
  close(): Promise<void>
}

/** The addresses of a name; `hangs`: questions are dropped; `fails`: the response is SERVFAIL. */
export type Records =
  | {
      readonly ipv4?: readonly string[]
      readonly ipv6?: readonly string[]
      readonly delayMs?: number
    }
  | 'hangs'
  | 'fails'

const TYPES: Readonly<Record<number, 'A' | 'AAAA'>> = { 1: 'A', 28: 'AAAA' }
const NO_ERROR = 0
const SERVER_FAILED = 2
const NO_SUCH_NAME = 3

/** @param recordsOf returns undefined for an unknown name */
export async function startNameserver(
  recordsOf: (name: string) => Records | undefined,
): Promise<Nameserver> {
  const asked: string[] = []
  const socket = createSocket('udp4')
  const timers = new Set<NodeJS.Timeout>()
  socket.on('message', (query, peer) => {
    const { name, type, end } = readQuestion(query)
    asked.push(`${name} ${TYPES[type]}`)
    const records = recordsOf(name)
    if (records === 'hangs') return
    const code =
      records === 'fails' ? SERVER_FAILED : records === undefined ? NO_SUCH_NAME : NO_ERROR
    const given = typeof records === 'object' ? records : {}
    const addresses = (TYPES[type] === 'A' ? given.ipv4 : given.ipv6) ?? []
    const answer = writeAnswer(query.subarray(0, end), code, type, addresses.map(toBytes))
    const send = () => socket.send(answer, peer.port, peer.address)
    if (given.delayMs === undefined) send()
    else timers.add(setTimeout(send, given.delayMs))
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  return {
    address: `127.0.0.1:${socket.address().port}`,
    asked,
    close: async () => {
      for (const timer of timers) clearTimeout(timer)
      socket.close()
      await once(socket, 'close')
    },
  }
}

function readQuestion(query: Buffer) {
  const labels: string[] = []
  let at = 12
  for (let length = query[at]!; length > 0; length = query[at]!) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.'), type: query.readUInt16BE(at + 1), end: at + 5 }
}

/** @param question the query up to the end of its one question */
function writeAnswer(question: Buffer, code: number, type: number, records: readonly Buffer[]) {
  const head = Buffer.from(question)
  // Flags: a response, recursion desired and available.
  head.writeUInt16BE(0x8180 | code, 2)
  head.writeUInt16BE(records.length, 6)
  head.writeUInt32BE(0, 8)
  const answers = records.map((bytes) => {
    const record = Buffer.alloc(12)
    // A pointer to the name in the question.
    record.writeUInt16BE(0xc00c, 0)
    record.writeUInt16BE(type, 2)
    record.writeUInt16BE(1, 4)
    record.writeUInt32BE(60, 6)
    record.writeUInt16BE(bytes.length, 10)
    return Buffer.concat([record, bytes])
  })
  return Buffer.concat([head, ...answers])
}

function toBytes(address: string): Buffer {
  return Buffer.from(ipaddr.parse(address).toByteArray())
}
