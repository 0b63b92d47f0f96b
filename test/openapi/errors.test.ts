import { ConnectError } from '@connectrpc/connect'
import { describe, expect, test } from 'vitest'
import { ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { REASONS, type Reason } from '../../src/core/errors.ts'
import { readErrorSections } from '../../src/openapi/error-responses.ts'
import { useSharedService } from '../support/service.ts'

const sections = readErrorSections()

test('every code has a section of the catalogue, and every section a code', () => {
  expect(sections.map(({ code }) => code).sort()).toEqual((Object.keys(REASONS) as Reason[]).sort())
})

test.each(sections.map((section) => [section.code, section] as const))(
  '%s has a cause, says whether to retry, and shows a response that links to it',
  (code, { cause, retry, example }) => {
    expect(cause).toMatch(/^[A-Z`].{20,}\.$/)
    expect(retry).toMatch(/^(yes|no)[,;.]/)
    expect(example).toMatchObject({ status: false, code, doc_url: `/docs/errors#${code}` })
    expect(code.endsWith('unavailable') || code === 'rate_limited').toBe(
      retry.includes('Retry-After'),
    )
  },
)

describe('an error leads to its section', () => {
  const service = useSharedService()

  test('over REST, gRPC and Connect', async () => {
    const { id, key } = await service.business()
    const { body } = await service.post('getTransaction/', key, { session_id: 'nothing' })
    expect(body).toMatchObject({ code: 'not_found', doc_url: '/docs/errors#not_found' })
    for (const client of [service.client, service.connectClient]) {
      const error = await client(TransactionService)
        .getTransaction({ businessId: id, sessionId: 'nothing' })
        .catch((reason: unknown) => ConnectError.from(reason))
      const [info] = (error as ConnectError).findDetails(ErrorInfoSchema)
      expect(info).toMatchObject({
        reason: 'not_found',
        metadata: { doc_url: '/docs/errors#not_found' },
      })
    }
  })
})
