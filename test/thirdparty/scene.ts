import { expect } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { SettlementStatus } from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { KEY_SCOPES } from '../../src/auth/caller.ts'
import { creation } from '../protocols/rest/rest.ts'
import type { RestAnswer, TestService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'

/** A business with a key of each mode that may do everything. */
export interface ScopedBusiness {
  readonly id: string
  readonly live: string
  readonly test: string
}

export async function scopedBusiness(service: TestService): Promise<ScopedBusiness> {
  const { id } = await service.business()
  const issue = async (test: boolean) => {
    const scopes = [...KEY_SCOPES]
    const request = { businessId: id, test, scopes, allowedCidrs: ['127.0.0.0/8'] }
    return (await service.client(BusinessService).issueKey(request)).secretKey
  }
  return { id, live: await issue(false), test: await issue(true) }
}

/** Lets a business divide its payments with another one. */
export async function approveRecipient(
  service: TestService,
  businessId: string,
  recipientId: string,
): Promise<void> {
  await service.client(AccountService).approveSplitRecipient({ businessId, recipientId })
}

/** Opens an account by its business. @returns the reference that the service assigned, and the number */
export async function openByKey(
  service: TestService,
  key: string,
  overrides: Readonly<Record<string, unknown>> = {},
): Promise<{ readonly reference: string; readonly number: string }> {
  const { status, body } = await service.post('generateVirtualAccount/', key, creation(overrides))
  expect(status, JSON.stringify(body)).toBe(200)
  return { reference: body.data.reference, number: body.data.account[0].account_number }
}

/** Calls a method that must succeed. @returns its data */
export async function data(
  service: TestService,
  key: string,
  path: string,
  request: Readonly<Record<string, unknown>> = {},
): Promise<RestAnswer['body']> {
  const { status, body, text } = await service.post(`${path}/`, key, request)
  expect(status, `${path}: ${text}`).toBe(200)
  expect(body).toMatchObject({ status: true, message: expect.stringMatching(/^[A-Z]/) })
  return body.data
}

/** Calls a method that must fail. @returns the status and the code */
export async function failure(
  service: TestService,
  key: string,
  path: string,
  request: Readonly<Record<string, unknown>>,
): Promise<readonly [number, string]> {
  const { status, body } = await service.post(`${path}/`, key, request)
  return [status, body.code]
}

/** Settles so many test payments of a business, once all have their numbers. @returns the settlement's id */
export async function settleTest(
  service: TestService,
  businessId: string,
  count: bigint,
): Promise<string> {
  const client = service.client(SettlementService)
  const request = { businessId, live: false, force: true }
  await waitFor(async () => {
    expect((await client.previewSettlement(request)).transactionCount).toBe(count)
  })
  const { settlements } = await client.settle(request)
  expect(settlements).toMatchObject([
    { status: SettlementStatus.COMPLETED, transactionCount: count },
  ])
  return settlements[0]!.id
}

/** The newest entries of the audit log about a business, newest first. */
export async function audited(service: TestService, businessId: string, pageSize: number) {
  const { entries } = await service.client(AdminService).listAuditEntries({ businessId, pageSize })
  return entries.map(({ action, actor, targetId, details }) => ({
    action,
    targetId,
    by: `${actor?.kind} ${actor?.id}`,
    details: JSON.parse(details),
  }))
}
