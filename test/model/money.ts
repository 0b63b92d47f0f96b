/**
 * A model of the rules for money, as plain data and one function: `step` takes the world and a command, and returns
 * the next world and the result of the caller. The model has no concurrency and no storage. Concurrent commands must get
 * the results of some sequential order: see `runTogether` in drive.ts.
 *
 * Businesses, accounts and payments have short names here; drive.ts knows their ids in the service.
 */

export type Status = 'PENDING' | 'SUCCESS' | 'FAILED' | 'REVERSED'
export type Variance = 'NONE' | 'UNDERPAID' | 'OVERPAID' | 'EXPIRED' | 'REPEATED'
export type Hold = 'HELD' | 'ACCEPTED' | 'RETURN_REQUESTED' | 'RETURNED'

export interface Fee {
  readonly flatMinor: bigint
  readonly basisPoints: number
  readonly capMinor: bigint
}

/** When payments are due, at full hours in Lagos, and the fee for each of them. */
export interface SettlementTerms extends Fee {
  readonly schedule: 'DAILY' | 'WORKING_DAYS'
  readonly workingDays: number
  readonly cutOffHour: number
}

export interface Share {
  readonly business: string
  readonly basisPoints: number
  readonly amountMinor: bigint
}

export interface Split {
  readonly shares: readonly Share[]
  readonly bearer: 'OWNER' | 'SHARED'
}

export interface Terms {
  readonly amountMinor: bigint
  readonly rule: 'EXACT' | 'AT_LEAST' | 'AT_MOST' | 'ANY'
  readonly singleUse: boolean
  readonly expires: boolean
}

export interface Account {
  readonly name: string
  readonly business: string
  readonly live: boolean
  readonly terms: Terms | undefined
  split: Split | undefined
  isClosed: boolean
  isUsed: boolean
}

/** A payment as a caller reports it. `to` is the name of an account, or of a number that no account has. */
export interface Report {
  readonly session: string
  readonly to: string
  readonly amountMinor: bigint
  readonly status: 'PENDING' | 'SUCCESS' | 'FAILED'
  /** Whether it was paid after the expiry of its account, if that has one. */
  readonly late: boolean
}

export interface Payment {
  readonly session: string
  readonly account: string
  /** The reported account number, which differs from that of the account if an operator assigned the payment. */
  readonly reportedTo: string
  readonly amountMinor: bigint
  readonly late: boolean
  /** Of its account, when its money arrived. */
  split: Split | undefined
  /** Whether another provider credited it: it is in no balance, and nothing changes it. */
  readonly imported: boolean
  status: Status
  settled: boolean
  feeMinor: bigint
  variance: Variance | undefined
  hold: Hold | undefined
  /** The hour in which its money got into a balance. */
  creditedHour: number
  /** The kinds of its events, in their order. */
  events: string[]
}

export interface Unmatched {
  readonly report: Report
  resolution: 'ASSIGNED' | 'RETURNED' | undefined
}

/** A report that contradicts a recorded payment. */
export interface Conflict {
  /** The key of the payment. */
  readonly payment: string
  readonly to: string
  readonly amountMinor: bigint
  readonly status: Status
  isResolved: boolean
}

export interface World {
  /** Since the epoch, in Lagos. What happens within one hour happens between its full hours. */
  hour: number
  /** The hour in which the world began. Accounts that expire do so after it. */
  readonly firstHour: number
  /** Days since the epoch. */
  readonly holidays: Set<number>
  readonly businesses: Map<string, { terms: SettlementTerms }>
  readonly accounts: Map<string, Account>
  /** By mode and session: all payments are at one bank. */
  readonly payments: Map<string, Payment>
  readonly unmatched: Unmatched[]
  readonly conflicts: Conflict[]
}

