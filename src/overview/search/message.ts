import { create } from '@bufbuild/protobuf'
import {
  ResultKind,
  type SearchResult,
  SearchResultSchema,
} from '../../../gen/inflow/overview/v1/search_pb.ts'
import { fromBankCode } from '../../banks/message.ts'
import { toTimestamp } from '../../protobuf/timestamp.ts'
import type { Found, FoundKind } from './found.ts'

export function toResultMessage({ kind, atMs, bank, ...found }: Found): SearchResult {
  return create(SearchResultSchema, {
    ...found,
    kind: toResultKind(kind),
    at: toTimestamp(atMs),
    ...(bank && { bank: fromBankCode(bank) }),
  })
}

/** The contract has the same names. */
export function toResultKind(kind: FoundKind): ResultKind {
  return ResultKind[kind]
}
