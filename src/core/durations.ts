export const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS

/** How much the clocks of instances and of the database may differ. */
export const CLOCK_SKEW_MAX_MS = 60_000