export type Command =
  | { readonly kind: 'record'; readonly report: Report }
  | { readonly kind: 'recordMany'; readonly reports: readonly Report[] }
  | { readonly kind: 'simulate'; readonly report: Report }
  | { readonly kind: 'reverse' | 'accept' | 'return' | 'completeReturn'; readonly payment: string }
  | { readonly kind: 'settle' | 'preview'; readonly business: string; readonly live: boolean }
  | { readonly kind: 'settleAll'; readonly live: boolean }
  | { readonly kind: 'setTerms'; readonly business: string; readonly terms: SettlementTerms }
  | { readonly kind: 'toggleHoliday'; readonly day: number }
  /** Time passes, and payments that are due by then are settled. */
  | { readonly kind: 'pass'; readonly hours: number }
  /** Events are archived: see `compareEvents`. */
  | { readonly kind: 'archive' }
  | { readonly kind: 'setSplit'; readonly account: string; readonly split: Split | undefined }
  | { readonly kind: 'close'; readonly account: string }
  | { readonly kind: 'assign'; readonly report: Report; readonly account: string }
  | { readonly kind: 'returnUnmatched'; readonly report: Report }
  | { readonly kind: 'resolveConflict'; readonly conflict: Omit<Conflict, 'isResolved'> }
  | {
      readonly kind: 'import'
      readonly report: Report
      readonly status: 'SUCCESS' | 'FAILED' | 'REVERSED'
      readonly settled: boolean
    }

/** The result of a caller: an outcome or the reason of a refusal, and the shown payment. */
export type Answer = string

/** Those of a new business. */
const FIRST_TERMS: SettlementTerms = {
  flatMinor: 0n,
  basisPoints: 0,
  capMinor: 0n,
  schedule: 'WORKING_DAYS',
  workingDays: 1,
  cutOffHour: 0,
}

export const newBusiness = () => ({ terms: FIRST_TERMS })

export const newWorld = (hour: number): World => ({
  hour,
  firstHour: hour,
  holidays: new Set(),
  businesses: new Map(),
  accounts: new Map(),
  payments: new Map(),
  unmatched: [],
  conflicts: [],
})

/** An account to begin with. */
export type NewAccount = Pick<Account, 'business' | 'live' | 'terms' | 'split'>

export function addAccount({ accounts }: World, name: string, account: NewAccount): void {
  accounts.set(name, { ...account, name, isClosed: false, isUsed: false })
}

export const keyOf = (live: boolean, session: string) => `${live ? 'live' : 'test'} ${session}`

export interface Step {
  readonly world: World
  readonly answer: Answer
}

/** Returns the one or two possible worlds after a command, with the results of the caller. Does not change `world`. */
export function step(world: World, command: Command): readonly Step[] {
  const next = structuredClone(world)
  const only = { world: next, answer: apply(next, command) }
  // A settlement may have begun before a reversal left it nothing to settle.
  if (command.kind === 'settle' && only.answer === 'nothing') {
    return [only, { ...only, answer: '0: 0 - 0 - 0 = 0' }]
  }
  if (command.kind !== 'simulate' || only.answer !== 'not_found') return [only]
  // The account may have been found before it was closed.
  const closed = structuredClone(world)
  const report = paidNow(closed, command.report)
  return [only, { world: closed, answer: record(closed, report, liveOf(closed, command)) }]
}

const liveOf = (world: World, { report }: { readonly report: Report }) =>
  world.accounts.get(report.to)?.live

function apply(world: World, command: Command): Answer {
  switch (command.kind) {
    case 'record':
      return record(world, command.report, undefined)
    case 'recordMany':
      return command.reports.map((report) => record(world, report, undefined)).join(', ')
    case 'simulate':
      return simulate(world, command.report)
    case 'reverse':
      return reverse(payment(world, command.payment))
    case 'accept':
      return accept(world, payment(world, command.payment))
    case 'return':
      return requestReturn(payment(world, command.payment))
    case 'completeReturn':
      return completeReturn(payment(world, command.payment))
    case 'settle':
      return settle(world, command.business, command.live, true)
    case 'preview':
      return settle(world, command.business, command.live, false)
    case 'settleAll':
      for (const name of world.businesses.keys()) settle(world, name, command.live, true)
      return 'done'
    case 'setTerms':
      business(world, command.business).terms = command.terms
      return settleDue(world)
    case 'toggleHoliday':
      if (!world.holidays.delete(command.day)) world.holidays.add(command.day)
      return settleDue(world)
    case 'pass':
      world.hour += command.hours
      return settleDue(world)
    case 'archive':
      return 'done'
    case 'setSplit':
      account(world, command.account).split = command.split
      return 'done'
    case 'close':
      account(world, command.account).isClosed = true
      return 'done'
    case 'assign':
      return assign(world, command.report, account(world, command.account))
    case 'returnUnmatched':
      return returnUnmatched(world, command.report)
    case 'resolveConflict': {
      const conflict = findConflict(world, command.conflict)
      if (conflict) conflict.isResolved = true
      return 'done'
    }
    case 'import':
      return importPayment(world, command)
  }
}

