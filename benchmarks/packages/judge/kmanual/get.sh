#!/bin/bash
# bash get.sh DEST : lays the files out in DEST/files (needs apt-get, dpkg-deb)
set -euo pipefail
D=$1; mkdir -p "$D/files"; D=$(cd "$D" && pwd); T=$(mktemp -d); trap 'rm -rf "$T"' EXIT; cd "$T"
apt-get download -qq homebank-data 2>/dev/null; dpkg-deb -x homebank-data_*.deb x
cp x/usr/share/doc/homebank-data/help/*.html "$D/files/"
rm "$D/files/index.html" "$D/files/frm-navig.html"
chmod -R u=rwX,go=rX "$D/files"
