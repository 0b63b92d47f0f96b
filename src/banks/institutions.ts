import { readFileSync, statSync } from 'node:fs'
import { CsvError, parse } from 'csv-parse/sync'
import { INSTITUTION_ROWS } from './institution-rows.ts'
import { isNuban } from './nuban.ts'

/** An institution at the interbank switch (NIP). */
export interface Institution {
  /** The six-digit NIP code. */
  readonly code: string
  readonly name: string
  /** The three-digit code of the central bank, for check digits; undefined unless it is a commercial bank. */
  readonly nubanCode: string | undefined
}

/** The institutions to which transfers can go. */
export interface Institutions {
  /** Sorted by name. */
  list(): readonly Institution[]
  /** @param code the six-digit NIP code, or the three-digit code of the central bank */
  find(code: string): Institution | undefined
}

/** Why a file of institutions cannot be used. The message continues a sentence that begins with the name of the setting. */
export class InstitutionsFileError extends Error {
  override readonly name = 'InstitutionsFileError'
}

/**
 * The known institutions.
 *
 * @param file CSV in UTF-8 with the header `code,name,nuban_code`. A row replaces the institution with the same code, or
 *   is added; `nuban_code` may be empty
 * @throws InstitutionsFileError that names the line
 */
export function createInstitutions(file?: string): Institutions {
  const byCode = new Map(builtIn().map((institution) => [institution.code, institution]))
  for (const { line, institution } of file === undefined ? [] : readRows(file)) {
    const { code, nubanCode } = institution
    byCode.delete(code)
    const other = [...byCode.values()].find((known) => known.nubanCode === nubanCode)
    if (nubanCode !== undefined && other !== undefined) {
      throw faultAt(
        line,
        `nuban_code ${nubanCode} is that of ${other.name} (${other.code}) already`,
      )
    }
    byCode.set(code, institution)
  }
  const sorted = [...byCode.values()].sort((a, b) => a.name.localeCompare(b.name, 'en'))
  const byNubanCode = new Map(sorted.map((institution) => [institution.nubanCode, institution]))
  return {
    list: () => sorted,
    find(code) {
      if (code.length === 3) return byNubanCode.get(code)
      return byCode.get(code) ?? (code === SANDBOX_BANK.code ? SANDBOX_BANK : undefined)
    },
  }
}

/**
 * The institution of simulated payers, so that simulated payments can be refunded. It is not listed, and no real bank
 * knows it: only simulated transfers reach it.
 */
export const SANDBOX_BANK: Institution = {
  code: '000000',
  name: 'Sandbox Bank',
  nubanCode: undefined,
}

/**
 * Whether the check digit of an account number contradicts a commercial bank's code: most likely a digit was mistyped,
 * or another bank was meant. It is a reason to ask again, not a proof: banks issue some numbers without a valid digit.
 * Numbers of other institutions are often phone numbers, so they are never at fault.
 */
export function isNubanFault({ code, nubanCode }: Institution, accountNumber: string): boolean {
  if (nubanCode === undefined) return false
  const codes = [nubanCode, MERGED[code] ?? nubanCode]
  return codes.every((digits) => !isNuban(digits, accountNumber))
}

/** Access Bank took over the accounts of Diamond Bank with their numbers. */
const MERGED: Readonly<Record<string, string>> = { '000014': '063', '000005': '044' }

function builtIn(): readonly Institution[] {
  return INSTITUTION_ROWS.trim()
    .split('\n')
    .map((row) => {
      const [code = '', nubanCode = '', ...words] = row.split(' ')
      const name = words.join(' ').replace(/\bMFB\b/, 'Microfinance Bank')
      return { code, name, nubanCode: nubanCode === '---' ? undefined : nubanCode }
    })
}

const BYTES_MAX = 1_048_576
const HEADER = 'code,name,nuban_code'

function readRows(file: string) {
  const [header, ...records] = parseCsv(readText(file))
  const given = header?.fields.join(',').toLowerCase()
  if (given !== HEADER) throw new InstitutionsFileError(`must begin with the header ${HEADER}`)
  const lines = new Map<string, number>()
  return records.map(({ line, fields }) => {
    const [code = '', name = '', nubanCode = ''] = fields
    if (!/^\d{6}$/.test(code)) throw faultAt(line, 'code must be six digits')
    const earlier = lines.get(code)
    if (earlier !== undefined) throw faultAt(line, `${code} is on line ${earlier} already`)
    if (!/^[^\p{C}\p{Zl}\p{Zp}]{1,100}$/u.test(name)) {
      throw faultAt(line, 'name must be 1 to 100 printable characters')
    }
    if (!/^(\d{3})?$/.test(nubanCode))
      throw faultAt(line, 'nuban_code must be three digits or empty')
    lines.set(code, line)
    return { line, institution: { code, name, nubanCode: nubanCode || undefined } }
  })
}

function readText(file: string): string {
  try {
    if (statSync(file).size <= BYTES_MAX) return readFileSync(file, 'utf8')
  } catch (error) {
    throw new InstitutionsFileError(
      `cannot be read: ${error instanceof Error ? error.message : error}`,
    )
  }
  throw new InstitutionsFileError(`must name a file of at most ${BYTES_MAX} bytes`)
}

function parseCsv(text: string): readonly { line: number; fields: readonly string[] }[] {
  try {
    const records = parse(text, {
      bom: true,
      trim: true,
      skip_empty_lines: true,
      on_record: (fields, { lines }) => [`${lines}`, ...fields],
    })
    return records.map(([line, ...fields]) => ({ line: Number(line), fields }))
  } catch (error) {
    if (!(error instanceof CsvError)) throw error
    throw new InstitutionsFileError(`is not valid CSV: ${error.message}`)
  }
}

function faultAt(line: number, text: string): InstitutionsFileError {
  return new InstitutionsFileError(`line ${line}: ${text}`)
}
