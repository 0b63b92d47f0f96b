import type { Command } from 'commander'
import {
  EndpointProfile,
  EndpointProfileSchema,
  LegacySignatureSchema,
} from '../../gen/inflow/webhook/v1/endpoint_pb.ts'
import {
  type RehearsalStep,
  type RehearsalSummary,
  RehearsalVerdict,
  RehearsalVerdictSchema,
} from '../../gen/inflow/webhook/v1/rehearsal_pb.ts'
import {
  RehearseResponseSchema,
  WebhookService,
} from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import {
  FORMAT_FLAGS,
  type FormatFlags,
  PROFILE,
  readFormat,
  readTextSecret,
} from './endpoint-options.ts'
import { enumName, enumRule } from './options.ts'
import { EXIT, Failure, jsonText, print, visible } from './output.ts'
import { readSecretArgument } from './read-secret.ts'
import { BUSINESS } from './rpc-verb.ts'
import { type Service, serviceAction, toJsonForm } from './service-action.ts'
import { addVerbs, calling } from './verb.ts'

/** The time-out of the call, which is longer than the service's own limit for a rehearsal. */
const TIMEOUT_MS = 300_000

/** Flags of a receiver without an endpoint. */
interface RehearseOptions extends FormatFlags {
  readonly business?: string
  readonly url?: string
  readonly profile?: EndpointProfile
  readonly secretFile?: string
  readonly kind?: readonly string[]
}

const REHEARSE_HELP = `
  rehearse: send a receiver payments that never happened, repeats, wrong signatures, a reversal and a burst, and report what it should have answered and what it did
  ${BUSINESS}
  [endpoint-id]  an endpoint of test mode, as \`inflow webhook list\` names it
  --url <url>  the URL of a receiver without an endpoint
  ${PROFILE}
  --secret-file <path>  file of the whsec_… secret that the receiver has, or - for standard input (profile standard)
  --text-secret-file <path>  file of the text that the receiver has, or - for standard input (profile wiaxy)
  --kind <kinds...>  event kinds that it will receive: PAYMENT_REVERSED adds a reversal
  ${FORMAT_FLAGS}
  Example: webhook rehearse --url https://shop.example.com/hooks --profile wiaxy --text-secret-file text.txt`

/** Adds `inflow webhook rehearse`, for an endpoint of test mode, or for `--url` with the format of its requests. */
export function addRehearseVerb(noun: Command): void {
  addVerbs(noun, REHEARSE_HELP, {
    rehearse: calling(rehearse, {
      profile: enumRule(EndpointProfileSchema),
      secretFile: { conflicts: 'textSecretFile' },
      legacySignature: enumRule(LegacySignatureSchema),
    }),
  })
}

const rehearse = serviceAction<RehearseOptions>(async (service, options, endpointId) => {
  const request = await readTarget(service, options, endpointId)
  const stream = service.client(WebhookService).rehearse(request, { timeoutMs: TIMEOUT_MS })
  let summary: RehearsalSummary | undefined
  for await (const message of stream) {
    const { progress } = message
    if (progress.case === 'summary') summary = progress.value
    if (options.json) print(jsonText(toJsonForm(RehearseResponseSchema, message)))
    else if (progress.case === 'step') print(stepText(progress.value))
    else if (progress.case === 'summary') print(summaryText(progress.value))
  }
  if (summary === undefined)
    throw new Failure(EXIT.refused, 'the rehearsal ended without a summary')
  if (summary.verdict === RehearsalVerdict.FAILED)
    throw new Failure(EXIT.refused, summary.conclusion)
})

/** @throws Failure if flags are missing, or belong to the other profile */
async function readTarget(service: Service, options: RehearseOptions, endpointId: string) {
  const { url, profile, secretFile, textSecretFile, kind } = options
  if (url === undefined) {
    if (endpointId === '') throw usage('give an endpoint of test mode, or --url <url>')
    const own = [profile, secretFile, textSecretFile, kind, ...Object.values(readFormat(options))]
    if (own.every((each) => each === undefined)) return { endpointId }
    throw usage('an endpoint has its own profile, secret and kinds: their flags are for --url')
  }
  if (endpointId !== '') throw usage('give an endpoint or --url, not both')
  const isWiaxy = profile === EndpointProfile.WIAXY
  const [needed, other] = isWiaxy
    ? ['--text-secret-file', secretFile]
    : ['--secret-file', textSecretFile]
  if (other !== undefined) {
    throw usage(`profile ${isWiaxy ? 'wiaxy' : 'standard'} takes the secret from ${needed}`)
  }
  if ((isWiaxy ? textSecretFile : secretFile) === undefined) {
    throw usage(`give ${needed} <path>: the receiver verifies signatures with a secret that it has`)
  }
  const secret = isWiaxy
    ? await readTextSecret(options)
    : await readSecretArgument(secretFile ?? '', '--secret-file', 'Signing secret')
  return {
    businessId: service.business(options.business),
    candidate: {
      url,
      secret,
      kinds: [...(kind ?? [])],
      profile: profile ?? EndpointProfile.UNSPECIFIED,
      ...readFormat(options),
    },
  }
}

const usage = (text: string) => new Failure(EXIT.usage, text)

/** The verdict and the name of a step, and below them the expected and the actual behaviour. */
function stepText({
  verdict,
  name,
  expected,
  happened,
  note,
  responseBody,
}: RehearsalStep): string {
  const [firstLine = ''] = responseBody.trim().split('\n', 1)
  const lines = [
    `expected  ${expected}`,
    `happened  ${happened}`,
    ...(firstLine === '' ? [] : [`response  ${firstLine.slice(0, 200)}`]),
    ...(note === '' ? [] : [`note      ${note}`]),
  ]
  const title = `${enumName(RehearsalVerdictSchema, verdict).padEnd(9)}${name}`
  return [title, ...lines.map((line) => `         ${line}`)].map(visible).join('\n')
}

function summaryText({ conclusion, books }: RehearsalSummary): string {
  return ['', conclusion, `Its books should show: ${books}`].map(visible).join('\n')
}
