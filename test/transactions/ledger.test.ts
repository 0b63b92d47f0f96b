import { describe, expect, test } from 'vitest'
import { isLegalTransition, TRANSITIONS } from '../../src/transactions/ledger.ts'
import { TRANSACTION_STATUSES } from '../../src/transactions/transaction.ts'

const STATES = TRANSACTION_STATUSES.flatMap((status) =>
  [false, true].map((settled) => ({ status, settled })),
)
const nameOf = ({ status, settled }: (typeof STATES)[number]) =>
  `${status}${settled ? ', settled' : ''}`

const SHARES = ['share_1', 'share_2', 'share_3', 'share_4', 'share_5']

/** Every legal transition, with the postings that it makes. */
const LEGAL = new Map([
  ['PENDING → SUCCESS', ['payment']],
  ['PENDING → FAILED', []],
  ['SUCCESS → SUCCESS, settled', ['settlement', 'fee', 'split', ...SHARES]],
  ['SUCCESS → REVERSED', ['payment_reversal']],
  [
    'SUCCESS, settled → REVERSED, settled',
    [
      ...SHARES.map((kind) => `${kind}_reversal`),
      'split_reversal',
      'fee_reversal',
      'settlement_reversal',
      'payment_reversal',
    ],
  ],
])

describe('the ledger', () => {
  test('allows the transitions of its diagram and no others', () => {
    for (const from of STATES) {
      for (const to of STATES) {
        const name = `${nameOf(from)} → ${nameOf(to)}`
        expect(isLegalTransition(from, to), name).toBe(LEGAL.has(name))
      }
    }
  })

  test('makes the postings of each transition, those of a reversal against those of the settlement', () => {
    const postings = TRANSITIONS.map((each) => [
      `${nameOf(each.from)} → ${nameOf(each.to)}`,
      each.postings,
    ])
    expect(postings).toEqual([...LEGAL])
  })
})
