import { stringify } from 'csv-stringify/browser/esm/sync'

/** A plain number, which is never a formula even if it has a sign. */
const NUMBER = /^-?\d+(\.\d+)?$/

/** The beginning of texts that spreadsheets run as a formula: see "CSV Injection" of OWASP. */
const FORMULA = /^[=+\-@\t\r]/

/** Writes records as CSV (RFC 4180). A field that a spreadsheet would run as a formula gets an apostrophe. */
export function csvText(records: readonly (readonly string[])[]): string {
  const harmless = records.map((fields) => fields.map(disarm))
  return stringify(harmless, { record_delimiter: 'windows', quoted_match: /[\r\n]/ })
}

/** Escapes formulas. The option `escape_formulas` of the library would also change negative amounts. */
function disarm(field: string): string {
  return FORMULA.test(field) && !NUMBER.test(field) ? `'${field}` : field
}
