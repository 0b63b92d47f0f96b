import { words } from './ids.ts'

const TITLES: Readonly<Record<string, string>> = {
  address: 'From',
  alias: 'Prefix of account names',
  amountRule: 'A payment has',
  bankName: 'Bank',
  businessIds: 'Restricted to',
  clientId: 'Client id',
  customerEmail: 'E-mail',
  customerName: 'Customer',
  cutOff: 'Time in Lagos',
  cutOffAt: 'Recorded before',
  email: 'E-mail',
  expectedAmountMinor: 'Expected',
  feeBasisPoints: 'Fee in percent',
  feeBearer: 'Who bears the fee',
  feeCapMinor: 'Fee at most, ₦',
  feeFlatMinor: 'Fee for each payment, ₦',
  idType: 'Identity',
  idNumber: 'Identity number',
  merchantReference: 'Reference',
  missedCount: 'Found missing',
  otp: 'Code sent to the customer',
  overlap: 'Overlap, in hours',
  splitsMinor: 'Shares of others',
  singleUse: 'For a single payment',
  tokenUrl: 'URL that issues tokens',
  transactionCount: 'Payments',
  ttl: 'Valid for',
  url: 'URL',
  username: 'User name',
}

/** The title of a field, by its name in the contract: `startedAt` is "Started". */
export function titleOf(name: string): string {
  const own = name.replace(/(At|Minor|Count|Id|Ms)$/, '')
  return TITLES[name] ?? words((own || name).replace(/[A-Z]/g, (letter) => `_${letter}`))
}
