#!/bin/bash
# bash get.sh DEST: lays out the corpus in DEST/files (needs apt-get, dpkg-deb, pip, unzip).
set -e
mkdir -p "${1:?usage: get.sh DEST}"; DEST=$(cd "$1" && pwd)
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
for p in fortunes-de simutrans-data debian-edu-doc-de texlive-lang-german vdr-plugin-epgsearch apt-doc udo-doc-de; do
  apt-get -qq download "$p" 2>/dev/null; mkdir "$p"; dpkg-deb -x ${p}_*.deb "$p"; rm ${p}_*.deb
done
pip download -q --no-deps -d "$T/py" etf-steuernotizbuch==0.2.0 2>/dev/null
F="$DEST/files"; rm -rf "$F"; mkdir -p "$F"
put() { mkdir -p "$F/$(dirname "$2")"; case "$1" in *.gz) gzip -dc "$1" >"$F/$2";; *) cp "$1" "$F/$2";; esac; }
put fortunes-de/usr/share/doc/fortunes-de/GPL-Deutsch.gz lizenzen/GPL-Deutsch.txt
for n in kuchen suppe salat hauptgericht dessert sauce plaetzchen brot vorspeise; do put fortunes-de/usr/share/games/fortunes/de/$n.u8 rezepte/$n.txt; done
for n in anekdoten regeln; do put fortunes-de/usr/share/games/fortunes/de/$n.u8 heiteres/$n.txt; done
for n in citygrowth station new_world finances railtools depot schedule; do put simutrans-data/usr/share/games/simutrans/text/de/$n.txt simutrans/$n.txt; done
put debian-edu-doc-de/usr/share/doc/debian-edu-doc-de/debian-edu-bookworm-manual.html schule/debian-edu-bookworm-manual.html
X=texlive-lang-german/usr/share/doc/texlive-doc
put $X/latex/koma-script-examples/Kapitel-11/result/scrjuraexample.pdf verein/satzung-scrjuraexample.pdf
for n in latex/hausarbeit-jura/hausarbeit-jura latex/milog/milog latex/schulmathematik/schulmathematik latex/l2tabu/l2tabu latex/uhrzeit/uhrzeit-doc generic/dehyph-exptl/dehyph-exptl; do put $X/$n.pdf latex/$(basename $n).pdf; done
E1=vdr-plugin-epgsearch/usr/share/doc/vdr-plugin-epgsearch/de
put $E1/epgsearch.1.txt.gz fernsehen/epgsearch.1.txt
put $E1/epgsearchdirs.conf.5.txt fernsehen/epgsearchdirs.conf.5.txt
put $E1/epgsearchswitchtimers.conf.5.txt fernsehen/epgsearchswitchtimers.conf.5.txt
for n in ch2 ch3; do put apt-doc/usr/share/doc/apt-doc/guide.de.html/$n.html apt-benutzerhandbuch/$n.html; done
for n in 001002 001003 001006; do put udo-doc-de/usr/share/doc/udo-doc-de/html/$n.html udo/$n.html; done
unzip -p py/etf_steuernotizbuch-0.2.0-*.whl '*/METADATA' | sed '1,/^$/d' >"$T/readme.md"; put "$T/readme.md" steuer/etf-steuernotizbuch-README.md
