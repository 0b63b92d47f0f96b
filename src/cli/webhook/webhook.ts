import { setTimeout as delay } from 'node:timers/promises'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import type { Client } from '@connectrpc/connect'
import { type Command, InvalidArgumentError, Option } from 'commander'
import {
  type Delivery,
  DeliverySchema,
  DeliveryStatus,
} from '../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { EndpointProfile, EndpointStatus } from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { YES } from '../confirm.ts'
import { EXIT, Failure } from '../failure.ts'
import {
  addBusinessOption,
  addModeOptions,
  addPageOptions,
  durationSeconds,
  enumOption,
  enumsOption,
  time,
} from '../options.ts'
import { fields } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'
import {
  DELIVERY,
  listDeliveries,
  outcomeOf,
  recoverDeliveries,
  redeliver,
  showDelivery,
  skipDelivery,
} from './deliveries.ts'
import {
  addFormatFlags,
  addOptionFlags,
  addRemovalFlags,
  addTextSecretFlag,
} from './endpoint-options.ts'
import {
  addEndpoint,
  listEndpoints,
  removeEndpoint,
  rotateSecret,
  showStatistics,
  switchSecret,
  updateEndpoint,
} from './endpoints.ts'
import { listen } from './listen.ts'
import { addRehearse } from './rehearse.ts'

const ENDPOINT_ID = ['<endpoint-id>', 'the endpoint, as `inflow webhook list` names it'] as const
const DELIVERY_ID = [
  '<delivery-id>',
  'the delivery, as `inflow webhook deliveries` names it',
] as const
const ENDPOINT_EXAMPLE = 'ep_01jd9w3k6t8v2x4z6b8d0f2h4j'
const DELIVERY_EXAMPLE = 'dlv_01jd9w3k6t8v2x4z6b8d0f2h4j'

/** `inflow webhook` */
export function webhook(noun: Command): void {
  addEndpointVerbs(noun)
  addDeliveryVerbs(noun)
  addBusinessOption(
    addVerb(noun, 'listen', {
      summary:
        'receive events until Ctrl-C through a temporary endpoint on a local service: verify, ' +
        'print and optionally forward each',
      example: 'webhook listen --forward-to http://localhost:3000/webhooks',
    }),
  )
    .option('--forward-to <url>', 'forward each event to this URL and return its response', url)
    .option(
      '--kind <kinds...>',
      'event kinds, see events kinds (default: all except ACCOUNT_CREATED)',
    )
    .option('--test', 'receive events of test mode instead of live mode')
    .action(listen)
  addServiceOptions(noun)
}

function addEndpointVerbs(noun: Command): void {
  const add = addBusinessOption(
    addVerb(noun, 'add', {
      summary: 'add an endpoint; its signing secret is shown only once',
      example: 'webhook add --url https://shop.example.com/hooks --kind PAYMENT_NOTIFICATION',
    }),
  )
    .requiredOption('--url <url>', 'the URL that events are posted to')
    .option(
      '--kind <kinds...>',
      'event kinds, see events kinds (default: all except ACCOUNT_CREATED)',
    )
    .option('--description <text>', 'a description for operators')
    .option('--concurrency <count>', 'concurrent requests, 1 to 50 (default: 10)', concurrency)
    .option('--test', 'receive events of test mode instead of live mode')
    .addOption(
      enumOption(
        '--profile <profile>',
        'how requests look and are signed (default: standard)',
        EndpointProfile,
      ),
    )
  addOptionFlags(addFormatFlags(addTextSecretFlag(add))).action(addEndpoint)
  addPageOptions(
    addModeOptions(
      addBusinessOption(
        addVerb(noun, 'list', {
          summary: 'list the endpoints of a business, or of all, newest first',
          example: 'webhook list --all --failing',
        }),
      )
        .option('--all', 'of all businesses')
        .addOption(enumOption('--status <status>', 'only with this status', EndpointStatus))
        .option('--failing', 'only those whose latest attempt failed'),
    ),
  ).action(listEndpoints)
  addBusinessOption(
    addVerb(noun, 'statistics', {
      summary:
        'show how the latest deliveries to each endpoint of a business went, of up to 24 hours',
      example: 'webhook statistics',
    }),
  ).action(showStatistics)
  addVerb(noun, 'remove', {
    summary: 'remove an endpoint and drop its pending deliveries',
    example: `webhook remove ${ENDPOINT_EXAMPLE}`,
  })
    .argument(...ENDPOINT_ID)
    .option(...YES)
    .action(removeEndpoint)
  const update = addVerb(noun, 'update', {
    summary: 'change an endpoint, or enable one that was disabled',
    example: `webhook update ${ENDPOINT_EXAMPLE} --enable`,
  })
    .argument(...ENDPOINT_ID)
    .option('--url <url>', 'the URL that events are posted to')
    .addOption(new Option('--kind <kinds...>', 'event kinds').conflicts('allKinds'))
    .option('--all-kinds', 'all event kinds except ACCOUNT_CREATED')
    .option('--description <text>', 'a description for operators')
    .option('--concurrency <count>', 'concurrent requests, 1 to 50', concurrency)
    .addOption(new Option('--enable', 'send events to it').conflicts('disable'))
    .option('--disable', 'pause its deliveries')
  addRemovalFlags(addFormatFlags(addOptionFlags(update))).action(updateEndpoint)
  const rotate = addVerb(noun, 'rotate', {
    summary:
      'create a new signing secret, shown only once; earlier ones also sign during the overlap, or until `switch`',
    example: `webhook rotate ${ENDPOINT_EXAMPLE} --overlap 48h`,
  })
    .argument(...ENDPOINT_ID)
    .option(
      '--overlap <time>',
      'how long earlier secrets also sign, such as 48h, 30m or 0 (default: 24h)',
      durationSeconds,
    )
    .option('--yes', 'do not ask before an overlap of 0')
  addTextSecretFlag(rotate).action(rotateSecret)
  addVerb(noun, 'switch', {
    summary: 'let the text that `rotate` added sign all requests (profile wiaxy)',
    example: `webhook switch ${ENDPOINT_EXAMPLE}`,
  })
    .argument(...ENDPOINT_ID)
    .option(...YES)
    .action(switchSecret)
  addVerb(noun, 'test', {
    summary: 'send a test event to an endpoint and show the response',
    example: `webhook test ${ENDPOINT_EXAMPLE}`,
  })
    .argument(...ENDPOINT_ID)
    .action(testEndpoint)
  addRehearse(noun)
}

