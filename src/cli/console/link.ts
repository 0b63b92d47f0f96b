import { note } from '../output.ts'
import type { Service } from '../service-action.ts'

/** Where a code or a portal link is opened, as the service states it. */
interface Link {
  /** Empty without PUBLIC_URL. */
  readonly url: string
  readonly urlPath: string
}

/** The URL of a link: by PUBLIC_URL, else of the local service; else only the path is known. */
export function urlOf({ url, urlPath }: Link, { httpUrl }: Service): string {
  if (url !== '') return url
  if (httpUrl !== undefined) return `${httpUrl}${urlPath}`
  note('Open this path at the address of the HTTP server; PUBLIC_URL of the service states it.')
  return urlPath
}
