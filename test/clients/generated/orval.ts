import { generateVirtualAccount, getTransaction, simulatePayment } from './generated.js'
import { generateVirtualAccountBody } from './rules.js'

const { INFLOW_URL: baseUrl = '', INFLOW_SECRET_KEY: key } = process.env
// What it generates calls paths: of the page that it runs in.
const { fetch } = globalThis
globalThis.fetch = (path, init) => fetch(`${baseUrl}${path}`, init)
const options = { headers: { authorization: `Bearer ${key}` } }

const details = generateVirtualAccountBody.parse({
  reference: 'order-1',
  email: 'ada@example.com',
  phone: '08012345678',
  firstName: 'Chidi',
  lastName: 'Samuel',
  bank: '9PSB',
})
const opened = await generateVirtualAccount(details, options)
if (opened.status !== 200) throw new Error(opened.data.message)
const { reference, account } = opened.data.data
const paid = await simulatePayment(
  { reference, amount: '1500.50', payerName: 'NGOZI EZE' },
  options,
)
if (paid.status !== 200) throw new Error(paid.data.message)
const { session_id } = paid.data.data
const found = await getTransaction({ session_id }, options)
if (found.status !== 200) throw new Error(found.data.message)
console.log(account[0]?.account_number, found.data.data.amount, found.data.data.status)
const unknown = await getTransaction({ session_id: 'x' }, options)
console.log(unknown.status, unknown.status === 200 || unknown.data.code)
