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
const DROP = 'if (drop > 0) this.#entries = this.#entries.slice(drop)'

export const EXPLAINED: readonly Explained[] = [
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
    file: 'src/notifications/raw-notification.ts',
    why: 'a function that ends without a return returns undefined',
    mutations: [['} catch {', '} catch {}']],
  },
]
