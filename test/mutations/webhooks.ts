import { mutationsOf } from './mutation.ts'

/** Deliveries that are lost, repeated, reordered or sent to another business. */
export const WEBHOOKS = mutationsOf(
  'webhooks',
  ['test/webhooks/deliveries/claimed-as-made.test.ts', 'test/model/deliveries.test.ts'],
  {
    'src/webhooks/deliveries/record-attempt.ts': {
      'a late completion is recorded while another process attempts the delivery': [
        ' and d.claims = i.claim',
        '',
      ],
    },
    'src/webhooks/deliveries/claim-deliveries.ts': {
      'a late release lets a delivery be sent twice': [
        ` and d.claims = i.claim\`,
    values: toArrays(claims),`,
        `\`,
    values: toArrays(claims),`,
      ],
      'a process that released a delivery records its attempt': [
        `set leased_until = null, claims = d.claims + 1
`,
        `set leased_until = null
`,
      ],
      'a delivery in progress is claimed by another process': [
        ' and (leased_until is null or leased_until <= $3)',
        '',
      ],
      'a delivery is sent before it is due': [
        `state = 'PENDING' and due_at <= $3
`,
        `state = 'PENDING'
`,
      ],
      'a delivered webhook is sent again': [
        "state = 'PENDING' and due_at <= $3",
        "state <> 'FAILED' and due_at <= $3",
      ],
      'a deleted endpoint receives webhooks': [
        'where id = a.endpoint_id and deleted_at is null and disabled_at is null and not ordered',
        'where id = a.endpoint_id and disabled_at is null and not ordered',
      ],
    },
    'src/webhooks/dispatch.ts': {
      'an expired secret still signs': ['(s.expires_at is null or s.expires_at > $2)', 'true'],
      'an endpoint receives the events of another business': [
        'where business_id = n.business_id and live = n.live and',
        'where live = n.live and',
      ],
      'an endpoint receives the events of the other mode': [
        'where business_id = n.business_id and live = n.live and',
        'where business_id = n.business_id and',
      ],
      'an event is passed over without deliveries': [
        'select max(position) from next having',
        'select max(position) + 1 from next having',
      ],
      'two processes send a delivery that was created as claimed': [
        'case when claimed then $5::timestamptz end',
        'case when claimed then $2::timestamptz end',
      ],
    },
    'src/webhooks/deliveries/redeliver.ts': {
      'a redelivery touches an attempt in progress': [
        `and (d.state <> 'PENDING'
          or d.due_at > ?`,
        `and (true or d.state <> 'PENDING'
          or d.due_at > ?`,
      ],
    },
    'src/webhooks/retention.ts': {
      'a delivery fails while an attempt is in progress': [
        `            and (leased_until is null or leased_until <= $1)
`,
        '',
      ],
    },
    'src/webhooks/deliveries/claim-ordered.ts': {
      'an ordered endpoint is sent its next event while one is in progress': [
        ' and (d.leased_until is null or d.leased_until <= $2)',
        '',
      ],
      'an ordered endpoint is sent its newest event first': [
        `order by position limit \${SCANNED_MAX}`,
        `order by position desc limit \${SCANNED_MAX}`,
      ],
    },
  },
)
