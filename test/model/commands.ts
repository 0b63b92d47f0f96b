interface NotDriven {
  readonly why: string
  /** The test that covers it, below `test`. */
  readonly covered: string
}

const OF_KEYS =
  'the operators’ rpc of the same use case is driven; keys are the same code behind another policy'
const STREAM = 'a stream, which changes nothing'

/** Rpcs that may change something and that no model drives. */
export const NOT_DRIVEN: Readonly<Record<string, NotDriven>> = {
  'AdminService.VerifyAudit': { why: STREAM, covered: 'auth/audit.test.ts' },
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

  'ThirdPartyService.CreateWebhook': { why: OF_KEYS, covered: 'thirdparty/webhooks.test.ts' },
  'ThirdPartyService.DeleteWebhook': { why: OF_KEYS, covered: 'thirdparty/webhooks.test.ts' },
  'ThirdPartyService.TestWebhook': { why: OF_KEYS, covered: 'thirdparty/webhooks.test.ts' },
  'ThirdPartyService.Redeliver': { why: OF_KEYS, covered: 'thirdparty/webhooks.test.ts' },
  'ThirdPartyService.SkipDelivery': { why: OF_KEYS, covered: 'thirdparty/webhooks.test.ts' },
  'WebhookService.SwitchSecret': {
    why: 'of endpoints with a text secret, whose two steps are a table of their own',
    covered: 'webhooks/endpoints/wiaxy.test.ts',
  },
  'WebhookService.Rehearse': { why: 'it stores nothing', covered: 'webhooks/rehearsal.test.ts' },

  'AccountService.ResolveAccount': {
    why: 'an operator’s answer to an opening that no bank confirms, by a table of states',
    covered: 'accounts/openings.test.ts',
  },
  'NotificationService.ShowNotification': {
    why: 'it shows a body, and adds an entry to the audit log',
    covered: 'notifications/held.test.ts',
  },
  'ThirdPartyService.RequeryTransaction': {
    why: 'it asks a bank, and records what a notification would',
    covered: 'thirdparty/requery.test.ts',
  },
}
