-- Profiles of webhook endpoints. Those that exist have none, and their requests keep the headers of both.
alter table webhook_endpoint add column profile text, add column legacy_signature text, add column event_name text,
  add column payer_as_array boolean not null default false,
  add constraint webhook_endpoint_profile check (profile in ('STANDARD', 'WIAXY') and legacy_signature in
    ('MD5', 'HMAC_BODY') and (profile = 'WIAXY' or legacy_signature is null and event_name is null and not payer_as_array));
alter table webhook_secret add column is_next boolean not null default false;
