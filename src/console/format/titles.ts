import { words } from './ids.ts'

const TITLES: Readonly<Record<string, string>> = {
  address: 'From',
  alias: 'Prefix of account names',
  amountRule: 'A payment has',
  approvalAboveMinor: 'An approval is needed above, ₦',
  approvalHours: 'An approval may take, in hours',
  bankName: 'Bank',
  bankReference: 'Reference at the bank',
  businessIds: 'Restricted to',
  chargeDuty: 'Charge stamp duty to the business where the law has the sender pay it',
  clientId: 'Client id',
  coolDownHours: 'A beneficiary is new for, in hours',
  customerEmail: 'E-mail',
  customerName: 'Customer',
  cutOff: 'Time in Lagos',
  cutOffAt: 'Recorded before',
  dailyMaxMinor: 'Largest sum of a day, ₦',
  email: 'E-mail',
  expectedAmountMinor: 'Expected',
  feeBasisPoints: 'Fee in percent',
  feeBearer: 'Who bears the fee',
  feeCapMinor: 'Fee at most, ₦',
  feeFlatMinor: 'Fee for each payment, ₦',
  floorMinor: 'What stays available when a settlement is paid out, ₦',
  idType: 'Identity',
  idNumber: 'Identity number',
  merchantReference: 'Reference',
  missedCount: 'Found missing',
  monthlyMaxMinor: 'Largest sum of a month, ₦',
  newBeneficiaryMaxMinor: 'Largest amount to a new one without an approval, ₦',
  otp: 'Code sent to the customer',
  overlap: 'Overlap, in hours',
  payoutMaxMinor: 'Largest payout, ₦',
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
