import type { WebhookData, WebhookDataByKind } from '../../gen/webhook_data.ts'

export type * from '../../gen/webhook_data.ts'

/** PAYMENT_NOTIFICATION, … */
export type WebhookKind = keyof WebhookDataByKind

/**
 * The body of a webhook. Its kind determines the type of its data:
 *
 *     if (event.event === 'PAYMENT_NOTIFICATION') credit(event.data.amount, event.data.payer)
 *
 * `event.data.event_id` is the same on every attempt: use it to ignore an event that was already handled.
 */
export type WebhookEvent = WebhookEventOf<WebhookKind> | UnknownWebhookEvent

/** The body of a webhook of a kind, or of one of several. */
export type WebhookEventOf<Kind extends WebhookKind> = {
  readonly [Each in Kind]: { readonly event: Each; readonly data: WebhookDataByKind[Each] }
}[Kind]

/** The body of a webhook of a kind that was added after this version of the package. */
export interface UnknownWebhookEvent {
  readonly event: UnknownWebhookKind
  readonly data: WebhookData & { readonly [field: string]: unknown }
}

/**
 * Any text but the known kinds. The brand, which no value has, keeps it apart from those: a plain
 * string could be one of them, and the kind would not determine the type of the data.
 */
export type UnknownWebhookKind = `${string & { readonly [unknownKind]: never }}`

declare const unknownKind: unique symbol
