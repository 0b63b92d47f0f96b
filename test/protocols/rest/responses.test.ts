import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { describe, expect, test } from 'vitest'
import { SandboxService } from '../../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { BANK_CODES, BANK_FACTS } from '../../../src/banks/bank.ts'
import { isNuban } from '../../../src/banks/nuban.ts'
import { useSharedService } from '../../support/service.ts'
import { asJson, creation, send, until } from './rest.ts'

const service = useSharedService()

const TIME = /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g
const REFERENCE = /R-[34679ACDEFGHJKMNPQRTWXY]{20}/g

/** What differs from run to run, replaced; everything else is compared to the byte. */
function steady(text: string): string {
  return text
    .replaceAll(TIME, '<time>')
    .replaceAll(REFERENCE, '<reference>')
    .replaceAll(/"account_number":"(?!0123456789)\d{10}"/g, '"account_number":"<number>"')
    .replaceAll(/"nuban":"\d{10}"/g, '"nuban":"<number>"')
    .replaceAll(/evt_[0-9a-z]{26}/g, '<event>')
}

/** Posts to both forms of a path, which must answer the same. */
async function post(name: string, key: string, body: unknown) {
  const ask = (path: string) =>
    send(service.httpUrl, { path, headers: asJson(key), body: JSON.stringify(body) })
  const slash = await ask(`/v2/thirdparty/${name}/`)
  const plain = await ask(`/v2/thirdparty/${name}`)
  expect(plain.text).toBe(slash.text)
  for (const answer of [slash, plain]) {
    expect(answer.status, answer.text).toBe(200)
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8')
    expect(answer.headers['x-request-id']).toMatch(/^req_[0-9a-z]{24,}$/)
  }
  return { text: slash.text, data: JSON.parse(slash.text).data, slash, plain }
}

async function account(overrides: Record<string, unknown> = {}, name = 'Acme') {
  const { id, key } = await service.business(name)
  const { data } = await post('generateVirtualAccount', key, creation(overrides))
  const { account_number: number } = data.account[0]
  return { id, key, number: number as string, reference: data.reference as string }
}

describe('generateVirtualAccount', () => {
  test.each(BANK_CODES)(
    'answers to the byte for %s, with a number of valid check digit',
    async (bank) => {
      const { key } = await service.business()
      const identity = bank === 'PALMPAY' ? { idType: 'nin', idNumber: '12345678901' } : {}
      const answer = await post('generateVirtualAccount', key, creation({ bank, ...identity }))
      const { name, nubanCode } = BANK_FACTS[bank]
      expect(steady(answer.text)).toBe(
        '{"status":true,"message":"Account reserved","data":{"reference":"<reference>","account":[{' +
          `"account_number":"<number>","account_name":"Acme/Ada Obi","bank_name":"${name}","bank_id":"${bank}",` +
          '"created_at":"<time>"}],"meta":{"firstName":"Ada","lastName":"Obi","email":"ada@example.com"}}}',
      )
      expect(isNuban(nubanCode, answer.data.account[0].account_number)).toBe(true)
      expect(answer.slash.headers['idempotent-replayed']).toBeUndefined()
      expect(answer.plain.headers['idempotent-replayed']).toBe('true')
    },
  )

  test('trims white space, takes names of any script and ignores unknown fields', async () => {
    const { key } = await service.business('  Ọjà & Sons  ')
    const { data } = await post('generateVirtualAccount', key, {
      reference: '\t order/№ 1 🛒 ',
      email: ' ada@example.com\n',
      phone: ' +2348012345678 ',
      firstName: ' Adaọbị ',
      lastName: '李 "O\'Brien" <b>',
      bank: ' SAFEHAVEN ',
      idType: ' ',
      nothing: { deep: [1] },
      first_name: 'ignored',
      __proto__: { bank: 'X' },
    })
    expect(data.account[0].account_name).toBe('Ọjà & Sons/Adaọbị 李 "O\'Brien" <b>')
    expect(data.meta).toEqual({
      firstName: 'Adaọbị',
      lastName: '李 "O\'Brien" <b>',
      email: 'ada@example.com',
    })
    const shown = await post('getVirtualAccount', key, { reference: 'order/№ 1 🛒' })
    expect(shown.data.reference).toBe(data.reference)
    const again = await service.post('generateVirtualAccount/', key, {
      ...creation({ reference: 'order/№ 1 🛒', phone: '+2348012345678', bank: 'SAFEHAVEN' }),
      firstName: 'Adaọbị',
      lastName: '李 "O\'Brien" <b>',
    })
    expect(again.headers.get('idempotent-replayed')).toBe('true')
  })
})

