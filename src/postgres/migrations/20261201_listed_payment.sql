-- Payments that reconciliation holds are no notifications of their bank: they do not show that its notifications arrive.
alter table bank_notification add column listed boolean not null default false;
