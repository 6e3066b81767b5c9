#!/usr/bin/env bash
# Runs the service under a real systemd: service.sh WHEEL
#
# Debian boots in a container. The unit of a user has to start at boot, and again after a kill and after a hang of the
# supervisor; the system unit has to encode. Needs root, debootstrap and systemd-nspawn; takes four minutes. PIP_* and
# MIRROR (for debootstrap) choose where packages come from.
set -euo pipefail
wheel=$(realpath "$1")
work=$(mktemp -d) root=$work/root
nspawn=

finish() {
  [ -z "$nspawn" ] || { inside systemctl poweroff || true; wait "$nspawn" || true; }
  rm -rf --one-file-system "$work"
}
trap finish EXIT

boot() {
  # Without the systemd of this machine in its way: only the unified hierarchy shows when a service is empty.
  unshare -m bash -c '
    umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup
    mkdir -p /sys/fs/cgroup/studio && echo $$ > /sys/fs/cgroup/studio/cgroup.procs
    SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 exec systemd-nspawn -q -b -D "$0" --register=no --keep-unit \
      --console=read-only' "$root" > "$work/console" 2>&1 &
  nspawn=$!
  until_true "it boots" inside systemctl is-active --quiet multi-user.target
}

inside() { # a command in the booted system
  nsenter -t "$(pgrep -P "$nspawn" -f systemd)" -a env -i \
    PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin LANG=C.UTF-8 "$@"
}

as_user() { # a command line of the user
  inside runuser -l media -c "export XDG_RUNTIME_DIR=/run/user/1000 LANG=C.UTF-8; $*"
}

until_true() { # a description, and a command that succeeds in the end
  local what=$1 tries=0
  shift
  until "$@" > "$work/last" 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 150 ] || { echo "not ok: $what"; tail -20 "$work/last"; exit 1; }
    sleep 1
  done
  echo "ok: $what"
}

pid() { as_user systemctl --user show -p MainPID --value tqstudio; }
is_ready() { [ "$(pid)" != "${1:-0}" ] && as_user tqstudio service status; }
is_done() { as_user tqstudio job list | grep "✓ done.*$1"; }

debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,libpam-systemd,python3-venv,ca-certificates \
  bookworm "$root" ${MIRROR:+"$MIRROR"} > "$work/log" 2>&1 || { tail "$work/log"; exit 1; }
cp /etc/resolv.conf "$root/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp "$wheel" "$root/srv/"
chroot "$root" sh -ec "useradd -m -u 1000 -s /bin/bash media && python3 -m venv /opt/tqstudio \
  && /opt/tqstudio/bin/pip install -q /srv/$(basename "$wheel") 2> /dev/null && ln -s /opt/tqstudio/bin/tqstudio /usr/bin
  ffmpeg=\$(/opt/tqstudio/bin/python -c 'import imageio_ffmpeg; print(imageio_ffmpeg.get_ffmpeg_exe())')
  for name in killed system; do
    \$ffmpeg -loglevel error -f lavfi -i testsrc2=size=640x360:rate=24:duration=20 -pix_fmt yuv420p /srv/\$name.mp4
  done"

boot
inside loginctl enable-linger media
until_true "the user has a service manager" as_user systemctl --user is-active --quiet default.target
until_true "the unit of the user is installed" as_user tqstudio service install
until_true "it runs" is_ready
before=$(pid)
as_user tqstudio add /srv/killed.mp4
inside sh -c "kill -KILL $before"
until_true "systemd starts a killed supervisor again" is_ready "$before"
until_true "its job is done" is_done killed.mp4
before=$(pid)
inside sh -c "kill -STOP $before"
until_true "systemd restarts a supervisor that hangs" is_ready "$before"
inside systemctl poweroff && wait "$nspawn" || true
boot
until_true "it starts at boot" is_ready
until_true "the unit of the user is removed" as_user tqstudio service uninstall
until_true "the system unit is installed" inside tqstudio service install --system --user media
until_true "it runs" inside tqstudio service status --system
as_user tqstudio add /srv/system.mp4
until_true "it encodes" is_done system.mp4
until_true "the system unit is removed" inside tqstudio service uninstall --system
