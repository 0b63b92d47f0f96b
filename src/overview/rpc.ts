import { create } from '@bufbuild/protobuf'
import type { ServiceImpl } from '@connectrpc/connect'
import type { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import {
  ResultKind,
  type SearchResult,
  SearchResultSchema,
} from '../../gen/inflow/overview/v1/search_pb.ts'
import { actorOf, restrictionOf } from '../auth/caller.ts'
import { fromBankCode } from '../banks/message.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { isLive, toOptionalTimestamp, toTimestamp } from '../protobuf/values.ts'
import type { Found } from './found.ts'
import { listReviewItems } from './list-review-items.ts'
import {
  toCountMessage,
  toItemMessage,
  toNoteMessage,
  toOverviewMessage,
  toReviewKind,
  toReviewKinds,
  toTimelineMessage,
} from './message.ts'
import { type OverviewDependencies, readOverview } from './read-overview.ts'
import { readTimeline, type TimelineDependencies } from './read-timeline.ts'
import { scopeOf } from './scope.ts'
import { search } from './search.ts'
import { updateReviewItem } from './update-review-item.ts'

/** Views across the other domains. */
export function createOverviewRpc(
  runtime: Runtime,
  dependencies: OverviewDependencies & TimelineDependencies,
): ServiceImpl<typeof OverviewService> {
  return {
    async getTimeline({ transactionId }, { values }) {
      const timeline = await readTimeline(runtime, dependencies, transactionId)
      return { timeline: toTimelineMessage(timeline, restrictionOf(values) === undefined) }
    },
    async search({ query, businessId, live }, { values }) {
      const scope = scopeOf(businessId, live, restrictionOf(values))
      const found = await search(runtime.database, query, scope)
      return {
        results: found.results.map(toResultMessage),
        more: found.more.map((kind) => ResultKind[kind]),
        searchedSince: toOptionalTimestamp(found.searchedSinceMs),
      }
    },
    async getOverview(request, { values }) {
      const asked = { businessId: request.businessId, live: isLive(request) }
      const scope = scopeOf(asked.businessId, asked.live, restrictionOf(values))
      return toOverviewMessage(await readOverview(runtime, dependencies, scope, asked))
    },
    async listReviewItems({ businessId, live, kinds, pageSize, pageToken }, { values }) {
      const { items, nextPageToken, counts } = await listReviewItems(runtime, {
        scope: scopeOf(businessId, live, restrictionOf(values)),
        kinds: toReviewKinds(kinds),
        pageSize,
        pageToken,
      })
      return {
        items: items.map(toItemMessage),
        nextPageToken,
        counts: (counts ?? []).map(toCountMessage),
      }
    },
    async updateReviewItem({ itemId, kind, live = true, assignee, note }, context) {
      const change = { item: { kind: toReviewKind(kind), id: itemId, live }, assignee, note }
      return toNoteMessage(await updateReviewItem(runtime, change, actorOf(context)))
    },
  }
}

function toResultMessage({ kind, atMs, bank, ...found }: Found): SearchResult {
  return create(SearchResultSchema, {
    ...found,
    kind: ResultKind[kind],
    at: toTimestamp(atMs),
    ...(bank && { bank: fromBankCode(bank) }),
  })
}
