import type { Pool } from 'pg'
import type { Clock } from '../../src/core/clock.ts'

/** The clock of a database and its instances, which move together. */
export interface MovedClock extends Clock {
  /** @param byMs at least 0 */
  move(byMs: number): Promise<void>
  /** Sets the clock of a copy of the database, which is as old as the copy. */
  set(copy: Pool): Promise<void>
}

/**
 * Gives a database a clock that can be moved. Instances follow the time of the database (`clock_timestamp()`).
 * PostgreSQL's own functions return the time of the machine, so this database has functions that replace them.
 *
 * @param pool the pool of a superuser
 */
export async function createMovedClock(pool: Pool): Promise<MovedClock> {
  const client = await pool.connect()
  try {
    await client.query(`set allow_system_table_mods = on;
      create table moved_clock (by interval not null);
      insert into moved_clock values ('0');
      alter function pg_catalog.clock_timestamp() rename to machine_clock_timestamp;
      alter function pg_catalog.now() rename to machine_now;
      create function pg_catalog.clock_timestamp() returns timestamptz language sql volatile
        as 'select machine_clock_timestamp() + (select by from public.moved_clock)';
      create function pg_catalog.now() returns timestamptz language sql stable
        as 'select machine_now() + (select by from public.moved_clock)';
      reset allow_system_table_mods`)
  } finally {
    client.release()
  }
  let movedMs = 0
  return {
    now: () => Date.now() + movedMs,
    async move(byMs) {
      // An instance that measures the difference meanwhile waits.
      const moving = await pool.connect()
      try {
        await moving.query('begin; lock table moved_clock in access exclusive mode')
        await moving.query(`update moved_clock set by = by + interval '1 ms' * ${byMs}`)
        movedMs += byMs
        await moving.query('commit')
      } finally {
        moving.release()
      }
    },
    async set(copy) {
      await copy.query(`update moved_clock set by = interval '1 ms' * ${movedMs}`)
    },
  }
}
