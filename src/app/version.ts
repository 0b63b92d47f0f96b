import { createRequire } from 'node:module'

/** The version of this service. */
export const { version: VERSION } = createRequire(import.meta.url)('../../package.json') as {
  readonly version: string
}
