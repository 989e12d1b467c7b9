#!/bin/sh
# Index /docs, then serve it. With LMKRAG_TOKEN, requests must carry it; without, publish the port to 127.0.0.1 only.
set -eu
lmkrag index /docs --prune --index /index/docs
if [ -n "${LMKRAG_TOKEN:-}" ]; then
    exec lmkrag serve --index docs=/index/docs --host 0.0.0.0 "$@"
fi
exec lmkrag serve --index docs=/index/docs --host 0.0.0.0 --no-auth "$@"
