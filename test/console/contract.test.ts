import { expect, test } from 'vitest'
import { AccountStatusSchema, OpeningStateSchema } from '../../gen/inflow/account/v1/account_pb.ts'
import {
  PauseScopeSchema,
  PayoutPurposeSchema,
  PayoutStatusSchema,
} from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutDecisionSchema } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import {
  HoldStateSchema,
  TransactionStatusSchema,
  VarianceSchema,
} from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { BankSchema } from '../../gen/inflow/type/v1/bank_pb.ts'
import { DeliveryStatusSchema } from '../../gen/inflow/webhook/v1/delivery_pb.ts'
import { FORM_RULES } from '../../src/console/form-rules.ts'
import { enumChoices, enumFieldChoices, enumValue } from '../../src/console/format/enums.ts'

test('the rules of fields that a form checks come from the contract', () => {
  expect(FORM_RULES).toMatchObject({
    'inflow.account.v1.CreateAccountRequest.firstName': { required: true, maxLength: 100 },
    'inflow.account.v1.CreateAccountRequest.otp': { maxLength: 10, pattern: '[0-9]{4,10}' },
    'inflow.webhook.v1.EndpointOptions.rateLimit': { min: 0, max: 1_000 },
    'inflow.webhook.v1.OAuth2ClientCredentials.scope': { maxLength: 500 },
  })
  const { choices } = FORM_RULES['inflow.business.v1.IssueKeyRequest.scopes']!
  expect(choices).toContain('payments:read')
  // What only reads has no form.
  expect(Object.keys(FORM_RULES).filter((name) => /\.(Get|List)\w*Request\./.test(name))).toEqual(
    [],
  )
})

test('browsers accept every pattern, which they compile with the flag v', () => {
  const patterns = Object.values(FORM_RULES).flatMap(({ pattern }) => pattern ?? [])
  expect(patterns.length).toBeGreaterThan(5)
  for (const pattern of patterns) expect(() => new RegExp(pattern, 'v'), pattern).not.toThrow()
})

test.each([
  AccountStatusSchema,
  BankSchema,
  DeliveryStatusSchema,
  HoldStateSchema,
  OpeningStateSchema,
  PauseScopeSchema,
  PayoutDecisionSchema,
  PayoutPurposeSchema,
  PayoutStatusSchema,
  TransactionStatusSchema,
  VarianceSchema,
])('$name is read from the code in a URL, and from its name in the contract', (schema) => {
  const values = schema.values.map(({ number }) => number).filter((number) => number !== 0)
  for (const choices of [enumChoices(schema), enumFieldChoices(schema)]) {
    const read = choices.map(({ value }) => enumValue(schema, value) as number)
    expect(read.sort((a, b) => a - b)).toEqual(values)
    expect(new Set(choices.map(({ label }) => label)).size).toBe(values.length)
  }
  expect(enumValue(schema, '')).toBeUndefined()
  expect(enumValue(schema, 'unspecified')).toBeUndefined()
})
