import { client } from './generated/client.gen.js'
import { generateVirtualAccount, getTransaction, simulatePayment } from './generated/sdk.gen.js'

const { INFLOW_URL: baseUrl = '', INFLOW_SECRET_KEY: key = '' } = process.env
client.setConfig({ baseUrl, auth: key })

const opened = await generateVirtualAccount({
  body: {
    reference: 'order-1',
    email: 'ada@example.com',
    phone: '08012345678',
    firstName: 'Chidi',
    lastName: 'Samuel',
    bank: '9PSB',
  },
  throwOnError: true,
})
const { reference, account } = opened.data.data
const paid = await simulatePayment({
  body: { reference, amount: '1500.50', payerName: 'NGOZI EZE' },
  throwOnError: true,
})
const { session_id } = paid.data.data
const found = await getTransaction({ body: { session_id }, throwOnError: true })
console.log(account[0]?.account_number, found.data.data.amount, found.data.data.status)
const unknown = await getTransaction({ body: { session_id: 'x' } })
console.log(unknown.response?.status, unknown.error?.code)
