import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import {
  NotificationResult,
  NotificationState,
} from '../../gen/inflow/notification/v1/notification_pb.ts'
import { NotificationService } from '../../gen/inflow/notification/v1/notification_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { useFakeBank } from '../support/fake-bank.ts'
import { useService } from '../support/service.ts'
import { notify, payee, payment } from './scene.ts'

const bank = useFakeBank()
const service = useService({ BANKS: '9PSB=live,PROVIDUS=live,PALMPAY=live' }, bank.connectors)
const notifications = () => service.client(NotificationService)

type Request = Parameters<ReturnType<typeof notifications>['listNotifications']>[0]

async function list(request: Request) {
  const sessions: string[] = []
  let pageToken = ''
  do {
    const page = await notifications().listNotifications({ pageSize: 1, ...request, pageToken })
    sessions.push(...page.notifications.map(({ sessionId }) => sessionId))
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  return sessions
}

test('the notifications of a payment are found, and those of a period by result', async () => {
  const before = timestampFromMs(Date.now())
  const to = await payee(service)
  const good = payment(to.accountNumber)
  bank.payments.set(good.key, good)
  expect((await notify(service, good)).text).toBe('RECORDED')
  const bad = payment(to.accountNumber)
  bank.payments.set(bad.key, { ...bad, kobo: '99' })
  expect((await notify(service, bad)).text).toBe('MANUAL_REVIEW')

  const { RECORDED, MANUAL_REVIEW, DUPLICATE } = NotificationResult
  expect(await list({})).toEqual([bad.session, good.session])
  const ofPayment = { bank: Bank.BANK_9PSB, sessionId: good.session }
  const { notifications: found } = await notifications().listNotifications(ofPayment)
  expect(found).toMatchObject([
    { sessionId: good.session, result: RECORDED, state: NotificationState.PROCESSED, tries: 1 },
  ])
  expect(await list({ bank: Bank.BANK_PALMPAY, sessionId: good.session })).toEqual([])
  expect(await list({ results: [MANUAL_REVIEW, DUPLICATE] })).toEqual([bad.session])
  expect(await list({ results: [RECORDED], bank: Bank.BANK_9PSB })).toEqual([good.session])
  expect(await list({ state: NotificationState.MANUAL_REVIEW })).toEqual([bad.session])
  expect(await list({ from: before })).toHaveLength(2)
  expect(await list({ to: before })).toEqual([])
  await expect(list({ sessionId: 'x' })).rejects.toThrow(/Invalid request/)
})

test('a payment that the bank identifies by a key of its own is found by its session', async () => {
  const to = await payee(service)
  const reported = payment(to.accountNumber)
  bank.payments.set(reported.key, reported)
  await notify(service, reported)
  const { rows } = await service.database.durablePool.query(
    'select bank_key from bank_notification where session_id = $1',
    [reported.session],
  )
  expect(rows[0].bank_key).toBe(reported.key)
  expect(reported.key).not.toBe(reported.session)
  expect(await list({ bank: Bank.BANK_9PSB, sessionId: reported.session })).toEqual([
    reported.session,
  ])
})
