#!/bin/sh
# Lay out texts in other languages, from Debian packages, beside their questions, as real.py reads them:
#     sh benchmarks/other_words/get.sh CORPORA && python benchmarks/real.py CORPORA
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/packages"
cd "$1"
(cd packages && apt-get download live-manual-html gimp-help-fr harden-doc texlive-lang-spanish)
for package in packages/*.deb; do dpkg-deb -x "$package" packages; done
doc=packages/usr/share/doc
for name in live_fr live_fr_en gimp_fr harden_de latex_es; do
    mkdir -p "$name/files"
    cp "$here/$name/questions.jsonl" "$name"
done
cp "$doc"/live-manual/html/live-manual/*.fr.html live_fr/files
rm live_fr/files/index.fr.html live_fr/files/toc.fr.html live_fr/files/metadata.fr.html
cp live_fr/files/* live_fr_en/files
help=packages/usr/share/gimp/2.0/help/fr
cp "$help/introduction.html" "$help"/gimp-concepts*.html "$help"/gimp-using*.html "$help"/gimp-imaging*.html gimp_fr/files
cp "$help"/gimp-introduction*.html gimp_fr/files
rm gimp_fr/files/*history*.html gimp_fr/files/*script-fu*.html
harden=$doc/harden-doc/html/de-DE
cp "$harden"/ch0*.html "$harden"/ch12*.html harden_de/files
for part in bios-boot restrict-console-login intro after-compromise firewall-setup log-alerts checklist kernel-root-prompt; do
    cp "$harden/$part.html" harden_de/files
done
cp "$doc/texlive-doc/latex/lshort-spanish/lshort-a4.pdf" latex_es/files
