import { AccountEntity } from '../accounts/account.entity.ts'
import {
  SplitApprovalEntity,
  SplitEntity,
  SplitRecipientEntity,
} from '../accounts/splits/split.entity.ts'
import { AuditEntryEntity, AuditHeadEntity, AuditMacEntity } from '../auth/audit/audit.entity.ts'
import { RateBucketEntity } from '../auth/rate-limits/rate-bucket.entity.ts'
import {
  PortalLinkEntity,
  SessionEntity,
  SignInCodeEntity,
} from '../auth/sessions/session.entity.ts'
import { TokenEntity } from '../auth/tokens/token.entity.ts'
import { BreakerEntity } from '../banks/breaker.entity.ts'
import { ApiRequestEntity } from '../businesses/api-request.entity.ts'
import { BusinessEntity } from '../businesses/business.entity.ts'
import { KeyEntity } from '../businesses/key.entity.ts'
import { KeyHolderEntity, MasterKeyEntity } from '../crypto/master-key.entity.ts'
import {
  ArchivedEntryEntity,
  BusinessCounterEntity,
  EpochEntity,
  EventLogEntity,
  LogFollowerEntity,
  OutboxEntity,
  RetentionEntity,
  SequencerTickEntity,
} from '../events/event.entity.ts'
import { NotificationEntity, PaymentKeyEntity } from '../notifications/notification.entity.ts'
import { PaymentHourEntity } from '../overview/figures/payment-hour.entity.ts'
import { ReviewNoteEntity } from '../overview/review-note.entity.ts'
import {
  FloatEntity,
  PayoutBatchEntity,
  PayoutBeneficiaryEntity,
  PayoutDayEntity,
  PayoutEntity,
  PayoutItemEntity,
  PayoutPauseEntity,
  PayoutPolicyEntity,
  PayoutPostingEntity,
  PayoutRefundEntity,
  PayoutStepEntity,
  SettlementPayoutEntity,
} from '../payouts/payout.entity.ts'
import type { Entities } from '../postgres/orm.ts'
import { RunEntity } from '../reconciliation/run.entity.ts'
import {
  DueEntity,
  HolidayEntity,
  SettlementEntity,
  SettlementRequestEntity,
  SweepEntity,
  TermsEntity,
} from '../settlement/settlement.entity.ts'
import {
  PaymentConflictEntity,
  ReversalEntity,
  UnmatchedPaymentEntity,
} from '../transactions/exceptions.entity.ts'
import { PostingEntity } from '../transactions/ledger/posting.entity.ts'
import { PaymentSessionEntity, TransactionEntity } from '../transactions/transaction.entity.ts'
import { PaymentVarianceEntity } from '../transactions/variance/variance.entity.ts'
import {
  AttemptEntity,
  DeliveryEntity,
  DispatcherEntity,
} from '../webhooks/deliveries/delivery.entity.ts'
import { EndpointEntity, SecretEntity } from '../webhooks/endpoints/endpoint.entity.ts'
import { WebhookHourEntity } from '../webhooks/webhook-hour.entity.ts'

/** The entities of every domain: the tables of the database. */
export const ENTITIES: Entities = [
  BusinessEntity,
  KeyEntity,
  ApiRequestEntity,
  AccountEntity,
  SplitApprovalEntity,
  SplitEntity,
  SplitRecipientEntity,
  PaymentSessionEntity,
  TransactionEntity,
  PostingEntity,
  UnmatchedPaymentEntity,
  PaymentConflictEntity,
  ReversalEntity,
  PaymentVarianceEntity,
  NotificationEntity,
  PaymentKeyEntity,
  BreakerEntity,
  RunEntity,
  OutboxEntity,
  EventLogEntity,
  BusinessCounterEntity,
  ArchivedEntryEntity,
  LogFollowerEntity,
  SequencerTickEntity,
  RetentionEntity,
  EpochEntity,
  EndpointEntity,
  SecretEntity,
  DeliveryEntity,
  AttemptEntity,
  DispatcherEntity,
  WebhookHourEntity,
  TermsEntity,
  HolidayEntity,
  SettlementRequestEntity,
  SettlementEntity,
  DueEntity,
  SweepEntity,
  TokenEntity,
  SessionEntity,
  SignInCodeEntity,
  PortalLinkEntity,
  AuditEntryEntity,
  AuditHeadEntity,
  AuditMacEntity,
  MasterKeyEntity,
  KeyHolderEntity,
  RateBucketEntity,
  PaymentHourEntity,
  ReviewNoteEntity,
  PayoutEntity,
  PayoutStepEntity,
  PayoutPostingEntity,
  PayoutDayEntity,
  PayoutRefundEntity,
  PayoutBeneficiaryEntity,
  PayoutPauseEntity,
  PayoutPolicyEntity,
  PayoutBatchEntity,
  PayoutItemEntity,
  SettlementPayoutEntity,
  FloatEntity,
]
