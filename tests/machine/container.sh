#!/usr/bin/env bash
# Builds the image on a Debian made here, without a registry, and runs it: container.sh
#
# PUID and PGID own what is written; a kill costs no finished segment; `podman stop` waits for the job; `doctor` names
# the line that a GPU lacks. Needs root, debootstrap and podman; takes ten minutes on two cores. MIRROR (for
# debootstrap) chooses where packages come from, TARGET what is built; IMAGE is one that podman has, instead.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${TARGET:-cpu}
image=${IMAGE:-localhost/tqstudio:$target}
limits=(--ulimit "nofile=1024:$(ulimit -Hn)" --ulimit nproc=4096:4096)
running=(--network host --cgroups disabled "${limits[@]}")
user=1234 group=4321

if [ "${INSIDE:-}" != yes ]; then
  # With the unified hierarchy alone, which crun asks for.
  INSIDE=yes exec unshare -m bash -c '
    umount -R /sys/fs/cgroup 2> /dev/null; mount -t cgroup2 none /sys/fs/cgroup; exec "$@"' - "$PWD/tests/machine/container.sh"
fi

work=$(mktemp -d)
if [ -z "${IMAGE:-}" ]; then
  # An overlay may not be possible: this machine may be a container.
  printf '[storage]\ndriver = "vfs"\ngraphroot = "%s"\nrunroot = "%s"\n' "$work/storage" "$work/run" > "$work/storage.conf"
  export CONTAINERS_STORAGE_CONF=$work/storage.conf
fi

finish() {
  podman rm --force --time 0 studio > /dev/null 2>&1 || true
  rm -rf --one-file-system "$work"
}
trap finish EXIT

until_true() { # a description, and a command that succeeds in the end
  local what=$1 tries=0
  shift
  until "$@" > "$work/last" 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || { echo "not ok: $what"; tail -20 "$work/last"; podman logs studio 2>&1 | tail -20; exit 1; }
    sleep 1
  done
  echo "ok: $what"
}

is_true() { # a description, and a command that succeeds now
  "${@:2}" > "$work/last" 2>&1 || { echo "not ok: $1"; tail -20 "$work/last"; exit 1; }
  echo "ok: $1"
}

inside() { podman exec studio "$@"; }
has_job() { inside tqstudio job list | grep "$1.*$2"; }
segments() { find "$work/output/.tqstudio" -path '*/segments/*' -name '*.m4s' | sort; }
some_segments() { [ "$(segments | wc -l)" -ge 3 ]; }
owned_by_user() { ! find "$work/output" "$work/home" ! "(" -user $user -group $group ")" -ls | grep .; }
closed_to_others() { ! find "$work/output" -mindepth 1 ! -type l -perm /027 -ls | grep .; }
clip() { # a name and its seconds
  inside sh -c "/opt/tqstudio/lib/python3*/site-packages/imageio_ffmpeg/binaries/ffmpeg* -loglevel error -f lavfi \
    -i testsrc2=size=1280x720:rate=30:duration=$2 -pix_fmt yuv420p -preset ultrafast /tmp/$1 && mv /tmp/$1 /drop/"
}

if [ -z "${IMAGE:-}" ]; then
  debootstrap --variant=minbase trixie "$work/base" ${MIRROR:+"$MIRROR"} > "$work/log" 2>&1 || { tail "$work/log"; exit 1; }
  # What this machine trusts, the build has to trust.
  install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$work/base/usr/local/share/ca-certificates/machine.crt"
  tar -C "$work/base" -c . | podman import -q - localhost/debian:trixie > /dev/null
  make container ENGINE=podman TARGET="$target" BASE=localhost/debian:trixie \
    ARGS="--isolation chroot --network host --ulimit nofile=1024:$(ulimit -Hn)" > "$work/log" 2>&1 \
    || { tail -30 "$work/log"; exit 1; }
  echo "ok: the image is built"
fi

mkdir "$work/home" "$work/output" "$work/drop"
mkdir -p "$work/dev" && mknod -m 660 "$work/dev/renderD128" c 1 3 && chgrp 23456 "$work/dev/renderD128"
podman create --name studio "${running[@]}" -e PUID=$user -e PGID=$group -e UMASK=027 -e TQSTUDIO_WORKERS=1 \
  --device /dev/null:/dev/nvidia0 --device "$work/dev/renderD128:/dev/dri/renderD128" \
  -v "$work/home:/studio" -v "$work/output:/output" -v "$work/drop:/drop" "$image" > /dev/null 2>&1
podman start studio > /dev/null 2>&1
until_true "it is healthy" podman healthcheck run studio
is_true "commands run as the user" sh -c "[ \"\$(stat -c %u '$work/home/supervisor.sock')\" = $user ]"
is_true "the supervisor is the first process, in the group of the render node, without new privileges" \
  inside sh -c "grep -q '^Groups:.*23456' /proc/1/status && grep -q '^NoNewPrivs:.*1' /proc/1/status \
    && grep -q '^Uid:.$user' /proc/1/status && grep -q tqstudio /proc/1/cmdline"
inside tqstudio doctor > "$work/doctor" || true
is_true "doctor names the line that NVIDIA's libraries lack" \
  grep -A1 'gpu access NVIDIA' "$work/doctor"
is_true "it is that of the capabilities" grep NVIDIA_DRIVER_CAPABILITIES=video,compute,utility "$work/doctor"
is_true "the folder is added" inside tqstudio folder add /drop --settle 1
clip short.mp4 4
until_true "a dropped clip becomes a ladder" has_job "done" short
is_true "the user owns all that was written" owned_by_user
is_true "the umask closes it to others" closed_to_others
clip long.mp4 60
until_true "a longer one has its first segments" some_segments
podman kill studio > /dev/null && podman wait studio > /dev/null
segments > "$work/before"
xargs stat -c '%i %n' < "$work/before" > "$work/inodes"
podman start studio > /dev/null 2>&1
until_true "it starts again after a kill" podman healthcheck run studio
until_true "the job runs again" has_job running long
is_true "with the segments that it had" sh -c "xargs stat -c '%i %n' < '$work/before' | cmp - '$work/inodes'"
is_true "a stop ends it by itself" podman stop --time 75 studio
is_true "not by a kill" sh -c "[ \"\$(podman inspect --format '{{.State.ExitCode}}' studio)\" = 0 ]"
podman start studio > /dev/null 2>&1
until_true "the rest is done after that" has_job "done" long
is_true "no finished process is left as a zombie" sh -c "! podman exec studio sh -c 'cat /proc/[0-9]*/stat' | grep ' Z '"
