import { create } from '@bufbuild/protobuf'
import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import { describe, expect, test } from 'vitest'
import {
  Action,
  Finding,
  RetryReason,
  StatementRowSchema,
} from '../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  toListedMessage,
  toResultMessage,
  toStatementRow,
} from '../../src/reconciliation/message.ts'

const facts = { sessionId: 's-1', bankKey: 'k-1', accountNumber: '5010000001', amountMinor: 5n }
const row = create(StatementRowSchema, facts)
const recorded = {
  transactionId: 'txn_1',
  accountNumber: '5010000001',
  amountMinor: 5n,
  status: 'REVERSED',
} as const
const shown = { ...recorded, sessionId: 's-1', status: TransactionStatus.REVERSED }

describe('a row of a statement', () => {
  test('is a payment that succeeded, at an unknown time by an unknown payer, unless it states otherwise', () => {
    expect(toStatementRow(row)).toEqual({
      ...facts,
      status: 'SUCCESS',
      paidAtMs: undefined,
      payer: { name: '', accountNumber: '', bankCode: '', bankName: '' },
      narration: '',
    })
  })

  test('is read as it is stated, with texts that PostgreSQL can store', () => {
    const long = `a\0${'b'.repeat(1_000)}`
    const kept = (length: number) => `a ${'b'.repeat(1_000)}`.slice(0, length)
    const message = create(StatementRowSchema, {
      ...facts,
      status: TransactionStatus.FAILED,
      paidAt: timestampFromMs(7_000),
      payer: { name: long, accountNumber: long, bankCode: long, bankName: long },
      narration: long,
    })
    expect(toStatementRow(message)).toEqual({
      ...facts,
      status: 'FAILED',
      paidAtMs: 7_000,
      payer: { name: kept(200), accountNumber: kept(40), bankCode: kept(20), bankName: kept(200) },
      narration: kept(500),
    })
  })
})

describe('the result of a row', () => {
  test.each([
    ['NONE', Action.NONE, RetryReason.UNSPECIFIED],
    ['RECORDED', Action.RECORDED, RetryReason.UNSPECIFIED],
    ['UNMATCHED', Action.UNMATCHED, RetryReason.UNSPECIFIED],
    ['REVIEW', Action.REVIEW, RetryReason.UNSPECIFIED],
    ['REJECTED', Action.REJECTED, RetryReason.UNSPECIFIED],
    ['RETRY', Action.RETRY, RetryReason.BANK],
    ['LATE', Action.RETRY, RetryReason.TIME],
  ] as const)(
    '%s states why to send the row again, if it is to be',
    (action, shownAction, retryReason) => {
      const result = { finding: 'MISSING', action, cause: 'c', recorded: undefined } as const
      const message = toResultMessage(result, row)
      expect(message).toMatchObject({ action: shownAction, retryReason, cause: 'c' })
      expect(message.recorded).toBeUndefined()
    },
  )

  test.each(['MATCHED', 'MISSING', 'MISMATCHED', 'UNMATCHED'] as const)(
    '%s shows what is recorded for the session',
    (finding) => {
      const result = toResultMessage({ finding, action: 'NONE', cause: '', recorded }, row)
      expect(result).toMatchObject({ finding: Finding[finding], recorded: shown })
    },
  )
})

test('a listed payment shows its session and when it was paid', () => {
  const listed = toListedMessage({ ...recorded, sessionId: 's-1', paidAtMs: 9_000 })
  expect(listed).toMatchObject(shown)
  expect(timestampMs(listed.paidAt!)).toBe(9_000)
})
