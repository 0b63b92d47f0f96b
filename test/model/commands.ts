interface NotDriven {
  readonly why: string
  /** The test that covers it, below `test`. */
  readonly covered: string
}

/** Drivers that are still to come: their rows are deleted with them. */
const DELIVERIES = 'expected in the model of deliveries'
const BANKS = 'expected in the model of banks'

const OF_KEYS =
  'the operators’ rpc of the same use case is driven; keys are the same code behind another policy'
const STREAM = 'a stream, which changes nothing'

/** Rpcs that may change something and that no model drives. */
export const NOT_DRIVEN: Readonly<Record<string, NotDriven>> = {
  'AdminService.VerifyAudit': { why: STREAM, covered: 'auth/verify-audit.test.ts' },
  'SettlementService.VerifyLedger': { why: STREAM, covered: 'settlement/verify-events.test.ts' },
  'EventService.Subscribe': { why: STREAM, covered: 'events/subscribe.test.ts' },
  'EventService.BumpEpoch': {
    why: 'for after a restore, which a story does not have',
    covered: 'events/epoch-bump.test.ts',
  },

  'AccountService.ApproveSplitRecipient': {
    why: 'an approval has no state but itself',
    covered: 'accounts/splits.test.ts',
  },
  'AccountService.RevokeSplitRecipient': {
    why: 'an approval has no state but itself',
    covered: 'accounts/splits.test.ts',
  },
  'AccountService.ImportAccounts': {
    why: 'once, before a business moves',
    covered: 'accounts/import-accounts.test.ts',
  },

  'ThirdPartyService.AcceptPayment': {
    why: OF_KEYS,
    covered: 'transactions/variance/decide.test.ts',
  },
  'ThirdPartyService.ReturnPayment': {
    why: OF_KEYS,
    covered: 'transactions/variance/decide.test.ts',
  },
  'ThirdPartyService.CloseVirtualAccount': { why: OF_KEYS, covered: 'banks/access.test.ts' },
  'ThirdPartyService.GenerateVirtualAccount': {
    why: OF_KEYS,
    covered: 'transactions/record-payment.test.ts',
  },
  'ThirdPartyService.SimulatePayment': { why: OF_KEYS, covered: 'thirdparty/settlement.test.ts' },
  'ThirdPartyService.UpdateVirtualAccount': {
    why: OF_KEYS,
    covered: 'thirdparty/accounts.test.ts',
  },
  'ThirdPartyService.UpgradeVirtualAccount': {
    why: 'of the customer, whom the models leave out',
    covered: 'thirdparty/accounts.test.ts',
  },

  'ThirdPartyService.CreateWebhook': { why: DELIVERIES, covered: 'thirdparty/webhooks.test.ts' },
  'ThirdPartyService.DeleteWebhook': { why: DELIVERIES, covered: 'thirdparty/webhooks.test.ts' },
  'ThirdPartyService.TestWebhook': { why: DELIVERIES, covered: 'thirdparty/webhooks.test.ts' },
  'ThirdPartyService.Redeliver': { why: DELIVERIES, covered: 'thirdparty/webhooks.test.ts' },
  'ThirdPartyService.SkipDelivery': { why: DELIVERIES, covered: 'thirdparty/webhooks.test.ts' },
  'WebhookService.UpdateEndpoint': { why: DELIVERIES, covered: 'webhooks/lists.test.ts' },
  'WebhookService.DeleteEndpoint': { why: DELIVERIES, covered: 'webhooks/lists.test.ts' },
  'WebhookService.RotateSecret': {
    why: DELIVERIES,
    covered: 'webhooks/endpoints/update-endpoint.test.ts',
  },
  'WebhookService.SwitchSecret': { why: DELIVERIES, covered: 'webhooks/endpoints/wiaxy.test.ts' },
  'WebhookService.SendTestEvent': {
    why: DELIVERIES,
    covered: 'webhooks/deliveries/modes.test.ts',
  },
  'WebhookService.Rehearse': { why: DELIVERIES, covered: 'webhooks/rehearsal.test.ts' },
  'WebhookService.Redeliver': {
    why: DELIVERIES,
    covered: 'webhooks/deliveries/deliveries.test.ts',
  },
  'WebhookService.SkipDelivery': { why: DELIVERIES, covered: 'webhooks/ordered/ordered.test.ts' },
  'WebhookService.Recover': {
    why: DELIVERIES,
    covered: 'webhooks/deliveries/deliveries.test.ts',
  },

  'AccountService.ResolveAccount': { why: BANKS, covered: 'accounts/openings.test.ts' },
  'NotificationService.ShowNotification': { why: BANKS, covered: 'notifications/held.test.ts' },
  'NotificationService.RetryNotification': { why: BANKS, covered: 'notifications/held.test.ts' },
  'NotificationService.ResolveNotification': { why: BANKS, covered: 'notifications/held.test.ts' },
  'ReconciliationService.Reconcile': { why: BANKS, covered: 'reconciliation/statement.test.ts' },
  'ThirdPartyService.RequeryTransaction': { why: BANKS, covered: 'thirdparty/requery.test.ts' },
}
