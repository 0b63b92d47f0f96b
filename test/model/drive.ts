import type { DescService, MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { type Client, createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import type { Pool } from 'pg'
import { expect } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { FeeBearer } from '../../gen/inflow/account/v1/split_pb.ts'
import { AmountRule } from '../../gen/inflow/account/v1/terms_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { Schedule } from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  SettlementService,
  type SettleRequestSchema,
} from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { HeldPaymentService } from '../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import {
  HoldState,
  type Transaction,
  TransactionStatus,
  Variance,
} from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { ImportOutcome } from '../../gen/inflow/type/v1/import_pb.ts'
import { KEY_SCOPES } from '../../src/auth/caller.ts'
import { HOUR_MS } from '../../src/core/durations.ts'
import { readLogState } from '../../src/events/log-state.ts'
import { createRetention } from '../../src/events/retention.ts'
import { dispatchedUpTo } from '../../src/webhooks/deliveries/backlog.ts'
import type { MovedClock } from '../support/moved-clock.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { ADMIN_TOKEN, bearer } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import {
  type Answer,
  addAccount,
  type Command,
  keyOf,
  type NewAccount,
  newBusiness,
  newWorld,
  type Report,
  type Split,
  step,
  type World,
} from './money.ts'
import { answerOf, worldsAfter } from './try-stories.ts'

/** An instance, with one connection to it. */
export interface ModelInstance {
  readonly httpUrl: string
  client<Service extends DescService>(service: Service): Client<Service>
}

export function connectTo({
  grpcUrl,
  httpUrl,
}: {
  grpcUrl: string
  httpUrl: string
}): ModelInstance {
  const transport = createGrpcTransport({ baseUrl: grpcUrl, interceptors: [bearer(ADMIN_TOKEN)] })
  return { httpUrl, client: (service) => createClient(service, transport) }
}

/** The service, with its ids for the names of the model. */
export interface Drive {
  readonly durablePool: Pool
  readonly instances: readonly ModelInstance[]
  readonly clock: MovedClock
  /** Of all sessions of this run. */
  readonly prefix: string
  readonly startedMs: number
  readonly businesses: Map<string, { id: string; liveKey: string; testKey: string }>
  readonly accounts: Map<string, { reference: string; number: string }>
  /** The possible states of the service: one world, unless commands ran concurrently. */
  worlds: readonly World[]
  /** Chooses the instance of the next call. */
  calls: number
  /** Whether events of this run may have been archived. */
  hasArchived: boolean
}

/** Lagos is ahead of UTC. */
const LAGOS_HOURS = 1

/** Creates businesses and their accounts, in the service and in the model. */
export async function startDrive(
  service: Pick<Drive, 'durablePool' | 'instances' | 'clock' | 'prefix'>,
  names: readonly string[],
  accounts: readonly NewAccount[],
): Promise<Drive> {
  // It begins in the middle of an hour in Lagos.
  const hour = Math.ceil(service.clock.now() / HOUR_MS)
  const startedMs = hour * HOUR_MS + HOUR_MS / 2
  await service.clock.move(startedMs - service.clock.now())
  const world = newWorld(hour + LAGOS_HOURS)
  const drive: Drive = {
    ...service,
    startedMs,
    businesses: new Map(),
    accounts: new Map(),
    worlds: [world],
    calls: 0,
    hasArchived: false,
  }
  for (const name of names) {
    const client = clientOf(drive, BusinessService)
    const { id } = (await client.createBusiness({ name })).business!
    const rights = { businessId: id, scopes: [...KEY_SCOPES], allowedCidrs: ['127.0.0.0/8'] }
    const [live, test] = [
      await client.issueKey(rights),
      await client.issueKey({ ...rights, test: true }),
    ]
    drive.businesses.set(name, { id, liveKey: live.secretKey, testKey: test.secretKey })
    world.businesses.set(name, newBusiness())
  }
  for (const [index, each] of accounts.entries()) {
    const name = `${each.business}${index}`
    await openAccount(drive, name, each)
    addAccount(world, name, each)
  }
  return drive
}

