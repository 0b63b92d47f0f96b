-- PostgreSQL inlines them only if they are not declared more stable than what they call. Otherwise it plans 14 queries for
-- each audit entry.
alter function audit_text(text) stable;
alter function audit_hash(audit_entry) stable;
