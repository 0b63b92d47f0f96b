/** Mutations of one file that no test can notice, and why. */
interface Explained {
  readonly file: string
  /** In one sentence. */
  readonly why: string
  /** The line that is changed, before and after, as `run-rules.ts` prints them. */
  readonly mutations: readonly (readonly [before: string, after: string])[]
}

const RECORDER = "const [, kind = '', id = ''] = /^([a-z]+):?(.*)$/.exec(recordedBy) ?? []"
const PAID_AT = 'paidAtMs: paidAtMs !== undefined && canBePaidAt(paidAtMs) ? paidAtMs : undefined,'
const LOADED =
  'if (!known.has(digest)) known.set(digest, { authenticatedAtMs: Number.NEGATIVE_INFINITY })'
const FAILURES =
  'failures: (address) => (failures.size === 0 ? undefined : failures.get(addressGroup(address))),'
const OWN_LIMIT = "const limit = caller.kind === 'business' ? caller.rateLimit : undefined"
const FULL_PAGE = 'const last = page.length < pageMax ? undefined : page.at(-1)?.id'
const SCHEME = String.raw`const scheme = /^(https?):\/\/(?!\/)/i.exec(text)?.[1]?.toLowerCase()`
const DROP = 'if (drop > 0) this.#entries = this.#entries.slice(drop)'

const CAP = 'return capMinor > 0n && fee > capMinor ? capMinor : fee'
const LEFT = 'return used > max ? 0n : max - used'

export const EXPLAINED: readonly Explained[] = [
  {
    file: 'src/payouts/policy.ts',
    why: 'both sides are the same where they are equal',
    mutations: [
      [CAP, CAP.replace('fee >', 'fee >=')],
      [LEFT, LEFT.replace('>', '>=')],
    ],
  },
  {
    file: 'src/payouts/payout.ts',
    why: 'a function that ends without a return returns undefined',
    mutations: [['default:', 'default:']],
  },
  {
    file: 'src/transactions/message.ts',
    why: 'every recorder is one line that begins with its kind in lower case',
    mutations: [
      [RECORDER, RECORDER.replace('?? []', '?? ["Stryker was here"]')],
      [RECORDER, RECORDER.replace('/^', '/')],
      [RECORDER, RECORDER.replace('$/', '/')],
    ],
  },
  {
    file: 'src/transactions/message.ts',
    why: 'a function that ends without a return returns undefined',
    mutations: [['} catch {', '} catch {}']],
  },
  {
    file: 'src/settlement/settlement.ts',
    why: 'nothing done is 0 % of any range by the division too',
    mutations: [
      ['if (whole <= 0n || done <= 0n) return 0', 'if (whole <= 0n || done < 0n) return 0'],
    ],
  },
  {
    file: 'src/events/tail-window.ts',
    why: 'to drop nothing copies the entries and changes none',
    mutations: [
      [DROP, DROP.replace('drop > 0', 'true')],
      [DROP, DROP.replace('>', '>=')],
    ],
  },
  {
    file: 'src/crypto/key-files.ts',
    why: 'base64 is decoded without its spaces',
    mutations: [
      ["const key = Buffer.from(line.trim(), 'base64')", "const key = Buffer.from(line, 'base64')"],
    ],
  },
  {
    file: 'src/notifications/confirm-payment.ts',
    why: 'no time is no plausible time either',
    mutations: [[PAID_AT, PAID_AT.replace('paidAtMs !== undefined', 'true')]],
  },
  {
    file: 'src/auth/credential-cache.ts',
    why: 'an expired credential is not returned either way; the purge frees its memory sooner',
    mutations: [['ttlAutopurge: true,', 'ttlAutopurge: false,']],
  },
  {
    file: 'src/auth/rate-limits/known-credentials.ts',
    why: 'nothing reads when a credential that was loaded was authenticated',
    mutations: [[LOADED, LOADED.replace('{ authenticatedAtMs: Number.NEGATIVE_INFINITY }', '{}')]],
  },
  {
    file: 'src/auth/rate-limits/known-credentials.ts',
    why: 'a shortcut: among none is none to forget',
    mutations: [['if (known.size === 0) return', 'if (false) return']],
  },
  {
    file: 'src/auth/rate-limits/rate-limits.ts',
    why: 'a shortcut: among no failures are none of an address',
    mutations: [[FAILURES, FAILURES.replace('failures.size === 0', 'false')]],
  },
  {
    file: 'src/auth/rate-limits/rate-limits.ts',
    why: 'an internal caller has no limit of its own',
    mutations: [[OWN_LIMIT, OWN_LIMIT.replace("caller.kind === 'business'", 'true')]],
  },
  {
    file: 'src/auth/rate-limits/rate-limits.ts',
    why: 'setting the limit that a bucket has changes nothing',
    mutations: [['if (found === undefined || found.limit !== limit) {', 'if (true) {']],
  },
  {
    file: 'src/auth/rate-limits/token-bucket.ts',
    why: 'in no time nothing is gained',
    mutations: [['if (nowMs !== this.#atMs) this.#refill(nowMs)', 'if (true) this.#refill(nowMs)']],
  },
  {
    file: 'src/webhooks/deliveries/concurrency-limiter.ts',
    why: 'a degraded endpoint, whose limit is one, gets more only when it has none',
    mutations: [
      [
        '? Math.min(base - current, degradedCapacity)',
        '? Math.min(base + current, degradedCapacity)',
      ],
    ],
  },
  {
    file: 'src/webhooks/deliveries/concurrency-limiter.ts',
    why: 'without a failure the pause has no length',
    mutations: [
      ['const isPaused = state.failures > 0', 'const isPaused = true'],
      ['const isPaused = state.failures > 0', 'const isPaused = state.failures >= 0'],
    ],
  },
  {
    file: 'src/webhooks/deliveries/retry.ts',
    why: 'a missing header, as a text, is no date',
    mutations: [['if (text === undefined) return undefined', 'if (false) return undefined']],
  },
  {
    file: 'src/webhooks/deliveries/round-robin.ts',
    why: 'a full page has a last endpoint',
    mutations: [[FULL_PAGE, FULL_PAGE.replace('?.id', '.id')]],
  },
  {
    file: 'src/webhooks/sender/address-guard.ts',
    why: 'a match has the group',
    mutations: [[SCHEME, SCHEME.replace('[1]?.', '[1].')]],
  },
]