async function openAccount(drive: Drive, name: string, each: NewAccount): Promise<void> {
  const { terms, split, live } = each
  const created = await clientOf(drive, AccountService).createAccount({
    businessId: idOf(drive, each.business),
    reference: name,
    bank: Bank.BANK_9PSB,
    firstName: 'Ada',
    lastName: 'Obi',
    email: 'ada@example.com',
    phone: '08012345678',
    test: !live,
    ...(terms && {
      amountMinor: terms.amountMinor,
      amountRule: AmountRule[terms.rule],
      singleUse: terms.singleUse,
      ...(terms.expires && { expiresAt: timestampFromMs(drive.startedMs + HOUR_MS) }),
    }),
    ...(split && { split: toSplit(drive, split) }),
  })
  const { reference, accountNumber } = created.account!
  drive.accounts.set(name, { reference, number: accountNumber })
}

/** Ends a run: others have its holidays otherwise. */
export async function endDrive(drive: Drive): Promise<void> {
  for (const day of drive.worlds[0]?.holidays ?? []) {
    await run(drive, { kind: 'toggleHoliday', day })
  }
}

/** Runs one command, and keeps the worlds in which the caller gets the service's result. */
export async function run(drive: Drive, command: Command): Promise<void> {
  await runTogether(drive, [command])
}

/** Runs commands concurrently. Some order of them must explain their results. */
export async function runTogether(drive: Drive, commands: readonly Command[]): Promise<void> {
  const answers = await Promise.all(commands.map((command) => execute(drive, command)))
  if (commands.some(({ kind }) => MAKES_DUE.has(kind))) await settleDue(drive)
  keepExplaining(drive, commands, answers)
}

/** After these commands, the job may settle due payments at any time, so they are settled at once. */
const MAKES_DUE: ReadonlySet<Command['kind']> = new Set(['setTerms', 'toggleHoliday', 'pass'])

/** Keeps the worlds in which some order of the commands has these results. */
export function keepExplaining(
  drive: Drive,
  commands: readonly Command[],
  answers: readonly Answer[],
): void {
  const worlds = worldsAfter(step, drive.worlds, commands, answers)
  if (worlds.length === 0) throw new Error(explain(drive, commands, answers))
  drive.worlds = worlds
}

function explain(drive: Drive, commands: readonly Command[], answers: readonly Answer[]): string {
  const lines = commands.map((command, index) => {
    const expected = new Set(
      drive.worlds.flatMap((world) => step(world, command).map((next) => next.answer)),
    )
    return `${textOf(command)}\n  was answered: ${answers[index]}\n  alone it would be: ${[...expected].join(' | ')}`
  })
  return `no order of these commands explains their answers:\n${lines.join('\n')}`
}

/** A command or an account as one line. */
export const textOf = (command: Command | NewAccount): string =>
  JSON.stringify(command, (_key, value) => (typeof value === 'bigint' ? Number(value) : value))

/** @returns the result of the caller */
export const execute = (drive: Drive, command: Command): Promise<Answer> =>
  answerOf(call(drive, command))

