#!/bin/bash
# bash get.sh DEST : lays the files out in DEST/files (needs apt-get, dpkg-deb, python3)
set -euo pipefail
D=$1; mkdir -p "$D/files"; D=$(cd "$D" && pwd); T=$(mktemp -d); trap 'rm -rf "$T"' EXIT; cd "$T"
apt-get download -qq jargon 2>/dev/null; dpkg-deb -x jargon_*.deb x
# the info file's nodes, each written out as a plain text
python3 - x/usr/share/info/jargon.info.gz "$D/files" <<'P'
import gzip, os, re, sys
text = gzip.open(sys.argv[1]).read().decode("latin-1")
nodes = {}
for block in text.split("\x1f\n")[1:]:
    head = re.match(r"File: [^,]*,\s+Node: ([^,\n]*)", block)
    if head:
        nodes.setdefault(head[1].strip(), block.split("\n", 2)[2])
portrait = ["Appendix B", "General Appearance", "Dress", "Reading Habits", "Other Interests", "Physical Activity and Sports", "Education",
            "Things Hackers Detest and Avoid", "Food", "Politics", "Gender and Ethnicity", "Religion", "Ceremonial Chemicals",
            "Communication Style", "Geographical Distribution", "Personality Characteristics", "Weaknesses of the Hacker Personality", "Miscellaneous"]
files = {
    "history/revision-history": ["Revision History"], "essays/the-meaning-of-hack": ["The Meaning of Hack"],
    "essays/helping-hacker-culture-grow": ["Appendix C"], "essays/a-portrait-of-j-random-hacker": portrait,
    "stories/tv-typewriters": ["TV Typewriters"], "stories/a-story-about-magic": ["A Story About Magic"], "stories/ai-koans": ["Some AI Koans"],
    "stories/os-and-jedgar": ["OS and JEDGAR"], "stories/the-story-of-mel": ["The Story of Mel"], "stories/saga": ["saga"],
    "stories/scratch-monkey": ["scratch monkey"], "stories/kremvax": ["kremvax"]}
for name in ("bug", "Mars", "TECO", "MUD", "HAKMEM", "blinkenlights", "TeX", "space-cadet keyboard", "foo", "kluge", "Unix", "TWENEX", "INTERCAL",
             "Foonly", "PDP-10", "Multics", "TMRC", "nethack", "life", "Easter egg", "ITS", "ping", "Discordianism"):
    files["articles/" + name.lower().replace(" ", "-")] = [name]
for path, names in files.items():
    path = os.path.join(sys.argv[2], path + ".txt")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n\n".join(nodes[name].strip() for name in names) + "\n")
P
chmod -R u=rwX,go=rX "$D/files"
