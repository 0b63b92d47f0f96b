import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { MethodOptions_IdempotencyLevel as Idempotency } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import { allMethods, nameOf } from '../protocols/matrix/protocols.ts'

/** Tests below `test`, with the rpcs that they cover because no model drives them. */
const COVERED: Readonly<Record<string, readonly string[]>> = {
  // Streams change nothing.
  'auth/audit.test.ts': ['AdminService.VerifyAudit'],
  'settlement/verify.test.ts': ['SettlementService.VerifyLedger'],
  'events/subscribe.test.ts': ['EventService.Subscribe'],
  // Before a business moves here, and after a restore.
  'accounts/import-accounts.test.ts': ['AccountService.ImportAccounts'],
  'events/tick.test.ts': ['EventService.BumpEpoch'],
  // An approval has no state but itself.
  'accounts/splits.test.ts': [
    'AccountService.ApproveSplitRecipient',
    'AccountService.RevokeSplitRecipient',
  ],
  // An operator's answer where no bank confirms, by a table of states.
  'accounts/openings.test.ts': ['AccountService.ResolveAccount'],
  // A note has no state but its texts.
  'overview/review.test.ts': ['OverviewService.UpdateReviewItem'],
  // It shows a body, and adds an entry to the audit log.
  'notifications/notifications.test.ts': ['NotificationService.ShowNotification'],
  // Two steps with a table of their own.
  'webhooks/endpoints/wiaxy.test.ts': ['WebhookService.SwitchSecret'],
  // Each decision with its states; test/payouts/payout has the table, and a model of its own drives what banks do.
  'payouts/payouts.test.ts': [
    'PayoutService.ApprovePayout',
    'PayoutService.CancelPayout',
    'PayoutService.CreatePayout',
    'PayoutService.PausePayouts',
    'PayoutService.RefundTransaction',
    'PayoutService.ResolveAccountName',
    'PayoutService.ResolvePayout',
    'PayoutService.ResumePayouts',
    'PayoutService.UpdatePayoutPolicy',
  ],
  'payouts/limits.test.ts': ['PayoutService.RejectPayout'],
  'payouts/unmatched.test.ts': ['PayoutService.RefundUnmatchedPayment'],
  'payouts/batches.test.ts': [
    'PayoutService.ApproveBatch',
    'PayoutService.CreatePayouts',
    'PayoutService.RejectBatch',
  ],
  'payouts/reconcile.test.ts': [
    'PayoutService.ReconcilePayouts',
    'PayoutService.ResolvePayoutDiscrepancy',
  ],
  'thirdparty/payouts.test.ts': [
    'ThirdPartyService.CancelPayout',
    'ThirdPartyService.CreatePayout',
    'ThirdPartyService.RefundTransaction',
    'ThirdPartyService.ResolveAccountName',
  ],
  // It stores nothing.
  'webhooks/rehearsal.test.ts': ['WebhookService.Rehearse'],
  // The models drive the same use cases by the operators' rpcs.
  'transactions/variance/decide.test.ts': [
    'ThirdPartyService.AcceptPayment',
    'ThirdPartyService.ReturnPayment',
  ],
  'transactions/record-payment.test.ts': ['ThirdPartyService.GenerateVirtualAccount'],
  'banks/access.test.ts': ['ThirdPartyService.CloseVirtualAccount'],
  'thirdparty/settlement.test.ts': ['ThirdPartyService.SimulatePayment'],
  'thirdparty/requery.test.ts': ['ThirdPartyService.RequeryTransaction'],
  'thirdparty/accounts.test.ts': [
    'ThirdPartyService.UpdateVirtualAccount',
    'ThirdPartyService.UpgradeVirtualAccount',
  ],
  'thirdparty/webhooks.test.ts': [
    'ThirdPartyService.CreateWebhook',
    'ThirdPartyService.DeleteWebhook',
    'ThirdPartyService.TestWebhook',
    'ThirdPartyService.Redeliver',
    'ThirdPartyService.SkipDelivery',
  ],
}

/** Paths of keys over REST are POST, so the contract cannot mark those that only read. */
const READS = /^ThirdPartyService\.(Get|List)/

/** All rpcs that may change something. */
const changes = (await allMethods()).filter(
  (method) => method.idempotency !== Idempotency.NO_SIDE_EFFECTS && !READS.test(nameOf(method)),
)

/** The drivers of the models, without their comments. */
const drivers = readdirSync(import.meta.dirname)
  .filter((name) => /(drive|banks\.test)\.ts$/.test(name))
  .map((name) => readFileSync(join(import.meta.dirname, name), 'utf8'))
  .map((text) => text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, ''))

/** The methods that a driver calls on a client: it imports the service, and calls a method of that name. */
const driven = new Set(
  changes
    .filter(({ parent, localName }) =>
      drivers.some(
        (text) =>
          text.includes(`/gen/${fileOf(parent.typeName)}`) && text.includes(`.${localName}(`),
      ),
    )
    .map(nameOf),
)

/** `inflow.webhook.v1.WebhookService` is in `inflow/webhook/v1/webhook_service_pb.ts`. */
function fileOf(typeName: string): string {
  const parts = typeName.split('.')
  const file = parts.pop()!.replaceAll(/(?<=[a-z])(?=[A-Z])/g, '_')
  return `${parts.join('/')}/${file.toLowerCase()}_pb`
}

test('every rpc that changes something is driven by a model, or says which test covers it', () => {
  const rest = changes.map(nameOf).filter((name) => !driven.has(name))
  expect(rest.toSorted()).toEqual(Object.values(COVERED).flat().toSorted())
})

test.each(Object.entries(COVERED))('%s covers what the table says', (file, names) => {
  const text = readFileSync(join(import.meta.dirname, '..', file), 'utf8')
  for (const name of names) {
    const { localName } = changes.find((method) => nameOf(method) === name)!
    // By the client, or by the command line: `inflow notification retry`.
    const [verb] = /^[a-z]+/.exec(localName)!
    expect(text, name).toMatch(new RegExp(`\\b${localName}\\b|'${verb}'`))
  }
})
