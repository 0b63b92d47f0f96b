#!/bin/sh
# Makes the secrets of compose.yaml in the folder `secrets` beside it, once: what exists stays.
#
# The folder is closed to other users. The files in it can be read by all, because the containers read them as
# users of their own.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
make() {
  [ -s "secrets/$1" ] || { cat > "secrets/$1.new"; chmod 644 "secrets/$1.new"; mv "secrets/$1.new" "secrets/$1"; }
}
openssl rand -hex 24 | make postgres_password
openssl rand -base64 32 | make master_key
openssl rand -hex 32 | make admin_token
openssl rand -hex 16 | make grafana_password
password=$(cat secrets/postgres_password)
printf '"inflow" "%s"\n' "$password" | make pgbouncer_users
printf 'postgres://inflow:%s@pgbouncer:6432/inflow\n' "$password" | make database_url
printf 'postgres://inflow:%s@postgres:5432/inflow\n' "$password" | make database_direct_url
echo "The secrets are in $(pwd)/secrets. Keep a copy of master_key apart from the backups of the database." >&2
