import type { Socket } from 'node:net'
import { parseProxyHeader } from './proxy-header.ts'

/**
 * Reads the header of the PROXY protocol from a new connection, and leaves what follows on the
 * socket. A connection whose header is wrong, or not complete in time, is closed.
 *
 * @param done called with the client's address, at most once, and not for a closed connection
 */
export function readProxyHeader(
  socket: Socket,
  timeoutMs: number,
  done: (address: string) => void,
): void {
  const own = socket.remoteAddress ?? ''
  let received: Buffer = Buffer.alloc(0)
  const timer = setTimeout(() => socket.destroy(), timeoutMs)
  const stop = (): void => {
    clearTimeout(timer)
    socket.off('readable', read)
    socket.off('close', stop)
  }
  // Bounded: a header that is too long is invalid, and a read returns at most one buffer of Node.
  const read = (): void => {
    const chunk: Buffer | null = socket.read()
    if (chunk === null) return
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk])
    const header = parseProxyHeader(received)
    if (header.state === 'incomplete') return
    stop()
    if (header.state === 'invalid') {
      socket.destroy()
      return
    }
    const rest = received.subarray(header.length)
    if (rest.length > 0) socket.unshift(rest)
    done(header.address ?? own)
  }
  // Errors before an HTTP/2 or TLS session listens are ignored.
  socket.on('error', () => undefined)
  socket.on('readable', read)
  socket.on('close', stop)
}
