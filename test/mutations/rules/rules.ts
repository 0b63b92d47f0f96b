/** The rules of one folder that need no database, and the tests of this folder that must notice each mutation. */
export interface Rules {
  /** The name below `src/` and below `test/`. */
  readonly folder: string
  /** Files or globs in the folder of the source. */
  readonly files: readonly string[]
  /** Files or globs in the folder of the tests. They start no database. */
  readonly tests: readonly string[]
}

export const RULES: readonly Rules[] = [
  {
    folder: 'transactions',
    files: ['transaction.ts', 'ledger.ts'],
    tests: ['classify-repeat.test.ts', 'ledger.test.ts'],
  },
  {
    folder: 'settlement',
    files: ['settlement.ts', 'schedule.ts'],
    tests: ['schedule.test.ts'],
  },
  {
    folder: 'events',
    files: ['cursor.ts', 'tail-window.ts'],
    tests: ['cursor.test.ts', 'tail-window.test.ts'],
  },
  {
    folder: 'crypto',
    files: ['encryption.ts', 'key-files.ts'],
    tests: ['encryption.test.ts', 'key-ring.test.ts', 'key-files.test.ts'],
  },
  {
    folder: 'auth',
    files: ['caller.ts', 'credential-cache.ts', 'method-policy.ts', 'token-secret.ts'],
    tests: ['{caller,credential-cache,method-policy,token-secret}.test.ts'],
  },
  {
    folder: 'notifications',
    files: ['confirm-payment.ts', 'raw-notification.ts'],
    tests: ['confirm-payment.test.ts', 'raw-notification.test.ts'],
  },
  {
    folder: 'banks',
    files: ['transfer-response.ts'],
    tests: ['{nip-codes,transfer-response}.test.ts'],
  },
  {
    folder: 'payouts',
    files: ['payout.ts', 'policy.ts', 'discrepancy.ts'],
    tests: ['{money,policy,discrepancy}.test.ts'],
  },
  {
    folder: 'webhooks',
    files: [
      'deliveries/concurrency-limiter.ts',
      'deliveries/retry.ts',
      'endpoints/endpoint.ts',
      'sender/address-guard.ts',
      'sender/body.ts',
      'sender/failure-text.ts',
      'sender/sign.ts',
    ],
    tests: [
      'deliveries/{concurrency-limiter,retry}.test.ts',
      'endpoints/{endpoint,endpoint-url,signing-secret}.test.ts',
      'sender/{body,body-kinds,failure-text,send-delivery,sign}.test.ts',
    ],
  },
]
