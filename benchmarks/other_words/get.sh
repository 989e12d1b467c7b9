#!/bin/sh
# Lay out texts in other languages, from Debian packages, beside their questions, as real.py reads them:
#     sh benchmarks/other_words/get.sh CORPORA && python benchmarks/real.py CORPORA
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/packages"
cd "$1"
(cd packages && apt-get download live-manual-html gimp-help-fr harden-doc texlive-lang-spanish \
    wesnoth-1.16-data gnucash-docs aptitude-doc-ru \
    wngerman fortunes-de texlive-lang-german ding grisbi-common mplayer-doc adduser apt-listchanges manpages-de mc-data \
    aspell-fr ifrench-gut brltty auto-multiple-choice-doc expeyes-doc-fr texlive-lang-french manpages-fr)
for package in packages/*.deb; do dpkg-deb -x "$package" packages; done
doc=packages/usr/share/doc
for name in live_fr live_fr_en gimp_fr harden_de latex_es wesnoth_pl gnucash_pt aptitude_ru files_de files_fr; do
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

man=packages/usr/share/man
plain() { # SOURCE TARGET: copies a file, unpacked if it is packed
    case "$1" in
    *.gz) gzip -dc "$1" > "$2" ;;
    *) cp "$1" "$2" ;;
    esac
}

cp "$doc/wesnoth-1.16-data/manual.pl.html" wesnoth_pl/files
cp "$doc"/gnucash-docs/gnucash-guide-pt/*.html gnucash_pt/files
rm gnucash_pt/files/fdl*.html gnucash_pt/files/index.html gnucash_pt/files/titlepage.html gnucash_pt/files/pt0*.html gnucash_pt/files/pr01.html
cp "$doc"/aptitude/html/ru/*.html aptitude_ru/files
rm aptitude_ru/files/index.html aptitude_ru/files/ld-*.html

tex=$doc/texlive-doc/latex
plain "$doc/wngerman/README" files_de/files/README.igerman98
plain "$doc/fortunes-de/LIESMICH" files_de/files/LIESMICH.fortunes
plain "$tex/bibleref-german/LIESMICH" files_de/files/LIESMICH.bibleref
plain "$tex/koma-script-examples/LIESMICH.txt" files_de/files/LIESMICH-koma.txt
plain "$tex/templates-fenn/templates-fenn-de.txt" files_de/files/templates-fenn-de.txt
plain "$tex/l2tabu/CHANGES" files_de/files/CHANGES.l2tabu
plain "$tex/lshort-german/CHANGES.gz" files_de/files/CHANGES.l2kurz
plain "$tex/lshort-german/l2kurz.pdf" files_de/files/l2kurz.pdf
plain "$tex/l2tabu/l2tabu.pdf" files_de/files/l2tabu.pdf
plain "$tex/hausarbeit-jura/hausarbeit-jura.pdf" files_de/files/hausarbeit-jura.pdf
plain "$tex/etdipa/Help/etdipa_doc_DE.pdf" files_de/files/etdipa_doc_DE.pdf
plain "$doc/ding/html/hilfe.html" files_de/files/ding-hilfe.html
plain "$doc/grisbi/de/quickstart.html" files_de/files/grisbi-quickstart.html
plain "$doc/mplayer/HTML/de/faq.html" files_de/files/mplayer-faq.html
plain packages/usr/share/mc/hints/mc.hint.de files_de/files/mc.hint.de
for page in man8/adduser.8 man8/deluser.8 man1/apt-listchanges.1 man1/shred.1 man1/nohup.1 man1/cp.1 man5/crontab.5 man8/shutdown.8; do
    plain "$man/de/$page.gz" "files_de/files/${page#*/}"
done

tex=$doc/texlive-doc/latex
plain "$doc/aspell-fr/LISEZMOI" files_fr/files/LISEZMOI.aspell
plain "$doc/ifrench-gut/ALIRE" files_fr/files/ALIRE.gutenberg
plain "$doc/ifrench-gut/HISTORIQUE.gz" files_fr/files/HISTORIQUE.gutenberg
plain "$tex/annee-scolaire/LISEZMOI.md" files_fr/files/LISEZMOI-annee-scolaire.md
plain "$tex/tdsfrmath/LISEZMOI" files_fr/files/LISEZMOI.tdsfrmath
plain "$tex/l2tabu-french/l2tabufr.pdf" files_fr/files/l2tabufr.pdf
plain "$tex/annee-scolaire/annee-scolaire-fra.pdf" files_fr/files/annee-scolaire-fra.pdf
plain packages/usr/share/expeyes/doc/fr-eyesj.pdf files_fr/files/fr-eyesj.pdf
plain "$doc/mplayer/HTML/fr/faq.html" files_fr/files/mplayer-faq.html
for part in 4 5 6 7 8; do plain "$doc/brltty/French/BRLTTY-$part.html" "files_fr/files/brltty-$part.html"; done
for part in notesutilisation Divers Anonymat conflits; do
    plain "$doc/auto-multiple-choice/html/auto-multiple-choice.fr/$part.html" "files_fr/files/amc-$part.html"
done
for part in 004 006 008 011 016; do plain "$doc/grisbi/fr/grisbi-manuel$part.html" "files_fr/files/grisbi-manuel$part.html"; done
for page in man8/adduser.8 man8/deluser.8 man1/apt-listchanges.1 man1/shred.1 man1/at.1 man1/nohup.1 man1/nice.1; do
    plain "$man/fr/$page.gz" "files_fr/files/${page#*/}"
done
