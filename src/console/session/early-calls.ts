import { OPENED_PATH, SIGN_IN } from '../app/pages.ts'
import { CALLER_CALL, PAGE_CALLS } from './first-calls.ts'

/** The time-out of a unary call. A response that was not taken within this time is stale. */
export const CALL_MS = 30_000

/** The awaited responses, each for one call; undefined: the call failed. */
const responses = new Map<string, Promise<Response | undefined>>()

/**
 * Sends the first calls of the opened page while the console loads. Without a session they are refused, and the console
 * continues as if they had not been sent.
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

/** Sends a call and reads the body, because a response that is never taken would otherwise stay open. */
async function send(path: string, init: RequestInit): Promise<Response> {
  const response = await fetch(path, init)
  return new Response(await response.arrayBuffer(), response)
}

/** Forgets the responses, because another caller must not see them. */
export function forgetFirstCalls(): void {
  responses.clear()
}

/** Returns the response to an early call, once; undefined: the call was not sent early, or failed. */
export async function takeResponse(url: string, body: unknown): Promise<Response | undefined> {
  const key = `${new URL(url).pathname} ${body}`
  const sent = responses.get(key)
  responses.delete(key)
  const response = await sent
  return response?.ok ? response : undefined
}
