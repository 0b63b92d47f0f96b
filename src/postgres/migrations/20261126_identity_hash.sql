-- Every identity number has its search hash, so there is nothing left to look for.
drop index account_unhashed_index;
alter table account add constraint account_id_number_hash
  check (id_number_encrypted is null or id_number_hash is not null) not valid;
alter table account validate constraint account_id_number_hash;
