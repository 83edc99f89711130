#!/usr/bin/env bash
# Makes the certificates that tests/doors.rs uses: an authority, and a server and a client that it vouches for.
# They are worth nothing: their keys are public. The authority's own key is not kept.
set -euo pipefail
cd "$(dirname "$0")"
days=36500
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days $days -subj "/CN=test authority" \
  -addext basicConstraints=critical,CA:TRUE -keyout authority.key -out authority.pem
for name in server client; do
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$name" -keyout $name.key -out $name.csr
  openssl x509 -req -in $name.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days $days -out $name.pem \
    -extfile <(printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n')
done
rm -f ./*.csr ./*.srl authority.key
