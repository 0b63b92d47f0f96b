import { z } from 'zod'
import { type ReadSettings, type Settings, secret } from '../../config/settings.ts'
import { createFields } from '../bank-fields.ts'
import { path, text, timeoutMs, url } from '../settings.ts'

/** `BANK_9PSB_…`: for requests to 9PSB and for its notifications. */
export const NINE_PSB_SETTINGS = z.object({
  BASE_URL: url.default('https://baas.9psb.com.ng/iva-api/v1/merchant/virtualaccount'),
  TIMEOUT_MS: timeoutMs(15_000, 120_000),
  PUBLIC_KEY: secret(z.string()),
  PRIVATE_KEY: secret(z.string()),
  /** The bank's Basic credentials when it notifies us; its hash covers the password too. */
  NOTIFICATION_USER: text(/^[^:]+$/, 'a name without a colon'),
  NOTIFICATION_PASSWORD: secret(z.string()),
  /** The description of an account, sent to the bank. */
  DESCRIPTION: z.string().default('Virtual account'),
  CREATE_FIELDS: createFields,
  AUTHENTICATE_PATH: path('authenticate'),
  CREATE_PATH: path('create'),
  CONFIRM_PATH: path('confirmpayment'),
  DEACTIVATE_PATH: path('deactivate'),
})

export type NinePsbSettings = Settings<typeof NINE_PSB_SETTINGS>

export function readNinePsbSettings(read: ReadSettings): NinePsbSettings | undefined {
  return read(NINE_PSB_SETTINGS)
}
