/** The text of an error that means that the database does not exist; undefined for any other error. */
export function missingDatabase(error: unknown): string | undefined {
  const { code, message } = error as { code?: unknown; message?: string }
  // SQLSTATE invalid_catalog_name
  if (code !== '3D000') return undefined
  const name = /database "[^"]*"/.exec(message ?? '')?.[0] ?? 'the database'
  return `${name} does not exist on that server: correct the name, or create it`
}
