import type { DescMethod } from '@bufbuild/protobuf'
import type { Interceptor } from '@connectrpc/connect'
import { restrictionOf } from '../../caller.ts'
import { Fault } from '../../errors.ts'
import { type Reach, type Resource, reachOf } from '../reach.ts'

/** The business that a resource belongs to; undefined when there is no such resource. */
export type Owners = Readonly<Record<Resource, (id: string) => Promise<string | undefined>>>

/** The name of no resource. */
const NOBODYS = '-'

type Fields = Record<string, unknown>

/**
 * Keeps tokens that are restricted to businesses to them, as the table of reaches says. It runs
 * after validation, on the very texts that the implementation gets.
 *
 * Naming another business is refused, whether it exists or not. What belongs to another business
 * is asked for under a name that nothing has, so that the answer cannot differ from the one of what
 * does not exist.
 */
export function restriction(owners: Owners): Interceptor {
  return (next) => (request) => {
    const allowed = restrictionOf(request.contextValues)
    if (allowed === undefined) return next(request)
    if (request.stream) {
      const message = narrowed(request.message, request.method, allowed, owners)
      return next({ ...request, message })
    }
    const fields = request.message as unknown as Fields
    return narrow(fields, reachOf(request.method), allowed, owners).then(() => next(request))
  }
}

async function* narrowed<T>(
  messages: AsyncIterable<T>,
  method: DescMethod,
  allowed: ReadonlySet<string>,
  owners: Owners,
): AsyncGenerator<T> {
  for await (const message of messages) {
    await narrow(message as unknown as Fields, reachOf(method), allowed, owners)
    yield message
  }
}

/** @throws Fault permission_denied */
async function narrow(
  fields: Fields,
  reach: Reach,
  allowed: ReadonlySet<string>,
  owners: Owners,
): Promise<void> {
  switch (reach.by) {
    case 'unrestricted':
      throw new Fault(
        'permission_denied',
        'The token is restricted to businesses, and this method is not for such tokens',
      )
    case 'business':
      return requireAllowed([fields[reach.field]], allowed)
    case 'filtered': {
      const named = reach.field === undefined ? '' : fields[reach.field]
      return named === '' ? undefined : requireAllowed([named], allowed)
    }
    case 'businesses': {
      const named = fields[reach.field] as readonly string[]
      if (named.length > 0) return requireAllowed(named, allowed)
      fields[reach.field] = [...allowed]
      return undefined
    }
    case 'owned':
      for (const [field, resource] of Object.entries(reach.fields)) {
        const id = fields[field]
        if (typeof id !== 'string' || id === '') continue
        const owner = await owners[resource](id)
        if (owner === undefined || !allowed.has(owner)) fields[field] = NOBODYS
      }
  }
}

function requireAllowed(named: readonly unknown[], allowed: ReadonlySet<string>): void {
  if (named.every((id) => typeof id === 'string' && allowed.has(id))) return
  throw new Fault('permission_denied', 'The token is restricted to other businesses')
}
