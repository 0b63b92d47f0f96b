import { Code, ConnectError, type Interceptor } from '@connectrpc/connect'
import { createConnectTransport } from '@connectrpc/connect-web'
import { QueryClient } from '@tanstack/react-query'

/** For a call without a stream, in milliseconds. */
const CALL_MS = 30_000

/**
 * Calls the service that served the page, with the session's cookie.
 *
 * @param onSignedOut called when a call is refused because the session has ended
 */
export function createTransport(onSignedOut: () => void) {
  const noticeSignOut: Interceptor = (next) => async (request) => {
    try {
      return await next(request)
    } catch (error) {
      if (ConnectError.from(error).code === Code.Unauthenticated) onSignedOut()
      throw error
    }
  }
  return createConnectTransport({
    baseUrl: window.location.origin,
    useBinaryFormat: true,
    interceptors: [noticeSignOut],
    defaultTimeoutMs: CALL_MS,
    fetch: (input, init) => fetch(input, { ...init, credentials: 'same-origin' }),
  })
}

/** Reads are repeated where that may help; nothing else is. */
export function createQueries(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        gcTime: 60_000,
        refetchOnWindowFocus: false,
        retry: (failures, error) =>
          failures < 2 && ConnectError.from(error).code === Code.Unavailable,
      },
      mutations: { retry: false },
    },
  })
}
