import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BANK_CODES, BANK_FACTS } from '../../src/banks/bank.ts'
import { createInstitutions, isNubanFault } from '../../src/banks/institutions.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { ConfigError, readConfig } from '../../src/config/config.ts'
import { makeFolder } from '../support/folder.ts'

const known = createInstitutions()

describe('the known institutions', () => {
  test('are sorted by name, and no two have the same code or name', () => {
    const list = known.list()
    const names = list.map(({ name }) => name)
    expect(names).toEqual(names.toSorted((a, b) => a.localeCompare(b, 'en')))
    expect(new Set(names).size).toBe(list.length)
    expect(new Set(list.map(({ code }) => code)).size).toBe(list.length)
    expect(list.length).toBeGreaterThan(500)
  })

  test('have six digits and a name, and commercial banks three digits of their own', () => {
    for (const { code, name, nubanCode } of known.list()) {
      expect(code).toMatch(/^\d{6}$/)
      expect(name).toMatch(/^[\w@][^\s]*( [^\s]+)*$/)
      expect(name).not.toContain('MFB')
      if (nubanCode !== undefined) expect(nubanCode).toMatch(/^\d{3}$/)
    }
    const banks = known.list().flatMap(({ nubanCode }) => nubanCode ?? [])
    expect(new Set(banks).size).toBe(banks.length)
    expect(banks.length).toBeGreaterThanOrEqual(25)
  })

  test('the bank of simulated payers is found, so that they can be refunded, and not listed', () => {
    expect(known.find('000000')?.name).toBe('Sandbox Bank')
    expect(known.list().map(({ code }) => code)).not.toContain('000000')
  })

  test.each([
    ['000013', 'Guaranty Trust Bank'],
    ['058', 'Guaranty Trust Bank'],
    ['011', 'First Bank of Nigeria'],
    ['090267', 'Kuda Microfinance Bank'],
    ['090405', 'Moniepoint Microfinance Bank'],
    ['100004', 'OPay'],
    ['120003', 'MoMo Payment Service Bank'],
  ])('%s is %s', (code, name) => {
    expect(known.find(code)?.name).toBe(name)
  })

  test.each(['', '58', '999', '0580', '000999', '090267 '])('"%s" is none', (code) => {
    expect(known.find(code)).toBeUndefined()
  })

  test('include the banks that hold accounts', () => {
    for (const code of BANK_CODES) {
      const { interbankCode, nubanCode } = BANK_FACTS[code]
      const institution = known.find(interbankCode)
      expect([code, institution !== undefined]).toEqual([code, true])
      if (nubanCode.length === 3) expect(institution?.nubanCode).toBe(nubanCode)
    }
  })
})

describe('a check digit', () => {
  const fault = (code: string, accountNumber: string) => {
    const institution = known.find(code)
    if (institution === undefined) throw new Error(`no ${code}`)
    return isNubanFault(institution, accountNumber)
  }

  test.each([
    // The central bank's example.
    ['011', '0000014579', false],
    ['011', '0000014578', true],
    // Two digits exchanged.
    ['011', '0000104579', true],
    // From documents of banks.
    ['058', '0430294874', false],
    ['101', '5900174721', false],
    ['033', '1020808489', false],
    // Another bank's number.
    ['057', '0430294874', true],
  ])('of bank %s in %s is wrong: %s', (code, accountNumber, expected) => {
    expect(fault(code, accountNumber)).toBe(expected)
  })

  test('of Access Bank may be that of Diamond Bank, whose accounts it took over', () => {
    const [ofAccess, ofDiamond] = [nuban('044', 69_000_003), nuban('063', 69_000_003)]
    expect(ofAccess).not.toBe(ofDiamond)
    for (const code of ['000014', '000005']) {
      expect([fault(code, ofAccess), fault(code, ofDiamond)]).toEqual([false, false])
    }
  })

  test('does not apply to institutions whose accounts are phone numbers', () => {
    for (const code of ['100004', '100033', '090405', '120003']) {
      expect(fault(code, '8107300218')).toBe(false)
    }
  })
})

describe('a file of institutions', () => {
  let folder: string

  beforeAll(async () => {
    folder = await makeFolder('institutions')
  })

  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  const fileOf = (text: string): string => {
    const path = join(folder, 'institutions.csv')
    writeFileSync(path, text)
    return path
  }

  test('corrects and extends the known ones', () => {
    const rows = '000042,Tatum Bank,109\r\n090999,"Obi, Sons & Co",\r\n000013,GTBank,058\r\n'
    const institutions = createInstitutions(fileOf(`\uFEFFcode,name,nuban_code\r\n${rows}`))
    expect(institutions.find('109')).toEqual({
      code: '000042',
      name: 'Tatum Bank',
      nubanCode: '109',
    })
    expect(institutions.find('090999')).toMatchObject({ name: 'Obi, Sons & Co' })
    expect(institutions.find('058')).toMatchObject({ code: '000013', name: 'GTBank' })
    expect(institutions.list()).toHaveLength(known.list().length + 1)
  })

  test.each([
    ['', 'must begin with the header code,name,nuban_code'],
    ['000001,Sterling Bank,232\n', 'must begin with the header code,name,nuban_code'],
    ['code,name,nuban_code\n000001,Sterling,232\n1,Two,\n', 'line 3: code must be six digits'],
    ['code,name,nuban_code\n000001,,232\n', 'line 2: name must be 1 to 100 printable characters'],
    ['code,name,nuban_code\n\n000001,A,23\n', 'line 3: nuban_code must be three digits or empty'],
    ['code,name,nuban_code\n000001,A,\n000001,B,\n', 'line 3: 000001 is on line 2 already'],
    [
      'code,name,nuban_code\n000042,Tatum Bank,058\n',
      'line 2: nuban_code 058 is that of Guaranty Trust Bank (000013) already',
    ],
    ['code,name,nuban_code\n000001,A\n', expect.stringMatching(/^is not valid CSV: .* line 2/)],
    ['code,name,nuban_code\n000001,"A,232\n', expect.stringMatching(/^is not valid CSV: .* line/)],
  ])('with %j stops the start, and the fault names the line', (text, message) => {
    const faults = (() => {
      try {
        readConfig({ INSTITUTIONS_FILE: fileOf(text) })
        return []
      } catch (error) {
        expect(error).toBeInstanceOf(ConfigError)
        return (error as ConfigError).faults
      }
    })()
    expect(faults.map((fault) => fault.replace(/^INSTITUTIONS_FILE /, ''))).toEqual([message])
  })

  test('that cannot be read stops the start', () => {
    expect(() => readConfig({ INSTITUTIONS_FILE: '/nowhere/institutions.csv' })).toThrow(
      /^INSTITUTIONS_FILE cannot be read: ENOENT/,
    )
  })
})
