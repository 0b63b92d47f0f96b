import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import { BusinessEntity } from '../../businesses/business.entity.ts'
import { AccountEntity } from '../account.entity.ts'
import type { FeeBearer } from './split.ts'

/**
 * A version of how the payments into an account are divided. The last version that was valid when a payment was recorded
 * applies to the payment. Versions never change. A version without recipients leaves everything to the owner.
 */
export const SplitEntity = defineEntity({
  name: 'AccountSplit',
  tableName: 'account_split',
  properties: {
    id: p.text().primary(),
    account: p.manyToOne(AccountEntity).deleteRule('cascade').updateRule('no action'),
    validFrom: p.datetime(3),
    feeBearer: p.text().$type<FeeBearer>(),
  },
  uniques: [{ properties: ['account', 'validFrom'] }],
  checks: [{ name: 'account_split_fee_bearer', expression: "fee_bearer in ('OWNER', 'SHARED')" }],
})

/** An operator's approval: a business may share its payments with another business. */
export const SplitApprovalEntity = defineEntity({
  name: 'SplitApproval',
  tableName: 'split_approval',
  properties: {
    business: p.manyToOne(BusinessEntity).primary().deleteRule('no action').updateRule('no action'),
    recipient: p
      .manyToOne(BusinessEntity)
      .primary()
      .deleteRule('no action')
      .updateRule('no action'),
    approvedAt: p.datetime(3),
  },
  checks: [{ name: 'split_approval_recipient', expression: 'business_id <> recipient_id' }],
})

export type Approval = InferEntity<typeof SplitApprovalEntity>

/** A recipient of a version. */
export const SplitRecipientEntity = defineEntity({
  name: 'AccountSplitRecipient',
  tableName: 'account_split_recipient',
  properties: {
    split: p.manyToOne(SplitEntity).primary().deleteRule('cascade').updateRule('no action'),
    /** From 1, in the order in which shares are taken. */
    number: p.integer().primary().autoincrement(false),
    business: p.manyToOne(BusinessEntity).deleteRule('no action').updateRule('no action'),
    /** Null: a fixed amount. */
    basisPoints: p.integer().nullable(),
    /** Null: a percentage. */
    fixedMinor: p.bigint().nullable(),
  },
  uniques: [{ properties: ['split', 'business'] }],
  checks: [
    { name: 'account_split_recipient_number', expression: 'number >= 1 and number <= 5' },
    {
      name: 'account_split_recipient_share',
      expression:
        'case when basis_points is null then fixed_minor is not null and fixed_minor > 0 else fixed_minor is null and basis_points > 0 and basis_points <= 10000 end',
    },
  ],
})
