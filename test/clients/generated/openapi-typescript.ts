import createClient from 'openapi-fetch'
import type { paths } from './generated.js'

const { INFLOW_URL: baseUrl = '', INFLOW_SECRET_KEY: key } = process.env
const inflow = createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${key}` } })

const opened = await inflow.POST('/v2/thirdparty/generateVirtualAccount/', {
  body: {
    reference: 'order-1',
    email: 'ada@example.com',
    phone: '08012345678',
    firstName: 'Chidi',
    lastName: 'Samuel',
    bank: '9PSB',
  },
})
if (opened.error) throw new Error(opened.error.message)
const { reference, account } = opened.data.data
const paid = await inflow.POST('/v2/thirdparty/simulatePayment/', {
  body: { reference, amount: '1500.50', payerName: 'NGOZI EZE' },
})
if (paid.error) throw new Error(paid.error.message)
const { session_id } = paid.data.data
const found = await inflow.POST('/v2/thirdparty/getTransaction/', { body: { session_id } })
if (found.error) throw new Error(found.error.message)
console.log(account[0]?.account_number, found.data.data.amount, found.data.data.status)
const unknown = await inflow.POST('/v2/thirdparty/getTransaction/', { body: { session_id: 'x' } })
console.log(unknown.response.status, unknown.error?.code)
