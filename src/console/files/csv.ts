/** A plain number: it cannot be a formula, whatever its sign. */
const NUMBER = /^-?\d+(\.\d+)?$/

/** What spreadsheets run as a formula: see "CSV Injection" of OWASP. */
const FORMULA = /^[=+\-@\t\r]/

const QUOTED = /[",\r\n]/

/** Writes records as CSV by RFC 4180. A field that a spreadsheet would run begins with an apostrophe. */
export function csvText(records: readonly (readonly string[])[]): string {
  return records.map((fields) => `${fields.map(fieldText).join(',')}\r\n`).join('')
}

function fieldText(field: string): string {
  const text = FORMULA.test(field) && !NUMBER.test(field) ? `'${field}` : field
  return QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