// Recording

/** Records a report in the mode of its account. A report that names no open account may be one of a live payment. */
function record(world: World, report: Report, mode: boolean | undefined): Answer {
  const into = world.accounts.get(report.to)
  const isOpen = into !== undefined && !into.isClosed
  const live = isOpen ? into.live : (mode ?? true)
  const recorded =
    world.payments.get(keyOf(live, report.session)) ?? findInTest(world, report, isOpen)
  if (recorded !== undefined) return repeat(world, recorded, report)
  const wasReturned = live && world.unmatched.some((each) => isReturned(each, report))
  if (isOpen && !wasReturned) return credit(world, newPayment(report, into), 'RECORDED')
  if (live) addUnmatched(world, report)
  return 'UNMATCHED'
}

/** A test payment is found by a report for its own account's number only, once that account is closed. */
function findInTest(world: World, report: Report, isOpen: boolean): Payment | undefined {
  const found = isOpen ? undefined : world.payments.get(keyOf(false, report.session))
  return found?.account === report.to ? found : undefined
}

function newPayment(report: Report, into: Account): Payment {
  const { session, to, amountMinor, status, late } = report
  return {
    session,
    account: into.name,
    reportedTo: to,
    amountMinor,
    late,
    status,
    split: into.split,
    imported: false,
    settled: false,
    feeMinor: 0n,
    variance: undefined,
    hold: undefined,
    creditedHour: 0,
    events: [],
  }
}

/** Stores a payment, and, if its money has arrived, credits it or holds it. */
function credit(world: World, payment: Payment, outcome: string): Answer {
  const into = account(world, payment.account)
  world.payments.set(keyOf(into.live, payment.session), payment)
  payment.split = into.split
  if (payment.status === 'SUCCESS') {
    payment.creditedHour = world.hour
    if (into.terms) {
      payment.variance = varianceOf(into.terms, into.isUsed, payment)
      if (payment.variance !== 'NONE') payment.hold = 'HELD'
      else if (into.terms.singleUse) into.isUsed = true
    }
    payment.events.push(payment.hold === 'HELD' ? 'PAYMENT_ON_HOLD' : 'PAYMENT_NOTIFICATION')
  }
  return show(outcome, payment)
}

function varianceOf(terms: Terms, isUsed: boolean, { amountMinor, late }: Payment): Variance {
  if (isUsed) return 'REPEATED'
  if (terms.expires && late) return 'EXPIRED'
  if (amountMinor < terms.amountMinor && ['EXACT', 'AT_LEAST'].includes(terms.rule)) {
    return 'UNDERPAID'
  }
  return amountMinor > terms.amountMinor && ['EXACT', 'AT_MOST'].includes(terms.rule)
    ? 'OVERPAID'
    : 'NONE'
}

/** A report of a recorded payment: it repeats it, makes it final, or contradicts it. */
function repeat(world: World, recorded: Payment, report: Report): Answer {
  const { status } = recorded
  const isSame =
    recorded.amountMinor === report.amountMinor &&
    ([recorded.account, recorded.reportedTo].includes(report.to) ||
      world.unmatched.some(
        (each) => isSameReport(each.report, report) && each.resolution === 'ASSIGNED',
      ))
  if (isSame && repeatsStatus(recorded, report)) return show('DUPLICATE', recorded)
  if (!isSame || status !== 'PENDING') return contradict(world, recorded, report)
  recorded.status = report.status
  return credit(world, recorded, 'RECORDED')
}