function addDeliveryVerbs(noun: Command): void {
  addPageOptions(
    addVerb(noun, 'deliveries', {
      summary: 'list deliveries to an endpoint, of a business or of an event, newest event first',
      example: `webhook deliveries --endpoint ${ENDPOINT_EXAMPLE} --status failed`,
    })
      .option('--endpoint <id>', 'to this endpoint, which may have been removed')
      .option('--event <id>', 'of this event')
      .option('--business <id>', 'to the endpoints of this business')
      .option('--from <time>', 'created at this time or later', time)
      .option('--to <time>', 'created before this time', time)
      .addOption(enumsOption('--status <status...>', 'only in these states', DeliveryStatus)),
  ).action(listDeliveries)
  addVerb(noun, 'delivery', {
    summary: 'show a delivery with its attempts, their responses, and the request as it is sent',
    example: `webhook delivery ${DELIVERY_EXAMPLE}`,
  })
    .argument(...DELIVERY_ID)
    .action(showDelivery)
  addVerb(noun, 'redeliver', {
    summary: 'send a delivery again, even if it was acknowledged',
    example: `webhook redeliver ${DELIVERY_EXAMPLE}`,
  })
    .argument(...DELIVERY_ID)
    .action(redeliver)
  addVerb(noun, 'skip', {
    summary: 'end a pending delivery, so that the next events of an ordered endpoint are sent',
    example: `webhook skip ${DELIVERY_EXAMPLE}`,
  })
    .argument(...DELIVERY_ID)
    .action(skipDelivery)
  addVerb(noun, 'recover', {
    summary: 'send again the deliveries that an endpoint has not acknowledged since a time',
    example: `webhook recover ${ENDPOINT_EXAMPLE} --since "2026-11-20 10:00:00"`,
  })
    .argument(...ENDPOINT_ID)
    .requiredOption<Timestamp>('--since <time>', 'deliveries created at this time or later', time)
    .action(recoverDeliveries)
}

function concurrency(text: string): number {
  const count = /^\d{1,2}$/.test(text) ? Number(text) : 0
  if (count < 1 || count > 50) throw new InvalidArgumentError('Must be a number from 1 to 50.')
  return count
}

function url(text: string): string {
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    throw new InvalidArgumentError('Must be a URL such as http://localhost:3000/webhooks.')
  }
  return text
}

/** Longer than the timeout of the first attempt. */
const FIRST_ATTEMPT_MS = 20_000
const FIRST_ATTEMPT_POLL_MS = 200

/** `inflow webhook test` */
const testEndpoint = serviceAction<object>(async (service, options, endpointId) => {
  const client = service.client(WebhookService)
  const { eventId } = await client.sendTestEvent({ endpointId })
  const delivery = await firstAttempt(client, endpointId, eventId)
  if (delivery === undefined) {
    throw new Failure(EXIT.refused, `the test event ${eventId} has not been attempted yet`, [
      `check its delivery: inflow webhook deliveries --event ${eventId}`,
    ])
  }
  printResponse(options, DeliverySchema, delivery, () => fields(delivery, DELIVERY))
  if (delivery.latestAttempt?.error) {
    throw new Failure(EXIT.refused, `not acknowledged: ${outcomeOf(delivery.latestAttempt)}`)
  }
})

/** Waits for the first attempt of the event's delivery. @returns undefined after a timeout */
async function firstAttempt(
  client: Client<typeof WebhookService>,
  endpointId: string,
  eventId: string,
): Promise<Delivery | undefined> {
  const untilMs = performance.now() + FIRST_ATTEMPT_MS
  while (performance.now() < untilMs) {
    const { deliveries } = await client.listDeliveries({ endpointId, eventId })
    const [delivery] = deliveries
    if (delivery?.latestAttempt) return delivery
    await delay(FIRST_ATTEMPT_POLL_MS)
  }
  return undefined
}
