import type { Pool } from 'pg'

/** A secret. */
export interface Secret {
  readonly name: string
  readonly text: string
  /** How much of it may be seen: the prefix that a key is recognised by. */
  readonly publicLength?: number
}

/** The shortest part of a secret that counts as a leak; identity numbers have eleven digits. */
const PART = 10

/** Every form that a part of the secret could be written in. */
function formsOf({ text, publicLength = 0 }: Secret): string[] {
  const forms = new Set<string>()
  const hidden = text.slice(publicLength)
  for (let at = 0; at + PART <= hidden.length; at++) forms.add(hidden.slice(at, at + PART))
  const bytes = Buffer.from(hidden)
  const hex = bytes.toString('hex')
  forms
    .add(hex.slice(0, 2 * PART))
    .add(hex.slice(-2 * PART))
    .add(hex.toUpperCase())
  // Base64 of something that the secret is a part of: three ways to be aligned, edges left out.
  for (const offset of [0, 1, 2]) {
    const whole = Buffer.concat([Buffer.alloc(offset), bytes])
    for (const form of ['base64', 'base64url'] as const) {
      const inner = whole
        .toString(form)
        .replace(/=+$/, '')
        .slice(offset === 0 ? 0 : 4, -2)
      if (inner.length >= PART) forms.add(inner.slice(0, 16)).add(inner.slice(-16))
    }
  }
  forms.add(encodeURIComponent(hidden))
  return [...forms].filter((form) => form.length >= PART)
}

/** What of the secrets is in the text: their names, with what is around them. */
export function findSecrets(where: string, text: string, secrets: readonly Secret[]): string[] {
  const found: string[] = []
  for (const secret of secrets) {
    for (const form of formsOf(secret)) {
      const at = text.indexOf(form)
      if (at === -1) continue
      found.push(`${secret.name} in ${where}: …${text.slice(Math.max(0, at - 60), at + 40)}…`)
      break
    }
  }
  return found
}

/** Everything that is in the database, a text for each table; bytes as they are and as hex. */
export async function dumpDatabase(pool: Pool): Promise<Map<string, string>> {
  const { rows: tables } = await pool.query(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
      where schemaname not in ('pg_catalog', 'information_schema')`,
  )
  const dump = new Map<string, string>()
  for (const { name } of tables) {
    const { rows } = await pool.query(`select * from ${name}`)
    const parts: string[] = []
    for (const value of rows.flatMap((row) => Object.values(row))) {
      if (Buffer.isBuffer(value)) {
        parts.push(value.toString('latin1'), value.toString('utf8'), value.toString('hex'))
      } else if (value !== null) {
        parts.push(typeof value === 'object' ? JSON.stringify(value) : String(value))
      }
    }
    dump.set(name, parts.join('\n'))
  }
  return dump
}
