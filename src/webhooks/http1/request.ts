import { assert } from '../../errors.ts'

/** What no value of a header has: control characters, and letters that are not latin1. */
const NOT_SENDABLE = /[^\t\x20-\x7e\x80-\xff]/

/** The part of a request's head that is the same for all requests to a URL. */
export function requestStart(url: URL): string {
  return `POST ${url.pathname}${url.search} HTTP/1.1\r\nhost: ${url.host}\r\nconnection: keep-alive\r\n`
}

/**
 * A whole POST, to be written at once.
 *
 * @param start from `requestStart`
 * @param headers their names are ours
 * @throws for a value that must not be sent
 */
export function encodeRequest(
  start: string,
  headers: Readonly<Record<string, string>>,
  body: string | Buffer,
): Buffer {
  let head = start
  for (const name of Object.keys(headers)) {
    const value = headers[name] ?? ''
    assert(!NOT_SENDABLE.test(value), 'the value of a header can be sent')
    head += `${name}: ${value}\r\n`
  }
  const content = typeof body === 'string' ? Buffer.from(body) : body
  head += `content-length: ${content.length}\r\n\r\n`
  const request = Buffer.allocUnsafe(head.length + content.length)
  request.write(head, 'latin1')
  content.copy(request, head.length)
  return request
}
