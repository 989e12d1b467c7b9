#!/bin/bash
# bash get.sh DEST : lays out the corpus in DEST/files
set -euo pipefail
dest=$1; mkdir -p "$dest/files"; dest=$(cd "$dest" && pwd)
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
pip download -q --no-deps --no-binary openstack-governance -d . "openstack-governance==0.23.0"
tar xzf openstack_governance-0.23.0.tar.gz
src=$tmp/openstack_governance-0.23.0
f=$dest/files
mkdir -p "$f/resolutions" "$f/transcripts" "$f/surveys"
for r in 20140711-election-activities 20140909-cla 20141128-elections-process-for-leaderless-programs 20150512-utc \
  20150901-programming-languages 20160119-stackforge-retirement 20160217-mission-amendment \
  20160414-grant-cross-project-spec-team-voting 20160504-defcore-proxy-tests 20160705-stewardship 20170613-postgresql-status \
  20170718-allow-scheduling-meetings-on-team-channels 20180206-dedicate-queens-to-shawn-pearce 20180215-third-party-check \
  20180301-stable-branch-eol 20180319-sig-governance 20180529-python2-deprecation-timeline 20181018-t-release-name \
  20190322-namespace-unofficial-projects 20200228-openstack-infra-split-to-opendev 20200831-reinstate-weekly-meetings \
  20201028-openstackclient-tc-policy 20210526-move-irc-to-oftc 20210602-atc-renamed-to-ac 20210923-stable-core-team \
  20211224-tags-framework-removal 20220210-release-cadence-adjustment 20220414-drop-lower-constraints \
  20220524-release-identification-process 20220927-dedicate-zed-to-ilya-etingof 20230724-unmaintained-branches \
  20231114-amend-unmaintained-status 20240227-remove-murano-from-2024-1-release 20240322-adjudication-of-2024.2-tc-election \
  20250122-freezer-late-2025-1-release 20250514-relinquish-quantum-project-on-pypi \
  20250520-replace-the-cla-with-dco-for-all-contributions 20251117-handover-os-net-config 20260618-contributor-experience-working-group
do cp "$src/resolutions/$r.rst" "$f/resolutions/"; done
cp "$src/resolutions/20231208-tc-approve-dec-05-2023-bylaws-changes/oif_bylaws_openstack_is_oip.pdf" "$f/resolutions/"
cp "$src/reference/tc-meeting-transcripts/"*.txt "$f/transcripts/"
cp "$src/doc/source/user_survey/analysis-2021.rst" "$src/doc/source/user_survey/analysis-2022.rst" "$f/surveys/"
cp "$src/pre-history/meetings" "$f/pre-history-meetings.txt"
chmod -R u=rwX,go=rX "$f"
