/** The live settings of a fake Safe Haven, which sends its notifications to a port without a listener. */
export const safeHavenLive = (bank: { readonly environment: NodeJS.ProcessEnv }) => ({
  ...bank.environment,
  BANK_SAFEHAVEN_TIMEOUT_MS: '60000',
  BANK_SAFEHAVEN_CALLBACK_URL: 'http://127.0.0.1:9',
  BANK_SAFEHAVEN_CALLBACK_SECRET: 'callback-secret-0123456789abcdef',
})

/** The live settings of a 9PSB that does not respond. */
export const NINE_PSB_AWAY = {
  BANKS: '9PSB=live',
  BANK_9PSB_BASE_URL: 'http://127.0.0.1:9',
  BANK_9PSB_PUBLIC_KEY: 'public',
  BANK_9PSB_PRIVATE_KEY: 'private',
  BANK_9PSB_NOTIFICATION_USER: 'bank',
  BANK_9PSB_NOTIFICATION_PASSWORD: 'secret',
}