export const repeatsStatus = ({ status }: Payment, report: Report) =>
  status === report.status ||
  report.status === 'PENDING' ||
  (status === 'REVERSED' && report.status === 'SUCCESS')

/** A simulated transfer is paid when it is requested. */
const paidNow = ({ hour, firstHour }: World, report: Report): Report => ({
  ...report,
  late: hour > firstHour,
})

/** The same contradiction waits for an operator once. */
function contradict(world: World, recorded: Payment, report: Report): Answer {
  const { live } = account(world, recorded.account)
  const { to, amountMinor, status } = report
  const conflict = { payment: keyOf(live, recorded.session), to, amountMinor, status }
  if (!findConflict(world, conflict)) world.conflicts.push({ ...conflict, isResolved: false })
  return show('CONFLICT', recorded)
}

const findConflict = (world: World, one: Omit<Conflict, 'isResolved'>) =>
  world.conflicts.find(
    ({ payment, to, amountMinor, status }) =>
      payment === one.payment &&
      to === one.to &&
      amountMinor === one.amountMinor &&
      status === one.status,
  )

function simulate(world: World, report: Report): Answer {
  const into = world.accounts.get(report.to)
  if (into === undefined || into.isClosed) return 'not_found'
  return record(world, paidNow(world, report), into.live)
}

// Unmatched payments

const isSameReport = (a: Report, b: Report) =>
  a.session === b.session && a.to === b.to && a.amountMinor === b.amountMinor

const isReturned = ({ report, resolution }: Unmatched, { session }: Report) =>
  report.session === session && resolution === 'RETURNED'

function addUnmatched(world: World, report: Report): void {
  const same = world.unmatched.filter((each) => isSameReport(each.report, report))
  if (same.some((each) => each.report.status === report.status)) return
  world.unmatched.push({ report, resolution: undefined })
}

function openReports(world: World, report: Report): Unmatched[] {
  return world.unmatched.filter(
    (each) => isSameReport(each.report, report) && each.resolution === undefined,
  )
}

/**
 * Records the report that says most: a final one before a pending one, and of those the one that was named. Reports that
 * contradict it become conflicts.
 */
function assign(world: World, named: Report, into: Account): Answer {
  const open = openReports(world, named)
  const isNamed = ({ report }: Unmatched) => report.status === named.status
  const recorded = world.payments.get(keyOf(true, named.session))
  const before = world.unmatched.find((each) => isSameReport(each.report, named) && isNamed(each))
  if (!open.some(isNamed)) {
    const isRepeat = before?.resolution === 'ASSIGNED' && recorded?.account === into.name
    return isRepeat ? show('ASSIGNED', recorded) : 'payment_resolved'
  }
  if (world.unmatched.some((each) => isReturned(each, named))) return 'payment_resolved'
  if (recorded !== undefined) return attach(world, open, recorded, into)
  const final = open.filter(({ report }) => report.status !== 'PENDING')
  const chosen =
    final.find(isNamed) ??
    final.find(({ report }) => report.status === 'SUCCESS') ??
    final[0] ??
    (open[0] as Unmatched)
  const payment = newPayment(chosen.report, into)
  const answer = credit(world, payment, 'ASSIGNED')
  for (const each of open) {
    if (!repeatsStatus(payment, each.report)) contradict(world, payment, each.report)
    each.resolution = 'ASSIGNED'
  }
  return answer
}

/** The session is recorded: reports of it that contradict the payment become conflicts. */
function attach(world: World, open: Unmatched[], recorded: Payment, into: Account): Answer {
  if (recorded.account !== into.name) return 'payment_resolved'
  for (const each of open) {
    const { report } = each
    const isSame = recorded.amountMinor === report.amountMinor && repeatsStatus(recorded, report)
    if (!isSame) contradict(world, recorded, report)
    each.resolution = 'ASSIGNED'
  }
  return show('ASSIGNED', recorded)
}

