import type { DescMessage, DescMethod, DescMethodUnary, MessageInitShape } from '@bufbuild/protobuf'
import { useQuery } from '@connectrpc/connect-query'
import { createContext, useContext } from 'react'
import type { Branding, Caller, Service } from '../../../gen/inflow/session/v1/session_pb.ts'
import { type MethodNeeds, needsOf } from './method-needs.ts'

interface Session {
  readonly caller: Caller
  readonly service: Service | undefined
  /** How the portal of a business looks; undefined: as the console of operators does. */
  readonly branding: Branding | undefined
}

export const SessionContext = createContext<Session | undefined>(undefined)

export function useSession(): Caller {
  return useContextOf(SessionContext).caller
}

/** The service that serves the page. */
export function useService(): Service | undefined {
  return useContextOf(SessionContext).service
}

/** How the portal of a business looks; undefined: as the console of operators does. */
export function useBranding(): Branding | undefined {
  return useContextOf(SessionContext).branding
}

function useContextOf(context: typeof SessionContext): Session {
  const session = useContext(context)
  if (session === undefined) throw new Error('a page is inside of a session')
  return session
}

/** Whether the caller's token is restricted to businesses: then this is a portal. */
export function useRestricted(): boolean {
  return useSession().businessIds.length > 0
}

/** The one business that may be seen: this is its portal. Undefined: there are several. */
export function useOnlyBusiness(): string | undefined {
  const { businessIds } = useSession()
  return businessIds.length === 1 ? businessIds[0] : undefined
}

/** Whether the caller's scopes only read: nothing is for it to decide. */
export function useReader(): boolean {
  return useSession().scopes.every((scope) => scope === 'read' || scope === 'events:subscribe')
}

/**
 * Returns whether the caller may call a method, by the method's own policy: what it may not do is not shown.
 * The server decides anyway.
 */
export function useMay(): (method: DescMethod | MethodNeeds) => boolean {
  const { scopes, businessIds } = useSession()
  return (method) => {
    const needs = 'scopes' in method ? method : needsOf(method)
    if (needs.isUnrestricted && businessIds.length > 0) return false
    return needs.scopes.some((scope) => scopes.includes(scope))
  }
}

/** Reads what a method returns, if the caller may call it. @param isKnown false: the request is not complete yet */
export function useAllowedQuery<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  request: MessageInitShape<I>,
  isKnown = true,
) {
  const mayCall = useMay()(method)
  return useQuery(method, request, { enabled: mayCall && isKnown })
}
