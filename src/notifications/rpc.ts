import type { ServiceImpl } from '@connectrpc/connect'
import {
  NotificationResult,
  NotificationState,
} from '../../gen/inflow/notification/v1/notification_pb.ts'
import type { NotificationService } from '../../gen/inflow/notification/v1/notification_service_pb.ts'
import { actorOf } from '../auth/caller.ts'
import { toBankFilter } from '../banks/message.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { enumName, enumNames, fromTimestamp } from '../protobuf/values.ts'
import { resolveHeld, retryHeld, showNotification } from './held-notifications.ts'
import { listHeld, listNotifications } from './list-notifications.ts'
import { toNotificationMessage } from './message.ts'

/** Banks' notifications that wait for an operator. */
export function createNotificationRpc(
  runtime: Runtime,
  encrypter: Encrypter,
): ServiceImpl<typeof NotificationService> {
  return {
    async listHeldNotifications({ bank, pageSize, pageToken }) {
      const code = toBankFilter(bank)
      const { rows, nextPageToken } = await runtime.database.read((on) =>
        listHeld(on, { bank: code, pageSize, pageToken }),
      )
      return { notifications: rows.map(toNotificationMessage), nextPageToken }
    },
    async listNotifications({ bank, state, results, from, to, ...list }) {
      const { sessionId, pageSize, pageToken } = list
      const request = {
        bank: toBankFilter(bank),
        state: enumName(NotificationState, state),
        outcomes: enumNames(NotificationResult, results),
        fromMs: from && fromTimestamp(from),
        toMs: to && fromTimestamp(to),
        sessionId,
        pageSize,
        pageToken,
      }
      const { rows, nextPageToken } = await runtime.database.read((on) =>
        listNotifications(on, request),
      )
      return { notifications: rows.map(toNotificationMessage), nextPageToken }
    },
    async showNotification({ notificationId }, context) {
      const shown = await showNotification(runtime, encrypter, notificationId, actorOf(context))
      return { notification: toNotificationMessage(shown.notification), body: shown.body }
    },
    async retryNotification({ notificationId }, context) {
      const pending = await retryHeld(runtime, notificationId, actorOf(context))
      return { notification: toNotificationMessage(pending) }
    },
    async resolveNotification(request, context) {
      const resolved = await resolveHeld(runtime, request, actorOf(context))
      return { notification: toNotificationMessage(resolved) }
    },
  }
}