async function call(drive: Drive, command: Command): Promise<Answer> {
  switch (command.kind) {
    case 'record': {
      const report = toReport(drive, command.report)
      const { outcome, transaction } = await clientOf(drive, TransactionService).recordPayment(
        report,
      )
      return showOutcome(drive, outcome, transaction)
    }
    case 'recordMany': {
      const payments = command.reports.map((report) => toReport(drive, report))
      const { results } = await clientOf(drive, TransactionService).recordPayments({ payments })
      return results
        .map(({ outcome, transaction }) => showOutcome(drive, outcome, transaction))
        .join(', ')
    }
    case 'simulate': {
      const { sessionId, accountNumber, amountMinor } = toReport(drive, command.report)
      const request = { sessionId, accountNumber, amountMinor }
      const simulated = await clientOf(drive, SandboxService).simulateTransfer(request)
      return showOutcome(drive, simulated.outcome, simulated.transaction)
    }
    case 'reverse':
    case 'accept':
    case 'return':
    case 'completeReturn':
      return change(drive, command)
    case 'settle':
    case 'preview':
      return settle(drive, command)
    case 'settleAll':
      // Only that of one business waits until what was recorded before has its numbers.
      await awaitEvents(drive)
      return settleAll(drive, { test: !command.live, force: true })
    case 'setTerms': {
      const { flatMinor, basisPoints, capMinor, schedule, workingDays, cutOffHour } = command.terms
      await clientOf(drive, SettlementService).updateSettlementTerms({
        businessId: idOf(drive, command.business),
        terms: {
          feeFlatMinor: flatMinor,
          feeBasisPoints: basisPoints,
          feeCapMinor: capMinor,
          schedule: Schedule[schedule],
          workingDays,
          cutOff: `${cutOffHour}`.padStart(2, '0').concat(':00'),
        },
      })
      return 'done'
    }
    case 'toggleHoliday': {
      const client = clientOf(drive, SettlementService)
      const day = new Date(command.day * 24 * HOUR_MS).toISOString().slice(0, 10)
      if (drive.worlds[0]!.holidays.has(command.day)) await client.removeHoliday({ day })
      else await client.addHoliday({ day, name: 'Holiday' })
      return 'done'
    }
    case 'pass':
      await awaitEvents(drive)
      await drive.clock.move(command.hours * HOUR_MS)
      return 'done'
    case 'archive':
      await awaitEvents(drive)
      await archive(drive)
      return 'done'
    case 'setSplit': {
      const { split } = command
      await clientOf(drive, AccountService).setAccountSplit({
        ...accountKey(drive, command.account),
        ...(split && { split: toSplit(drive, split) }),
      })
      return 'done'
    }
    case 'close':
      await clientOf(drive, AccountService).closeAccount(accountKey(drive, command.account))
      return 'done'
    case 'assign':
    case 'returnUnmatched':
      return resolve(drive, command)
    case 'resolveConflict': {
      const { to, amountMinor, status, payment } = command.conflict
      const { rows } = await drive.durablePool.query<{ id: string }>(
        `select id from payment_conflict where transaction_id = $1 and account_number = $2
          and amount_minor = $3 and status = $4`,
        [await transactionIdOf(drive, payment), numberOf(drive, to), amountMinor, status],
      )
      const request = { conflictId: rows[0]?.id ?? '', note: 'the bank was wrong' }
      await clientOf(drive, ReconciliationService).resolvePaymentConflict(request)
      return 'done'
    }
    case 'import': {
      const { status, settled } = command
      const { business, live } = drive.worlds[0]!.accounts.get(command.report.to)!
      const payment = {
        ...toReport(drive, command.report),
        status: TransactionStatus[status],
        settled,
      }
      const request = { businessId: idOf(drive, business), test: !live, transactions: [payment] }
      const { results } = await clientOf(drive, TransactionService).importTransactions(request)
      return word(ImportOutcome, results[0]!.outcome)
    }
  }
}

async function change(
  drive: Drive,
  { kind, payment }: Extract<Command, { payment: string }>,
): Promise<Answer> {
  const transactionId = await transactionIdOf(drive, payment)
  const held = clientOf(drive, HeldPaymentService)
  switch (kind) {
    case 'reverse': {
      const request = { transactionId, reason: 'sent twice' }
      const response = await clientOf(drive, TransactionService).reverseTransaction(request)
      return show(drive, 'REVERSED', response.transaction)
    }
    case 'accept':
      return show(drive, 'ACCEPTED', (await held.acceptPayment({ transactionId })).transaction)
    case 'return':
      return show(
        drive,
        'RETURN_REQUESTED',
        (await held.returnPayment({ transactionId })).transaction,
      )
    case 'completeReturn': {
      const request = { transactionId, note: 'sent back' }
      return show(drive, 'RETURNED', (await held.completeReturn(request)).transaction)
    }
  }
}

async function settle(
  drive: Drive,
  { kind, business, live }: Extract<Command, { kind: 'settle' | 'preview' }>,
): Promise<Answer> {
  const client = clientOf(drive, SettlementService)
  const request = { businessId: idOf(drive, business), test: !live, force: true }
  const response =
    kind === 'preview'
      ? await client.previewSettlement(request)
      : (await client.settle(request)).settlements[0]
  if (response === undefined) return 'nothing'
  const { transactionCount, grossMinor, feesMinor, splitsMinor, netMinor } = response
  return `${transactionCount}: ${grossMinor} - ${feesMinor} - ${splitsMinor} = ${netMinor}`
}

/** Settles payments that are due by the schedules; the job may already have done so. */
async function settleDue(drive: Drive): Promise<void> {
  for (const test of [true, false]) expect(await settleAll(drive, { test })).toBe('done')
}

async function settleAll(
  drive: Drive,
  request: MessageInitShape<typeof SettleRequestSchema>,
): Promise<Answer> {
  const { completed } = await clientOf(drive, SettlementService).settle(request)
  return completed ? 'done' : 'not completed'
}

/** Waits until all events have their positions and deliveries. */
async function awaitEvents({ durablePool }: Drive): Promise<void> {
  await waitFor(async () => {
    const { rowCount } = await durablePool.query(
      'select from outbox o where not exists (select from event_log l where l.outbox_seq = o.seq)',
    )
    expect(rowCount).toBe(0)
    const { end } = await readLogState(durablePool)
    expect(await dispatchedUpTo(durablePool)).toBe(end.position)
  })
}

