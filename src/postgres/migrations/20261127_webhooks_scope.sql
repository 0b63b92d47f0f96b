-- The scope webhooks:write of tokens, of portal links, and of the sessions that they begin.
alter table internal_token drop constraint internal_token_scopes,
  add constraint internal_token_scopes check (cardinality(scopes) > 0 and scopes <@ array['admin',
    'payments:write', 'payments:reverse', 'splits:write', 'webhooks:write', 'read', 'events:subscribe']);
alter table session drop constraint session_scopes,
  add constraint session_scopes check (cardinality(scopes) > 0 and scopes <@ array['admin',
    'payments:write', 'payments:reverse', 'splits:write', 'webhooks:write', 'read', 'events:subscribe']);
alter table sign_in_code drop constraint sign_in_code_scopes,
  add constraint sign_in_code_scopes check (cardinality(scopes) > 0 and scopes <@ array['admin',
    'payments:write', 'payments:reverse', 'splits:write', 'webhooks:write', 'read', 'events:subscribe']);
alter table portal_link drop constraint portal_link_scopes,
  add constraint portal_link_scopes check (cardinality(scopes) > 0 and scopes <@ array['payments:write',
    'payments:reverse', 'splits:write', 'webhooks:write', 'read', 'events:subscribe']);
