import { isNuban } from './nuban.ts'

/** An institution of the interbank switch. */
export interface Institution {
  readonly code: string
  readonly name: string
  readonly nubanCode?: string
}

export interface Institutions {
  list(): readonly Institution[]
  find(code: string): Institution | undefined
}

const LIST: readonly Institution[] = [
  { code: '000013', name: 'Guaranty Trust Bank', nubanCode: '058' },
  { code: '000014', name: 'Access Bank', nubanCode: '044' },
  { code: '000023', name: 'Providus Bank' },
  { code: '100033', name: 'PalmPay' },
]

export function createInstitutions(): Institutions {
  return {
    list: () => LIST,
    find: (code) => LIST.find((each) => each.code === code || each.nubanCode === code),
  }
}

export function isNubanFault({ nubanCode }: Institution, accountNumber: string): boolean {
  return nubanCode !== undefined && !isNuban(nubanCode, accountNumber)
}
