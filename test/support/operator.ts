import { type ContextValues, createContextValues, type HandlerContext } from '@connectrpc/connect'
import {
  auditKeysKey,
  BOOTSTRAP,
  callerKey,
  callSourceKey,
  systemActor,
} from '../../src/auth/caller.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { MASTER_KEY } from './master-key.ts'

const auditKeys = createEncrypter(MASTER_KEY)

/** The service as an actor, in tests that call use cases directly. */
export const SYSTEM = systemActor(auditKeys)

/** Makes a call as the operator, with the admin token of the settings. */
export function setOperator(values: ContextValues): ContextValues {
  const scopes = new Set(['admin'] as const)
  return values
    .set(callerKey, { kind: 'internal', tokenId: BOOTSTRAP, name: BOOTSTRAP, scopes })
    .set(callSourceKey, { address: '127.0.0.1', requestId: 'req_1' })
    .set(auditKeysKey, auditKeys)
}

/** The context of such a call, for implementations that are called without a server. */
export const asOperator = { values: setOperator(createContextValues()) } as HandlerContext