/** Archives events that are older than a day, a few at a time. */
async function archive(drive: Drive): Promise<void> {
  const { durablePool, clock } = drive
  await createRetention(createTestRuntime({ durablePool }, { clock }), {
    retentionDays: 1,
    rowsMax: 3,
    dispatchedUpTo: () => dispatchedUpTo(durablePool),
  }).run()
  drive.hasArchived = true
}

async function resolve(
  drive: Drive,
  command: Extract<Command, { kind: 'assign' | 'returnUnmatched' }>,
): Promise<Answer> {
  const client = clientOf(drive, ReconciliationService)
  const { sessionId, accountNumber, amountMinor } = toReport(drive, command.report)
  const { rows } = await drive.durablePool.query<{ id: string }>(
    `select id from unmatched_payment where session_id = $1 and account_number = $2
      and amount_minor = $3 and status = $4`,
    [sessionId, accountNumber, amountMinor, command.report.status],
  )
  const unmatchedPaymentId = rows[0]?.id ?? ''
  if (command.kind === 'returnUnmatched') {
    await client.returnUnmatchedPayment({ unmatchedPaymentId, note: 'sent back' })
    return 'RETURNED'
  }
  const into = { unmatchedPaymentId, ...accountKey(drive, command.account), note: 'theirs' }
  const { transaction } = await client.assignUnmatchedPayment(into)
  return show(drive, 'ASSIGNED', transaction)
}

// The names of the model in the service

/** A client of the next instance in turn. */
export function clientOf<Service extends DescService>(drive: Drive, service: Service) {
  drive.calls += 1
  return drive.instances[drive.calls % drive.instances.length]!.client(service)
}

export const idOf = ({ businesses }: Drive, name: string) => businesses.get(name)!.id

export const sessionOf = ({ prefix }: Drive, session: string) => `${prefix}-${session}`

/** The number of an account, or one that no account has. */
export const numberOf = ({ accounts }: Drive, name: string) => accounts.get(name)?.number ?? name

const accountKey = (drive: Drive, name: string) => {
  const { business } = drive.worlds[0]!.accounts.get(name)!
  return { businessId: idOf(drive, business), reference: drive.accounts.get(name)!.reference }
}

function toSplit(drive: Drive, { shares, bearer }: Split) {
  return {
    recipients: shares.map(({ business, basisPoints, amountMinor }) => {
      return { businessId: idOf(drive, business), basisPoints, amountMinor }
    }),
    feeBearer: FeeBearer[bearer],
  }
}

function toReport(drive: Drive, { session, to, amountMinor, status, late }: Report) {
  return {
    bank: Bank.BANK_9PSB,
    accountNumber: numberOf(drive, to),
    amountMinor,
    sessionId: sessionOf(drive, session),
    status: TransactionStatus[status],
    paidAt: timestampFromMs(drive.startedMs + (late ? 2 : -1) * HOUR_MS),
  }
}

async function transactionIdOf(drive: Drive, payment: string): Promise<string> {
  const { rows } = await drive.durablePool.query<{ id: string }>(
    'select transaction_id as id from payment_session where session_id = $1 and live = $2',
    [sessionOf(drive, payment.slice(5)), payment === keyOf(true, payment.slice(5))],
  )
  return rows[0]!.id
}

/** The word of a value of an enum. */
export const word = (names: Readonly<Record<string, number>>, value: number) =>
  Object.keys(names).find((name) => names[name] === value)!

function showOutcome(drive: Drive, outcome: RecordOutcome, shown: Transaction | undefined): Answer {
  const name = word(RecordOutcome, outcome)
  return shown ? show(drive, name, shown) : name
}

/** A payment of the service in the terms of the model. */
export function show(drive: Drive, outcome: string, shown: Transaction | undefined): Answer {
  const { accountReference, amountMinor, status, settled, variance, holdState } = shown!
  const [name] = [...drive.accounts].find(([, { reference }]) => reference === accountReference)!
  const differs = variance === 0 ? '-' : word(Variance, variance)
  const hold = holdState === 0 ? '-' : word(HoldState, holdState)
  const state = `${word(TransactionStatus, status)} ${settled ? 'settled' : 'unsettled'}`
  return `${outcome} ${name} ${amountMinor} ${state} ${differs} ${hold}`
}
