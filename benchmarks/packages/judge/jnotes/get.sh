#!/bin/bash
# bash get.sh DEST : lays the files out in DEST/files (Debian 12 packages, by name)
set -e
D=$1; mkdir -p "$D/files"; D=$(cd "$D" && pwd); T=$(mktemp -d); trap 'rm -rf "$T"' EXIT; cd "$T"
F=$D/files
while read -r pkg path to; do
  [ -n "$pkg" ] || continue
  if [ ! -d "x_$pkg" ]; then apt-get download -q "$pkg" >/dev/null 2>&1; dpkg-deb -x "$pkg"_*.deb "x_$pkg"; fi
  s="x_$pkg/usr/share/doc/$path"; mkdir -p "$F/$(dirname "$to")"
  if [ -e "$s.gz" ]; then gzip -dc "$s.gz" > "$F/$to"; else cp "$s" "$F/$to"; fi
  chmod 644 "$F/$to"
done <<'L'
cryptsetup cryptsetup/FAQ.md storage/luks-faq.md
cryptsetup cryptsetup/README.keyctl storage/luks-keyctl.txt
cryptsetup cryptsetup/README.gnupg storage/luks-gnupg-key.txt
mdadm mdadm/FAQ storage/mdadm-faq.txt
mdadm mdadm/README.checkarray storage/checkarray.txt
mdadm mdadm/README.recipes storage/raid-recipes.txt
hdparm hdparm/README.acoustic storage/hdparm-acoustic.txt
smartmontools smartmontools/README.Debian storage/smartmontools.txt
sanoid sanoid/README.md storage/sanoid.md
btrbk btrbk/FAQ.md storage/btrbk-faq.md
rsnapshot rsnapshot/README.md backup/rsnapshot.md
rsnapshot rsnapshot/examples/utils/README backup/rsnapshot-utils.txt
restic restic/html/_sources/faq.rst.txt backup/restic-faq.txt
restic restic/html/_sources/060_forget.rst.txt backup/restic-forget.txt
backupninja backupninja/README.md backup/backupninja.md
msmtp msmtp/README.Debian mail/msmtp.txt
fetchmail fetchmail/README.SSL mail/fetchmail-ssl.txt
mutt mutt/PGP-Notes.txt mail/mutt-pgp-notes.txt
procmail procmail/FAQ mail/procmail-faq.txt
exim4-base exim4-base/GnuTLS-FAQ.txt mail/exim-gnutls-faq.txt
bogofilter-common bogofilter-common/README.sqlite mail/bogofilter-sqlite.txt
spamassassin spamassassin/README.Debian mail/spamassassin.txt
nullmailer nullmailer/README.Debian mail/nullmailer.txt
dnsmasq-base dnsmasq-base/FAQ network/dnsmasq-faq.txt
dnsmasq-base dnsmasq-base/systemd_howto network/dnsmasq-systemd-howto.txt
openvpn openvpn/README.Debian network/openvpn.txt
fail2ban fail2ban/README.md network/fail2ban.md
fail2ban fail2ban/README.Debian network/fail2ban-debian.txt
autossh autossh/README network/autossh.txt
rkhunter rkhunter/FAQ security/rkhunter-faq.txt
chkrootkit chkrootkit/README.FALSE-POSITIVES security/chkrootkit-false-positives.txt
lynis lynis/FAQ security/lynis-faq.txt
needrestart needrestart/README.md security/needrestart.md
sudo sudo/TROUBLESHOOTING.md security/sudo-troubleshooting.md
sudo sudo/HISTORY.md security/sudo-history.md
unattended-upgrades unattended-upgrades/README.md system/unattended-upgrades.md
etckeeper etckeeper/README.mdwn system/etckeeper.md
logwatch logwatch/HOWTO-Customize-LogWatch system/logwatch-howto.txt
postgresql-common postgresql-common/README.Debian system/postgresql.txt
screen screen/FAQ shell/screen-faq.txt
L
