#!/bin/sh
# Compress logs older than a week, delete those older than a year.
set -eu
LOGS=${1:-/srv/logs}
find "$LOGS" -name '*.log' -mtime +7 -exec gzip -9 {} +
find "$LOGS" -name '*.log.gz' -mtime +365 -delete
logger -t rotate "logs rotated in $LOGS"
