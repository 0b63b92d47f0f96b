import { useState } from 'react'
import {
  type Endpoint,
  EndpointProfile,
  LegacySignature,
} from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { CheckField, type FormValues, SelectField, TextField } from '../ui/form.tsx'

const PROFILES = [
  { value: `${EndpointProfile.STANDARD}`, label: 'Standard Webhooks' },
  { value: `${EndpointProfile.WIAXY}`, label: 'wiaxy, for a receiver that exists' },
]

const LEGACY_SIGNATURES = [
  { value: `${LegacySignature.UNSPECIFIED}`, label: 'None' },
  { value: `${LegacySignature.MD5}`, label: 'MD5 of the text secret (weak)' },
  { value: `${LegacySignature.HMAC_BODY}`, label: 'HMAC-SHA256 of the body alone (weak)' },
]

/** How the requests to a new endpoint look and are signed. */
export function ProfileFields() {
  const [profile, setProfile] = useState(PROFILES[0]?.value)
  return (
    <>
      <SelectField name="profile" label="Profile" choices={PROFILES} onChoose={setProfile} />
      {profile === `${EndpointProfile.WIAXY}` && (
        <>
          <TextSecretField />
          <FormatFields />
        </>
      )}
    </>
  )
}

export function TextSecretField() {
  return (
    <TextField
      name="textSecret"
      label="Text secret"
      type="password"
      maxLength={256}
      hint="The secret key that the receiver has already. It is encrypted, and not shown again. Empty: one is generated."
    />
  )
}

/** What of the wiaxy profile can be changed. @param endpoint to change; undefined: a new one */
export function FormatFields({ endpoint }: { readonly endpoint?: Endpoint }) {
  return (
    <>
      <SelectField
        name="legacySignature"
        label="Signature of earlier receivers"
        choices={LEGACY_SIGNATURES}
        value={`${endpoint?.legacySignature ?? LegacySignature.UNSPECIFIED}`}
      />
      <TextField
        name="eventName"
        label="Event name"
        maxLength={64}
        pattern="[A-Z][A-Z_]*"
        hint="What bodies call PAYMENT_NOTIFICATION. Empty: just that."
        value={endpoint?.eventName ?? ''}
      />
      <CheckField
        name="payerAsArray"
        label="Send the payer as an array of one"
        isOn={endpoint?.payerAsArray ?? false}
      />
    </>
  )
}

export function readFormat(form: FormValues) {
  return {
    legacySignature: form.whole('legacySignature') as LegacySignature,
    eventName: form.text('eventName'),
    payerAsArray: form.isOn('payerAsArray'),
  }
}
