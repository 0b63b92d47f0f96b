/** Weights of the digits from the left, repeated. */
const WEIGHTS = [3, 7, 3]

/**
 * Returns a ten-digit account number: the serial and its check digit.
 *
 * Source: Central Bank of Nigeria, Revised Standards on Nigeria Uniform Bank Account Number, 2020:
 * the check digit is computed over the institution's code and the nine-digit serial.
 *
 * @param institutionCode three digits for banks, six for other institutions
 * @param serial 0 to 999,999,999
 */
export function nuban(institutionCode: string, serial: number): string {
  const digits = String(serial).padStart(9, '0')
  return digits + checkDigit(institutionCode + digits)
}

/** Whether a ten-digit number has a valid check digit. Real banks also issue some numbers without one. */
export function isNuban(institutionCode: string, accountNumber: string): boolean {
  return (
    /^\d{10}$/.test(accountNumber) &&
    checkDigit(institutionCode + accountNumber.slice(0, 9)) === Number(accountNumber[9])
  )
}

function checkDigit(digits: string): number {
  let sum = 0
  for (let i = 0; i < digits.length; i++) {
    sum += Number(digits[i]) * (WEIGHTS[i % WEIGHTS.length] as number)
  }
  return (10 - (sum % 10)) % 10
}
