import type { Interceptor } from '@connectrpc/connect'
import { type Caller, callerKey, standingKey } from '../../caller.ts'
import { Fault } from '../../errors.ts'
import { type Access, accessOf } from '../access.ts'
import { originKey } from '../calls.ts'

/** Finds out who presents a credential; undefined when nobody is known by it. */
export interface Authenticators {
  /** May throw Fault address_not_allowed. */
  readonly secretKey: (secret: string, address: string) => Promise<Caller | undefined>
  readonly token: (token: string) => Promise<Caller | undefined>
  /** By the URI in a client's certificate, which the gRPC door has verified. */
  readonly certificate?: (uri: string) => Caller | undefined
}

/** Lets a call through only with the credential that the access table asks for. */
export function authentication(authenticators: Authenticators): Interceptor {
  return (next) => async (request) => {
    const access = accessOf(request.service, request.method)
    const authorization = request.header.get('authorization')
    const credential = bearer(authorization)
    const find = access === 'secret key' ? authenticators.secretKey : authenticators.token
    const address = request.contextValues.get(originKey)?.address ?? ''
    let caller = credential === undefined ? undefined : await find(credential, address)
    // A token, when one is given, decides alone: a wrong one is not made good by a certificate.
    if (authorization === null && access !== 'secret key') {
      const uri = request.contextValues.get(originKey)?.clientUri
      caller = uri === undefined ? undefined : authenticators.certificate?.(uri)
    }
    if (caller === undefined) throw unauthorized(access)
    if (access !== 'secret key') requireScope(caller, access)
    request.contextValues.set(callerKey, caller)
    if (request.stream && credential !== undefined) {
      request.contextValues.set(
        standingKey,
        async () => (await find(credential, address)) !== undefined,
      )
    }
    return next(request)
  }
}

function bearer(header: string | null): string | undefined {
  if (header === null || header.length > 512) return undefined
  return /^Bearer +(\S+)$/i.exec(header)?.[1]
}

function unauthorized(access: Access): Fault {
  const what = access === 'secret key' ? 'secret key' : 'token'
  return new Fault('unauthorized', `A valid ${what} is required: Authorization: Bearer <${what}>`)
}

function requireScope(caller: Caller, scopes: Exclude<Access, string>): void {
  const held = caller.kind === 'internal' ? caller.scopes : new Set<string>()
  if (held.has('admin') || scopes.some((scope) => held.has(scope))) return
  throw new Fault('permission_denied', `The token lacks the scope ${scopes.join(' or ')}`)
}
