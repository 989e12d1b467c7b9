#!/bin/bash
# bash get.sh DEST : lays the files out in DEST/files (needs apt-get, dpkg-deb, iconv)
set -euo pipefail
D=$1; mkdir -p "$D/files"; D=$(cd "$D" && pwd); T=$(mktemp -d); trap 'rm -rf "$T"' EXIT; cd "$T"
# package, file under its usr/share/doc (a .gz is unpacked), name here
while read -r package source name; do
    if [ ! -d "$package" ]; then apt-get download -qq "$package" 2>/dev/null; dpkg-deb -x "$package"_*.deb "$package"; fi
    from=$package/usr/share/doc/$package/$source; to=$D/files/$name; mkdir -p "$(dirname "$to")"
    case $source in *.gz) gunzip -c "$from" > "$to" ;; *) cp "$from" "$to" ;; esac
done <<'L'
asciijump README asciijump/README.txt
bastet README bastet/README.txt
bastet NEWS.gz bastet/NEWS.txt
cavezofphear README cavezofphear/README.txt
cavezofphear changelog.gz cavezofphear/CHANGES.txt
cgoban README cgoban/README.txt
curseofwar README.gz curseofwar/README.txt
empire README empire/README.txt
freesweep README.md freesweep/README.md
greed README greed/README.txt
kobodeluxe README.gz kobodeluxe/README.txt
kobodeluxe README.xkobo.gz kobodeluxe/README-xkobo.txt
lbreakout2 README.gz lbreakout2/README.txt
moon-buggy README moon-buggy/README.txt
moon-buggy NEWS.gz moon-buggy/NEWS.txt
ninvaders README ninvaders/README.txt
ninvaders changelog.gz ninvaders/CHANGES.txt
nsnake README.md.gz nsnake/README.md
nsnake changelog.gz nsnake/CHANGES.txt
nudoku README.md nudoku/README.md
pacman4console README.Debian pacman4console/README.txt
petris README.gz petris/README.txt
pioneers NEWS.gz pioneers/NEWS.txt
robotfindskitten changelog.gz robotfindskitten/CHANGES.txt
starfighter README.txt.gz starfighter/README.txt
tworld README.gz tworld/README.txt
tworld changelog.gz tworld/CHANGES.txt
typespeed README.gz typespeed/README.txt
typespeed changelog.gz typespeed/CHANGES.txt
vitetris README.gz vitetris/README.txt
vitetris changelog.gz vitetris/CHANGES.txt
xgalaga README.gz xgalaga/README.txt
xgalaga changelog.gz xgalaga/CHANGES.txt
xpuzzles README.gz xpuzzles/README.txt
xpuzzles xrubik.README xpuzzles/xrubik.txt
xsoldier README.gz xsoldier/README.txt
L
for f in ninvaders tworld typespeed; do iconv -f latin1 -t utf-8 "$D/files/$f/CHANGES.txt" > u; mv u "$D/files/$f/CHANGES.txt"; done
chmod -R u=rwX,go=rX "$D/files"
