-- Who takes care of an item of the review, and what was noted about it.
create table review_note (
  kind text not null,
  item_id text not null,
  live boolean not null,
  assignee text not null,
  note text not null,
  noted_at timestamptz(3) not null,
  noted_by text not null,
  primary key (kind, item_id, live)
);
