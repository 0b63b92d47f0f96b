import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import type { Make } from './scene.ts'

/** A call of each rpc of sessions that goes well. */
export const SESSION_HAPPY: Readonly<Record<string, Make>> = {
  'SessionService.GetCaller': () => ({}),
  'SessionService.CreateSignInCode': () => ({}),
  'SessionService.ListSessions': () => ({ activeOnly: true, pageSize: 1 }),
  'SessionService.RevokeSession': ({ revokedSessionId }) => ({ sessionId: revokedSessionId }),
  'SessionService.CreatePortalLink': ({ businessId }, fresh) => ({
    businessId,
    scopes: ['read', 'payments:write'],
    ttl: { seconds: 3_600n },
    description: fresh,
  }),
  'SessionService.ListPortalLinks': ({ businessId }) => ({ businessId, pageSize: 1 }),
  'SessionService.RevokePortalLink': async ({ service, businessId }) => {
    const { portalLink } = await service.client(SessionService).createPortalLink({ businessId })
    return { portalLinkId: portalLink!.id }
  },
}

/** A call for each error that an rpc of sessions names. */
export const SESSION_ERRORS: Readonly<Record<string, Make>> = {
  'SessionService.ListSessions validation_failed': () => ({ pageToken: 'garbage' }),
  'SessionService.RevokeSession validation_failed': () => ({}),
  'SessionService.RevokeSession not_found': () => ({ sessionId: 'ses_unknown' }),
  'SessionService.CreatePortalLink validation_failed': ({ businessId }) => ({
    businessId,
    scopes: ['admin'],
    ttl: { seconds: 59n },
  }),
  'SessionService.CreatePortalLink not_found': () => ({ businessId: 'biz_unknown' }),
  'SessionService.ListPortalLinks validation_failed': () => ({ pageSize: 201 }),
  'SessionService.RevokePortalLink validation_failed': () => ({}),
  'SessionService.RevokePortalLink not_found': () => ({ portalLinkId: 'plk_unknown' }),
}
