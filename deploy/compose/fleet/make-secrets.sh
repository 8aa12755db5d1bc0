#!/bin/sh
# Makes the secrets of this fleet, once; what is there already stays as it is.
set -eu
cd "$(dirname "$0")"
mkdir -p secrets
chmod 700 secrets

random() {
    od -An -N24 -tx1 /dev/urandom | tr -d ' \n'
}
# Readable inside the containers, whose users are not yours; outside, the folder keeps others away.
keep() {
    if [ ! -e "secrets/$1" ]; then
        printf '%s\n' "$2" > "secrets/$1.new"
        chmod 644 "secrets/$1.new"
        mv "secrets/$1.new" "secrets/$1"
    fi
}

keep postgres_password "$(random)"
keep database_url "postgresql://rushes:$(cat secrets/postgres_password)@postgres/rushes"
keep redis_password "$(random)"
keep redis_url "redis://:$(cat secrets/redis_password)@redis:6379/0"
keep admin_secret "$(random)"
keep s3_secret "$(random)"
keep s3_identities "{\"identities\": [{\"name\": \"rushes\", \"actions\": [\"Admin\"],
 \"credentials\": [{\"accessKey\": \"rushes\", \"secretKey\": \"$(cat secrets/s3_secret)\"}]}]}"
keep storage_url "s3://rushes:$(cat secrets/s3_secret)@rushes/?endpoint=http://storage:8333&region=us-east-1"
