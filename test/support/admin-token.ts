import type { Interceptor } from '@connectrpc/connect'

export const ADMIN_TOKEN = 'test-admin-token-0123456789-abcdef'

/** Sends a credential with every call. */
export function bearer(token: string): Interceptor {
  return (next) => (request) => {
    request.header.set('authorization', `Bearer ${token}`)
    return next(request)
  }
}
