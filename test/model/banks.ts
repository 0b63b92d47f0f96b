/**
 * The rules for reports of a bank: notifications that are duplicates, contradict a recorded payment, are forged, or arrive
 * before the bank confirms the payment; and for the statement that an operator applies. `step` changes the world and returns
 * the response to the bank or the operator.
 *
 * The signature covers the payment, so an instance can be configured to trust it without a requery. A payment that was refused
 * once is credited only if the bank confirms it, whichever instance gets the next report.
 */

/** A payment as a notification describes it, or the bank's own records. */
export interface Report {
  readonly key: string
  readonly kobo: number
  readonly state: 'paid' | 'reversed'
}

export interface Notification {
  readonly report: Report
  state: 'PENDING' | 'PROCESSED' | 'MANUAL_REVIEW'
  outcome: string
  tries: number
  wasRefused: boolean
  isResolved: boolean
}

export interface World {
  /** The payments as the bank knows them, by key. */
  readonly truth: Map<string, Report>
  /** Whether the bank does not respond to the next requery. */
  fails: boolean
  readonly notifications: Map<string, Notification>
  /** The credited payments, by key. */
  readonly payments: Map<string, { readonly kobo: number; status: 'SUCCESS' | 'REVERSED' }>
}

export type Command =
  | {
      readonly kind: 'notify'
      readonly report: Report
      readonly isGenuine: boolean
      /** Whether the notification arrives at the instance that requeries everything. */
      readonly requery: boolean
    }
  | { readonly kind: 'know'; readonly key: string; readonly truth: Report | undefined }
  | { readonly kind: 'fail' }
  | { readonly kind: 'retry' | 'resolve' | 'statement'; readonly report: Report }

export const newWorld = (): World => ({
  truth: new Map(),
  fails: false,
  notifications: new Map(),
  payments: new Map(),
})

/** Notifications with the same body are the same notification. */
export const bodyOf = ({ key, kobo, state }: Report) => `${key} ${kobo} ${state}`

export function step(world: World, command: Command): string {
  switch (command.kind) {
    case 'notify':
      return command.isGenuine ? receive(world, command.report, command.requery) : 'UNAUTHENTICATED'
    case 'know':
      if (command.truth) world.truth.set(command.key, command.truth)
      else world.truth.delete(command.key)
      return 'done'
    case 'fail':
      world.fails = true
      return 'done'
    case 'statement':
      return reconcile(world, command.report)
    case 'retry':
    case 'resolve':
      return review(world, command.kind, world.notifications.get(bodyOf(command.report)))
  }
}

function receive(world: World, report: Report, requery: boolean): string {
  const body = bodyOf(report)
  const stored = world.notifications.get(body) ?? {
    report,
    state: 'PENDING',
    outcome: 'RETRY',
    tries: 0,
    wasRefused: false,
    isResolved: false,
  }
  world.notifications.set(body, stored)
  if (stored.state === 'PROCESSED') {
    return stored.outcome === 'RECORDED' ? 'DUPLICATE' : stored.outcome
  }
  return process(world, stored, requery)
}

/** An operator has what is in manual review tried again, or ends its review. */
function review(world: World, kind: 'retry' | 'resolve', found: Notification | undefined): string {
  if (found === undefined) return 'not_found'
  if (kind === 'resolve' && found.isResolved) return 'done'
  if (found.state !== 'MANUAL_REVIEW') return 'not_held'
  // Any instance may try it: it was refused, so each of them asks the bank.
  if (kind === 'retry') process(world, found, true)
  else Object.assign(found, { state: 'PROCESSED', isResolved: true })
  return 'done'
}

function process(world: World, notification: Notification, requery: boolean): string {
  const outcome = outcomeOf(world, notification.report, requery)
  notification.outcome = outcome
  notification.tries += 1
  if (outcome === 'MANUAL_REVIEW') notification.state = 'MANUAL_REVIEW'
  else {
    // The bank may confirm it later.
    const isOpen = outcome === 'RETRY' || outcome === 'UNCONFIRMED'
    notification.state = isOpen ? 'PENDING' : 'PROCESSED'
  }
  if (outcome === 'MANUAL_REVIEW' || outcome === 'UNCONFIRMED') notification.wasRefused = true
  return outcome
}

function outcomeOf(world: World, report: Report, requery: boolean): string {
  const reports = [...world.notifications.values()].filter((each) => each.report.key === report.key)
  const isAsked = requery || reports.some(({ wasRefused }) => wasRefused)
  return isAsked ? confirm(world, report) : apply(world, report, report)
}

/** Credits a payment that the bank confirms. */
function confirm(world: World, report: Report): string {
  if (world.fails) {
    world.fails = false
    return 'RETRY'
  }
  const known = world.truth.get(report.key)
  if (known === undefined) return 'UNCONFIRMED'
  return known.kobo === report.kobo ? apply(world, report, known) : 'MANUAL_REVIEW'
}

/** Applies a row of a statement: a missing payment is credited if the bank confirms it; a mismatch goes to review. */
function reconcile(world: World, report: Report): string {
  const recorded = world.payments.get(report.key)
  if (recorded) {
    const isState = report.state === 'paid' || recorded.status === 'REVERSED'
    return isState && recorded.kobo === report.kobo ? 'MATCHED NONE' : 'MISMATCHED REVIEW'
  }
  if (report.state === 'reversed') return 'MATCHED NONE'
  const outcome = confirm(world, report)
  return `MISSING ${outcome === 'RECORDED' || outcome === 'RETRY' ? outcome : 'REJECTED'}`
}

/** @param known the payment that the bank confirms, or that the signature covers */
function apply({ payments }: World, report: Report, known: Report): string {
  const recorded = payments.get(report.key)
  if (known.state === 'reversed') {
    if (recorded === undefined) return report.state === 'paid' ? 'UNCONFIRMED' : 'MANUAL_REVIEW'
    if (recorded.status === 'REVERSED') return 'DUPLICATE'
    recorded.status = 'REVERSED'
    return 'RECORDED'
  }
  if (report.state === 'reversed') return 'RETRY'
  if (recorded) return recorded.kobo === known.kobo ? 'DUPLICATE' : 'MANUAL_REVIEW'
  payments.set(report.key, { kobo: known.kobo, status: 'SUCCESS' })
  return 'RECORDED'
}