function returnUnmatched(world: World, named: Report): Answer {
  const before = world.unmatched.find(
    (each) => isSameReport(each.report, named) && each.report.status === named.status,
  )
  if (before?.resolution === 'RETURNED') return 'RETURNED'
  const isRecorded = world.payments.has(keyOf(true, named.session))
  if (before?.resolution === 'ASSIGNED' || isRecorded) return 'payment_resolved'
  for (const each of openReports(world, named)) each.resolution = 'RETURNED'
  return 'RETURNED'
}

// Imports

function importPayment(
  world: World,
  { report, status, settled }: Extract<Command, { kind: 'import' }>,
): Answer {
  const into = account(world, report.to)
  const key = keyOf(into.live, report.session)
  const recorded = world.payments.get(key)
  if (recorded === undefined) {
    const payment = { ...newPayment({ ...report, status: 'SUCCESS' }, into), imported: true }
    world.payments.set(key, { ...payment, status, settled })
    return 'IMPORTED'
  }
  const isSame =
    recorded.account === into.name &&
    recorded.amountMinor === report.amountMinor &&
    recorded.status === status &&
    (!recorded.imported || recorded.settled === settled)
  return isSame ? 'DUPLICATE' : 'REJECTED'
}

// Changes of a payment

function reverse(payment: Payment): Answer {
  if (payment.status === 'REVERSED') return 'already_reversed'
  if (payment.imported) return 'imported_transaction'
  if (payment.status !== 'SUCCESS') return 'not_reversible'
  return undo(payment)
}

function undo(payment: Payment): Answer {
  payment.status = 'REVERSED'
  if (payment.hold === 'HELD' || payment.hold === 'RETURN_REQUESTED') payment.hold = 'RETURNED'
  payment.events.push('PAYMENT_REVERSED')
  return show('REVERSED', payment)
}

function accept(world: World, payment: Payment): Answer {
  if (payment.hold === 'HELD') {
    payment.hold = 'ACCEPTED'
    payment.creditedHour = world.hour
    payment.events.push('PAYMENT_NOTIFICATION')
    const into = account(world, payment.account)
    if (into.terms?.singleUse) into.isUsed = true
  }
  return payment.hold === 'ACCEPTED' ? show('ACCEPTED', payment) : 'not_held'
}

function requestReturn(payment: Payment): Answer {
  if (payment.hold === 'HELD') {
    payment.hold = 'RETURN_REQUESTED'
    payment.events.push('PAYMENT_RETURN_REQUESTED')
  }
  const isReturned = payment.hold === 'RETURN_REQUESTED' || payment.hold === 'RETURNED'
  return isReturned ? show('RETURN_REQUESTED', payment) : 'not_held'
}

function completeReturn(payment: Payment): Answer {
  if (payment.hold === 'RETURN_REQUESTED') {
    undo(payment)
    return show('RETURNED', payment)
  }
  return payment.hold === 'RETURNED' ? show('RETURNED', payment) : 'not_held'
}

// Settlement and balances

/** Whether a payment is in a balance. */
const isCredited = ({ status, hold, imported }: Payment) =>
  !imported && status === 'SUCCESS' && (hold === undefined || hold === 'ACCEPTED')

export const paymentsOf = (world: World, name: string, live: boolean) =>
  [...world.payments.values()].filter((each) => {
    const into = account(world, each.account)
    return into.business === name && into.live === live
  })

function settle(world: World, name: string, live: boolean, isRun: boolean): Answer {
  const due = paymentsOf(world, name, live).filter((each) => isCredited(each) && !each.settled)
  const { terms: fee } = business(world, name)
  const settled = due.map((each) => ({ ...each, feeMinor: feeOf(fee, each.amountMinor) }))
  const gross = sum(due.map((each) => each.amountMinor))
  const fees = sum(settled.map((each) => each.feeMinor))
  const splits = sum(settled.flatMap((each) => sharesOf(each).map((share) => share.amountMinor)))
  if (isRun)
    for (const each of due)
      Object.assign(each, { settled: true, feeMinor: feeOf(fee, each.amountMinor) })
  return isRun && due.length === 0
    ? 'nothing'
    : `${due.length}: ${gross} - ${fees} - ${splits} = ${gross - fees - splits}`
}