describe('getVirtualAccount', () => {
  test('returns the exact bytes, by the returned reference and by the business’s own', async () => {
    const { key, reference } = await account()
    const expected =
      '{"status":true,"message":"Account retrieved","data":{"reference":"<reference>","account":[{' +
      '"account_number":"<number>","account_name":"Acme/Ada Obi","bank_name":"9 Payment Service Bank","bank_id":"9PSB",' +
      '"created_at":"<time>"}],"meta":{"firstName":"Ada","lastName":"Obi","email":"ada@example.com"},' +
      '"merchant_reference":"order-1","status":"ACTIVE","customer":"Ada Obi"}}'
    const byReturned = await post('getVirtualAccount', key, { reference })
    const byOwn = await post('getVirtualAccount', key, { reference: 'order-1' })
    expect(steady(byReturned.text)).toBe(expected)
    expect(byOwn.text).toBe(byReturned.text)
  })
})

describe('getTransaction', () => {
  test('returns all thirteen fields, byte for byte, in local time', async () => {
    const { key, number } = await account()
    const sessionId = '000023260722081100123456789012'
    await service.client(TransactionService).recordPayment({
      bank: Bank.BANK_9PSB,
      accountNumber: number,
      sessionId,
      amountMinor: 150_050n,
      paidAt: timestampFromMs(Date.parse('2026-11-20T23:30:15.999Z')),
    })
    const { text, data } = await post('getTransaction', key, { session_id: ` ${sessionId} ` })
    expect(Object.keys(data)).toHaveLength(13)
    expect(steady(text).replace('<time>', data.created_at)).toBe(
      '{"status":true,"message":"Transaction retrieved","data":{"reference":"<reference>",' +
        `"session_id":"${sessionId}","transaction_ref":"${sessionId}","amount":1500.5,"status":"SUCCESS",` +
        '"is_settled":false,"method":"bank_transfer","bank":"9PSB","nuban":"<number>","account_name":"Acme/Ada Obi",' +
        '"customer":"Ada Obi","email":"ada@example.com","created_at":"2026-11-21 00:30:15"}}',
    )
  })
})

describe('listTransactions and listEvents', () => {
  test('return the exact bytes, empty and full', async () => {
    const { key, number } = await account()
    expect((await post('listTransactions', key, {})).text).toBe(
      '{"status":true,"message":"Transactions retrieved","data":{"transactions":[]}}',
    )
    const transfer = { accountNumber: number, amountMinor: 100_000n, sessionId: `list-${number}` }
    await service.client(SandboxService).simulateTransfer({ ...transfer, payerName: 'BOLA ADE' })
    const list = await post('listTransactions', key, {})
    const one = await post('getTransaction', key, { session_id: transfer.sessionId })
    expect(list.text).toBe(
      `{"status":true,"message":"Transactions retrieved","data":{"transactions":[${JSON.stringify(one.data).slice(0, -1)},` +
        '"payer":{"account_number":"0123456789","account_name":"BOLA ADE","bank_code":"000000","bank_name":"Sandbox Bank"},' +
        '"currency":"NGN","narration":"Simulated transfer"}]}}',
    )
    await until(
      () => service.post('listEvents/', key, { after: 1 }),
      ({ body }) => body.data.events.length === 1,
    )
    const events = await post('listEvents', key, {})
    const shown = `"account":{"account_number":"<number>","account_name":"Acme/Ada Obi","bank_name":"9 Payment Service Bank","bank_id":"9PSB","created_at":"<time>"}`
    expect(steady(events.text)).toBe(
      '{"status":true,"message":"Events retrieved","data":{"events":[' +
        '{"event":"ACCOUNT_CREATED","data":{"type":"RESERVED_ACCOUNT","reference":"<reference>","merchant_reference":"order-1",' +
        `"status":"ACTIVE","created_at":"<time>",${shown},"event_id":"<event>","sequence":1,"live":true,"epoch":1}},` +
        '{"event":"PAYMENT_NOTIFICATION","data":{"type":"RESERVED_ACCOUNT_TRANSACTION","reference":"<reference>","merchant_reference":"order-1",' +
        `"transaction_ref":"${transfer.sessionId}","wiaxy_ref":"${transfer.sessionId}","amount":"1000.00","status":"SUCCESS","method":"bank_transfer",` +
        `"created_at":"<time>",${shown},"payer":{"account_number":"0123456789","account_name":"BOLA ADE","bank_code":"000000","bank_name":"Sandbox Bank"},` +
        '"event_id":"<event>","sequence":2,"live":true,"epoch":1}}],"epoch":1,"has_more":false,"next_after":2}}',
    )
    expect((await post('listEvents', key, { after: 2 })).text).toBe(
      '{"status":true,"message":"Events retrieved","data":{"events":[],"epoch":1,"has_more":false,"next_after":2}}',
    )
  })
})
