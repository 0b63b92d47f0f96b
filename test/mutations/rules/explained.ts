/** Mutations of one file that no test can notice, and why. */
interface Explained {
  readonly file: string
  /** In one sentence. */
  readonly why: string
  /** The line that is changed, before and after, as `run-rules.ts` prints them. */
  readonly mutations: readonly (readonly [before: string, after: string])[]
}

const PAID_AT = 'paidAtMs: paidAtMs !== undefined && canBePaidAt(paidAtMs) ? paidAtMs : undefined,'
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
    file: 'src/webhooks/sender/address-guard.ts',
    why: 'a match has the group',
    mutations: [[SCHEME, SCHEME.replace('[1]?.', '[1].')]],
  },
]
