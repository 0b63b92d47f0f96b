import { OPENED_PATH, SIGN_IN } from '../app/pages.ts'
import { CALLER_CALL, PAGE_CALLS } from './first-calls.ts'

/** For a call without a stream, in milliseconds. A response that was not taken by then is old. */
export const CALL_MS = 30_000

/** The responses that are awaited, each for one call; undefined: there was none. */
const responses = new Map<string, Promise<Response | undefined>>()

/**
 * Sends the calls that the opened page begins with, while the console loads. Without a session they are refused, and what
 * the console does then is as if they had not been sent.
 */
export function beginFirstCalls(): void {
  if (OPENED_PATH === SIGN_IN) return
  const pageCalls = window.location.search === '' ? (PAGE_CALLS[OPENED_PATH] ?? []) : []
  const headers = { 'content-type': 'application/proto', 'connect-protocol-version': '1' }
  const signal = AbortSignal.timeout(CALL_MS)
  for (const { path, body } of [CALLER_CALL, ...pageCalls]) {
    const sent = send(path, { method: 'POST', headers, body: Uint8Array.from(body), signal })
    responses.set(
      `${path} ${body}`,
      sent.catch(() => undefined),
    )
  }
  signal.addEventListener('abort', forgetFirstCalls)
}

/** Reads the body too: a response that is never taken would otherwise stay open. */
async function send(path: string, init: RequestInit): Promise<Response> {
  const response = await fetch(path, init)
  return new Response(await response.arrayBuffer(), response)
}

/** Another caller must not see what was read for this one. */
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
