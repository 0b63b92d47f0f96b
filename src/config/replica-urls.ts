import { z } from 'zod'
import { list } from './settings.ts'

/** A URL of a PostgreSQL server. @param error the text after the name of the setting */
export function postgresUrl(error: string) {
  return z.url({ protocol: /^postgres(ql)?$/, error })
}

/** The URLs of standbys. */
export const replicaUrls = list(
  postgresUrl('must be URLs such as postgres://user:password@host:5432/database'),
).superRefine((urls, { addIssue }) => {
  const names = urls.filter((url) => URL.canParse(url)).map(replicaName)
  const repeated = names.find((name, index) => names.indexOf(name) !== index)
  if (repeated !== undefined) addIssue(`names ${repeated} twice`)
})

/** `host:port/database`, by which logs and metrics name a replica. */
export function replicaName(url: string): string {
  const { host, pathname } = new URL(url)
  return host + pathname
}
