import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { JsonObject } from '@bufbuild/protobuf'
import { REASONS, type Reason } from '../core/errors.ts'

/** What the catalogue of errors states about a code. */
export interface ErrorSection {
  readonly code: Reason
  /** The cause, as Markdown. */
  readonly cause: string
  /** Whether to retry, as Markdown. */
  readonly retry: string
  /** A response with the code. */
  readonly example: JsonObject
}

const FILE = join(import.meta.dirname, '../docs/errors.md')

/** Reads the sections of `src/docs/errors.md`, in their order. */
export function readErrorSections(): ErrorSection[] {
  const [, ...sections] = readFileSync(FILE, 'utf8').split(/^## /m)
  return sections.map(readSection)
}

/** `code`, the line of its statuses, the cause, the line about retries, and the example. */
const SECTION =
  /^(\w+)\n\nHTTP (\d{3}), gRPC ([A-Z_]+)\.\s+([\s\S]+?)\n\n\*\*Retry:\*\* ([\s\S]+?)\n\n```json\n([\s\S]+?)```\s*$/

function readSection(text: string): ErrorSection {
  const [, code = '', status, grpcCode, cause = '', retry = '', example = ''] =
    SECTION.exec(text) ?? []
  if (!Object.hasOwn(REASONS, code)) throw new Error(`errors.md: no section: ${text.slice(0, 60)}`)
  const reason = code as Reason
  const [expectedCode, expectedStatus] = REASONS[reason]
  if (grpcCode !== expectedCode || status !== `${expectedStatus}`) {
    throw new Error(`errors.md: ${code} is HTTP ${expectedStatus}, gRPC ${expectedCode}`)
  }
  return {
    code: reason,
    cause: oneLine(cause),
    retry: oneLine(retry),
    example: JSON.parse(example),
  }
}

const oneLine = (text: string) => text.replaceAll('\n', ' ').trim()