/** Settles the due payments of all businesses with their fees. */
function settleDue(world: World): Answer {
  for (const [name, { terms }] of world.businesses) {
    for (const live of [true, false]) {
      for (const each of paymentsOf(world, name, live)) {
        const isDue = dueHour(terms, world.holidays, each.creditedHour) <= world.hour
        if (!isCredited(each) || each.settled || !isDue) continue
        Object.assign(each, { settled: true, feeMinor: feeOf(terms, each.amountMinor) })
      }
    }
  }
  return 'done'
}

/** DAILY: the next cut-off. WORKING_DAYS: the cut-off of a later working day. */
function dueHour(terms: SettlementTerms, holidays: ReadonlySet<number>, hour: number): number {
  let day = Math.floor(hour / 24)
  if (terms.schedule === 'DAILY')
    return 24 * (hour % 24 < terms.cutOffHour ? day : day + 1) + terms.cutOffHour
  for (let left = terms.workingDays; left > 0; ) {
    day += 1
    // 1 January 1970 was a Thursday.
    const isWeekend = [0, 6].includes((day + 4) % 7)
    if (!isWeekend && !holidays.has(day)) left -= 1
  }
  return 24 * day + terms.cutOffHour
}

/** A flat and a proportional fee, rounded half up, at most the cap and at most the amount. */
function feeOf({ flatMinor, basisPoints, capMinor }: Fee, amountMinor: bigint): bigint {
  const full = flatMinor + (amountMinor * BigInt(basisPoints) + 5_000n) / 10_000n
  const capped = capMinor > 0n ? least(full, capMinor) : full
  return least(capped, amountMinor)
}

/** The shares of a settled payment, each rounded down and never more than what is left. */
export function sharesOf({ split, amountMinor, feeMinor }: Payment) {
  let left = amountMinor - feeMinor
  return (split?.shares ?? []).map((share) => {
    const base = split?.bearer === 'SHARED' ? amountMinor - feeMinor : amountMinor
    const wanted = share.amountMinor || (base * BigInt(share.basisPoints)) / 10_000n
    const taken = least(wanted, left)
    left -= taken
    return { business: share.business, amountMinor: taken }
  })
}

export function balanceOf(world: World, name: string, live: boolean) {
  const own = paymentsOf(world, name, live).filter(isCredited)
  const settled = own.filter((each) => each.settled)
  const fees = sum(settled.map((each) => each.feeMinor))
  const given = sum(settled.flatMap((each) => sharesOf(each).map((share) => share.amountMinor)))
  const all = [...world.payments.values()].filter(
    (each) => account(world, each.account).live === live,
  )
  const received = all.filter((each) => isCredited(each) && each.settled).flatMap(sharesOf)
  const shares = received.filter((share) => share.business === name)
  return {
    pendingMinor: sum(own.filter((each) => !each.settled).map((each) => each.amountMinor)),
    availableMinor:
      sum(settled.map((each) => each.amountMinor)) -
      fees -
      given +
      sum(shares.map((each) => each.amountMinor)),
    feesMinor: fees,
  }
}

/** The shown fields of a payment. */
export function show(outcome: string, { account, amountMinor, status, ...more }: Payment): Answer {
  const { settled, variance = '-', hold = '-' } = more
  return `${outcome} ${account} ${amountMinor} ${status} ${settled ? 'settled' : 'unsettled'} ${variance} ${hold}`
}

const least = (a: bigint, b: bigint) => (a < b ? a : b)
const sum = (amounts: readonly bigint[]) => amounts.reduce((total, each) => total + each, 0n)

function payment(world: World, key: string): Payment {
  return world.payments.get(key) as Payment
}

export function account(world: World, name: string): Account {
  return world.accounts.get(name) as Account
}

function business(world: World, name: string) {
  return world.businesses.get(name) as { terms: SettlementTerms }
}
