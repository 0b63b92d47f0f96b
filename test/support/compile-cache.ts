import { join } from 'node:path'

/**
 * For the environment of programs that tests start again and again: what Node made of their sources
 * is kept, which is a third of a start.
 */
export const COMPILE_CACHE = {
  NODE_COMPILE_CACHE: join(import.meta.dirname, '../../node_modules/.cache/compiled'),
}
