/** The master key of the services of tests. */
export const MASTER_KEY = Buffer.alloc(32, 7)
