import { defineEntity, p } from '@mikro-orm/core'
import type { BankCode, ConnectorName, IdKind } from '../banks/bank.ts'
import { BusinessEntity } from '../businesses/business.entity.ts'
import type { AccountStatus, OpeningState } from './account.ts'
import type { AllowedPayer, AmountRule, Metadata } from './terms.ts'

const IN_REVIEW = "status = 'PENDING' and opening_state = 'MANUAL_REVIEW'"

export const AccountEntity = defineEntity({
  name: 'Account',
  tableName: 'account',
  properties: {
    id: p.text().primary(),
    business: p.manyToOne(BusinessEntity),
    reference: p.text().unique(),
    merchantReference: p.text(),
    live: p.boolean(),
    bank: p.text().$type<BankCode>(),
    /** The connector that opened the account, or was last asked to; fixed once the account is open. */
    connector: p.text().$type<ConnectorName>().default('sandbox'),
    accountNumber: p.text().nullable(),
    accountName: p.text().nullable(),
    status: p.text().$type<AccountStatus>(),
    firstName: p.text(),
    lastName: p.text(),
    email: p.text(),
    phone: p.text(),
    idType: p.text().$type<IdKind>().nullable(),
    /** The identity number, encrypted. */
    idNumberEncrypted: p.blob().nullable(),
    /** Keyed hash of kind and number, for an operator's search for duplicates. */
    idNumberHash: p.blob().nullable(),
    /** Keyed hash of the requested details: a repeat with other details is a conflict. */
    detailsHash: p.blob(),
    /** How many times the bank was asked to open the account. */
    attempts: p.integer(),
    /** Until this time only one call may ask the bank for this account. */
    claimedUntil: p.datetime(3),
    /** The bank's own identifier of the account; empty if the bank has none. */
    bankAccountId: p.text().default(''),
    /** The state of the opening of a PENDING account; has no meaning for other states. */
    openingState: p.text().$type<OpeningState>().default('CREATING'),
    /** Why the latest attempt did not open the account. */
    lastCause: p.text().default(''),
    /** When the service next tries to open the account; null: it does not. */
    nextTryAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
    /** When its business last requested a requery of its payments. */
    requeriedAt: p.datetime(3).nullable(),
    /** Whether it has payment terms; a permanent account has none. Never changes. */
    oneTime: p.boolean().default(false),
    expectedAmountMinor: p.bigint().nullable(),
    amountRule: p.text().$type<AmountRule>().default('ANY'),
    expiresAt: p.datetime(3).nullable(),
    /** The requested time from creation to expiry; null if a point in time was requested, or no expiry. */
    expiresInSeconds: p.integer().nullable(),
    singleUse: p.boolean().default(false),
    allowedPayers: p.json<readonly AllowedPayer[]>().nullable(),
    /** The metadata that the business stated. */
    metadata: p.json<Metadata>().nullable(),
    /** When a payment used it up. */
    usedAt: p.datetime(3).nullable(),
    /** When it expired, or was used up. */
    endedAt: p.datetime(3).nullable(),
    /** When the job next ends it, closes it at the bank, or stops listing it; null: never. */
    endDueAt: p.datetime(3).nullable(),
    /** When it was imported; null: this service opened it. */
    importedAt: p.datetime(3).nullable(),
  },
  uniques: [
    { properties: ['business', 'live', 'merchantReference'] },
    { properties: ['accountNumber', 'bank', 'live'] },
  ],
  indexes: [
    { properties: ['business', 'live', 'status', 'id'] },
    { properties: ['live', 'status', 'id'] },
    // For searches. A hash index, because references are long and all different: 20 bytes for each account.
    { name: 'account_merchant_reference_index', properties: ['merchantReference'], type: 'hash' },
    // Many customers may have the same address, so the index contains the business, too: about 100 bytes for each account.
    { properties: ['email', 'live', 'business', 'id'] },
    { name: 'account_review_index', properties: ['live', 'id'], where: IN_REVIEW },
    {
      name: 'account_review_business_index',
      properties: ['business', 'live', 'id'],
      where: IN_REVIEW,
    },
    {
      name: 'account_id_number_hash_index',
      properties: ['idNumberHash'],
      where: 'id_number_hash is not null',
    },
    { name: 'account_opening_index', properties: ['nextTryAt'], where: "status = 'PENDING'" },
    {
      name: 'account_active_bank_index',
      properties: ['bank', 'id'],
      where: "(status = 'ACTIVE' or end_due_at is not null) and live and connector = 'live'",
    },
    { name: 'account_ending_index', properties: ['endDueAt'], where: 'end_due_at is not null' },
  ],
  checks: [
    {
      name: 'account_id_number_hash',
      expression: 'id_number_encrypted is null or id_number_hash is not null',
    },
    { name: 'account_bank', expression: "bank in ('9PSB', 'SAFEHAVEN', 'PROVIDUS', 'PALMPAY')" },
    {
      name: 'account_connector',
      expression: "connector = 'sandbox' or (connector = 'live' and live)",
    },
    {
      name: 'account_status',
      expression:
        "status in ('PENDING', 'ACTIVE', 'CLOSED', 'EXPIRED') and (status <> 'EXPIRED' or one_time)",
    },
    {
      name: 'account_one_time',
      expression:
        "one_time = (expected_amount_minor is not null or amount_rule <> 'ANY' or expires_at is not null or single_use or allowed_payers is not null)",
    },
    { name: 'account_expected_amount', expression: 'expected_amount_minor > 0' },
    {
      name: 'account_amount_rule',
      expression:
        "case when amount_rule in ('EXACT', 'AT_LEAST', 'AT_MOST') then expected_amount_minor is not null else amount_rule = 'ANY' end",
    },
    {
      name: 'account_expires_in',
      expression:
        'expires_in_seconds is null or (expires_in_seconds > 0 and expires_at is not null)',
    },
    { name: 'account_allowed_payers', expression: "jsonb_typeof(allowed_payers) = 'array'" },
    { name: 'account_metadata', expression: "jsonb_typeof(metadata) = 'object'" },
    { name: 'account_used', expression: 'used_at is null or single_use' },
    { name: 'account_ended', expression: "(status = 'EXPIRED') <= (ended_at is not null)" },
    {
      name: 'account_opening_state',
      expression:
        "opening_state in ('CREATING', 'RETRYABLE', 'RETRYING', 'REQUERYING', 'MANUAL_REVIEW')",
    },
    {
      name: 'account_number_when_open',
      expression: "status = 'PENDING' or (account_number is not null and account_name is not null)",
    },
  ],
})
