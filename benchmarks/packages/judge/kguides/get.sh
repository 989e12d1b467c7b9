#!/bin/bash
# bash get.sh DEST : lays the files out in DEST/files (needs apt-get, dpkg-deb, pip, pod2text)
set -euo pipefail
D=$1; mkdir -p "$D/files"; D=$(cd "$D" && pwd); T=$(mktemp -d); trap 'rm -rf "$T"' EXIT; cd "$T"
pip download -q --no-deps --no-binary django django==5.2.1 2>/dev/null
tar xzf django-5.2.1.tar.gz
apt-get download -qq perl-doc 2>/dev/null; dpkg-deb -x perl-doc_*.deb x
F=$D/files; mkdir -p "$F"/django/{internals,contributing,faq} "$F/perl"
I=django-5.2.1/docs
for n in organization security release-process mailing-lists howto-release-django; do cp $I/internals/$n.txt "$F/django/internals/"; done
for n in bugs-and-features triaging-tickets committing-code new-contributors localizing; do cp $I/internals/contributing/$n.txt "$F/django/contributing/"; done
for n in general help install contributing usage troubleshooting; do cp $I/faq/$n.txt "$F/django/faq/"; done
P=$(dirname "$(find x -name perlgov.pod)")
for n in perlgov perlpolicy perlsecpolicy perlcommunity perlfaq1 perlfaq2; do pod2text -u "$P/$n.pod" > "$F/perl/$n.txt"; done
chmod -R u=rwX,go=rX "$F"
