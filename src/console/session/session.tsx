import type { DescMessage, DescMethod, DescMethodUnary, MessageInitShape } from '@bufbuild/protobuf'
import { useQuery } from '@connectrpc/connect-query'
import { createContext, useContext } from 'react'
import type { Branding, Caller, Service } from '../../../gen/inflow/session/v1/session_pb.ts'
import { type MethodNeeds, needsOf } from './method-needs.ts'

interface Session {
  readonly caller: Caller
  readonly service: Service | undefined
  /** The branding of the portal; undefined: it looks like the console of operators. */
  readonly branding: Branding | undefined
}

export const SessionContext = createContext<Session | undefined>(undefined)

export function useSession(): Caller {
  return useSessionContext().caller
}

/** The service that serves the page. */
export function useService(): Service | undefined {
  return useSessionContext().service
}

/** The branding of the portal; undefined: it looks like the console of operators. */
export function useBranding(): Branding | undefined {
  return useSessionContext().branding
}

function useSessionContext(): Session {
  const session = useContext(SessionContext)
  if (session === undefined) throw new Error('a page is inside of a session')
  return session
}

/** Whether the caller's token is restricted to businesses, so that the console is a portal. */
export function useRestricted(): boolean {
  return useSession().businessIds.length > 0
}

/** The only business that the caller may see, whose portal this is; undefined: there are several. */
export function useOnlyBusiness(): string | undefined {
  const { businessIds } = useSession()
  return businessIds.length === 1 ? businessIds[0] : undefined
}

/** Whether the caller has only scopes to read, and so no decisions. */
export function useReader(): boolean {
  return useSession().scopes.every((scope) => scope === 'read' || scope === 'events:subscribe')
}

/**
 * Returns whether the caller may call a method, by the policy of the method. Forbidden actions are not shown.
 * The server checks every call in any case.
 */
export function useMay(): (method: DescMethod | MethodNeeds) => boolean {
  const { scopes, businessIds } = useSession()
  return (method) => {
    const needs = 'scopes' in method ? method : needsOf(method)
    if (needs.isUnrestricted && businessIds.length > 0) return false
    return needs.scopes.some((scope) => scopes.includes(scope))
  }
}

/** Calls a method if the caller may call it. @param isKnown false: the request is not complete yet */
export function useAllowedQuery<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  request: MessageInitShape<I>,
  isKnown = true,
) {
  const mayCall = useMay()(method)
  return useQuery(method, request, { enabled: mayCall && isKnown })
}
