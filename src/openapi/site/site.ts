import type { Heading } from './markdown.ts'

/** What the search finds. */
export interface SearchEntry {
  readonly title: string
  readonly href: string
  /** Words by which it is found, besides the title. */
  readonly text?: string
}

/** A page of the site. */
export interface Page {
  /** `/docs` or `/docs/<name>`. */
  readonly path: string
  readonly title: string
  /** The part of the contents that it is in. */
  readonly group: 'Reference' | 'Guides'
  /** The HTML of its main part. */
  readonly html: string
  /** Its sections, for the contents. */
  readonly sections: readonly Heading[]
  readonly search: readonly SearchEntry[]
}
