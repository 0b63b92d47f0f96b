import { OPENED_PATH, SIGN_IN } from '../app/pages.ts'
import { CALLER_CALL, PAGE_CALLS } from './first-calls.ts'

/** A response that was not taken by then is old, in milliseconds. */
const KEPT_MS = 10_000

/** The responses that are awaited, each for one call; undefined: there was none. */
const responses = new Map<string, Promise<Response | undefined>>()

/**
 * Sends the calls that the opened page begins with, while the console loads. Without a session they are refused, and what
 * the console does then is as if they had not been sent.
 */
export function beginFirstCalls(): void {
  if (OPENED_PATH === SIGN_IN) return
  const pageCalls = window.location.search === '' ? (PAGE_CALLS[OPENED_PATH] ?? []) : []
  for (const { path, body } of [CALLER_CALL, ...pageCalls]) {
    const headers = { 'content-type': 'application/proto', 'connect-protocol-version': '1' }
    const sent = fetch(path, { method: 'POST', headers, body: Uint8Array.from(body) })
    responses.set(
      `${path} ${body}`,
      sent.catch(() => undefined),
    )
  }
  setTimeout(forgetFirstCalls, KEPT_MS)
}

/** Nobody else may see what was read for the caller of before. */
export function forgetFirstCalls(): void {
  responses.clear()
}

/** Returns the response to a call that was sent early, once; undefined: it was not, or it failed. */
export async function takeResponse(url: string, body: unknown): Promise<Response | undefined> {
  const key = `${new URL(url).pathname} ${body}`
  const sent = responses.get(key)
  responses.delete(key)
  const response = await sent
  return response?.ok ? response : undefined
}
