import { type ContextValues, createContextValues, type HandlerContext } from '@connectrpc/connect'
import { BOOTSTRAP, callerKey, callSourceKey } from '../../src/auth/caller.ts'

/** Makes a call as the operator, with the admin token of the settings. */
export function setOperator(values: ContextValues): ContextValues {
  const scopes = new Set(['admin'] as const)
  return values
    .set(callerKey, { kind: 'internal', tokenId: BOOTSTRAP, name: BOOTSTRAP, scopes })
    .set(callSourceKey, { address: '127.0.0.1', requestId: 'req_1' })
}

/** The context of such a call, for implementations that are called without a server. */
export const asOperator = { values: setOperator(createContextValues()) } as HandlerContext
