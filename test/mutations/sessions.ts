// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are source code
import { inFile } from './mutation.ts'

const LIFETIME = 'test/auth/sessions/lifetime.test.ts'
const SIGN_IN = 'test/auth/sessions/sign-in.test.ts'
const REVOCATION = 'test/auth/sessions/revocation.test.ts'

const session = inFile('src/auth/sessions/authenticate-session.ts', LIFETIME)
const store = inFile('src/auth/sessions/store.ts', SIGN_IN, REVOCATION)
const open = inFile('src/auth/sessions/open-session.ts', LIFETIME)
const codes = inFile('src/auth/sessions/sign-in-codes.ts', SIGN_IN)
const exchange = inFile('src/auth/sessions/sign-in.ts', LIFETIME)
const cookie = inFile(
  'src/server/http/session-cookie.ts',
  SIGN_IN,
  'test/auth/sessions/origins.test.ts',
)
const routes = inFile('src/server/http/console-sessions.ts', SIGN_IN)
const connect = inFile('src/server/connect/connect.ts', SIGN_IN)
const caller = inFile('src/server/interceptors/authentication.ts', SIGN_IN)
const oidc = inFile('src/auth/oidc/sign-in-user.ts', 'test/auth/oidc/oidc.test.ts')
const provider = inFile('src/auth/oidc/provider.ts', 'test/auth/oidc/oidc.test.ts')
const claims = inFile('src/auth/oidc/map-claims.ts', 'test/auth/oidc/map-claims.test.ts')

export const SESSIONS = [
  session(
    'a session of ADMIN_TOKEN outlives a change of ADMIN_TOKEN',
    'if (row.callerId === BOOTSTRAP && !provesToken(',
    'if (false && !provesToken(',
  ),
  session(
    'a session does not end when it is idle',
    'expiresAtMs: Math.min(expiresAtMs, lastUsedAtMs + idleMs),',
    'expiresAtMs,',
  ),
  session(
    'a stream that watches a session keeps it from being idle',
    "if (purpose === 'use' && nowMs",
    'if (nowMs',
  ),
  store(
    'a session outlives its token',
    'and (t.id is null or t.revoked_at is not null)',
    'and t.id is null',
  ),
  store(
    'a session outlives its portal link',
    "or s.kind = 'portal' and (p.id is null or p.revoked_at is not null)",
    "or s.kind = 'portal' and p.id is null",
  ),
  store('a revoked session is valid', '(s.revoked_at is not null\n  or', '(false\n  or'),
  store(
    'a one-time code of a revoked token signs in',
    'where t.id = c.caller_id and t.revoked_at is null',
    'where t.id = c.caller_id',
  ),
  store(
    'a revoked portal link can be opened',
    'and expires_at > $3 and revoked_at is null\n      returning',
    'and expires_at > $3\n      returning',
  ),
  open(
    'a session outlasts its token',
    'Math.min(nowMs + maxMs, grant.expiresAtMs ?? Number.POSITIVE_INFINITY)',
    'nowMs + maxMs',
  ),
  codes(
    'a session makes codes that outlive it',
    'if (caller.session !== undefined || !(',
    'if (!(',
  ),
  exchange(
    'a code of an earlier ADMIN_TOKEN signs in',
    'if (row?.callerId === BOOTSTRAP && !provesToken(',
    'if (false && !provesToken(',
  ),
  cookie(
    'a request of another site counts if it has no Origin',
    'if (origin === undefined) return site === undefined ? undefined : own',
    'if (origin === undefined) return own',
  ),
  cookie(
    'the cookie counts on requests of other origins',
    'return origin === own || origin === publicUrl?.origin ? origin : undefined',
    'return origin',
  ),
  cookie(
    'Sec-Fetch-Site is not read',
    "if (site !== undefined && site !== 'same-origin') return undefined",
    '',
  ),
  cookie(
    'over https the cookie has no prefix',
    "secure ? '__Host-inflow-session' : 'inflow-session'",
    "'inflow-session'",
  ),
  routes(
    'another site can sign a browser in',
    'if (origin !== undefined) return origin\n  const text',
    'return origin ?? ownOrigin.addressed(request)\n  const text',
  ),
  routes(
    'the session that a browser had outlives the next sign-in',
    '): Promise<void> {\n  await endSession(options, request)\n',
    '): Promise<void> {\n',
  ),
  connect(
    'the cookie counts for methods for keys',
    'BODY_BYTES_MAX, noSession)',
    'BODY_BYTES_MAX, sessionOf)',
    'the authentication of a method for keys reads no session either',
  ),
  caller(
    'the cookie makes a wrong token good',
    'if (authorization !== null) return undefined\n',
    '',
  ),
  oidc(
    'what comes back for another browser counts',
    "returned.get('state') !== flow.state",
    'false',
  ),
  oidc('a flow has no end', 'return clock.now() < untilMs ? flow : undefined', 'return flow'),
  provider('the code is not bound to the browser', 'pkceCodeVerifier: verifier,', ''),
  claims(
    'a group that is called admin is a scope beside roles',
    'roles.size === 0 ? values : values.flatMap((role) => [...(roles.get(role) ?? [])])',
    'values.flatMap((role) => [role, ...(roles.get(role) ?? [])])',
  ),
  claims(
    'a user without a claim of businesses sees all',
    "fits && ids.length > 0 && ids.length <= BUSINESSES_MAX ? ids : 'none'",
    'fits && ids.length > 0 && ids.length <= BUSINESSES_MAX ? ids : undefined',
  ),
]
