import { stringify } from 'csv-stringify/browser/esm/sync'

/** A plain number: it cannot be a formula, whatever its sign. */
const NUMBER = /^-?\d+(\.\d+)?$/

/** What spreadsheets run as a formula: see "CSV Injection" of OWASP. */
const FORMULA = /^[=+\-@\t\r]/

/** Writes records as CSV by RFC 4180. A field that a spreadsheet would run begins with an apostrophe. */
export function csvText(records: readonly (readonly string[])[]): string {
  const harmless = records.map((fields) => fields.map(disarm))
  return stringify(harmless, { record_delimiter: 'windows', quoted_match: /[\r\n]/ })
}

/** Not the library's `escape_formulas`, which would also change negative amounts. */
function disarm(field: string): string {
  return FORMULA.test(field) && !NUMBER.test(field) ? `'${field}` : field
}
