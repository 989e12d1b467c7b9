#!/bin/bash
# bash get.sh DEST : lays out the corpus in DEST/files
set -euo pipefail
dest=$1; mkdir -p "$dest/files"; dest=$(cd "$dest" && pwd)
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
apt-get download -qq zoneminder-doc
dpkg-deb -x zoneminder-doc_*.deb x
h=$tmp/x/usr/share/doc/zoneminder-doc/html
f=$dest/files
mkdir -p "$f/userguide/options"
cp "$h/index.html" "$h/faq.html" "$f/"
cp "$h/userguide/"*.html "$f/userguide/"
cp "$h/userguide/options/"*.html "$f/userguide/options/"
chmod -R u=rwX,go=rX "$f"
