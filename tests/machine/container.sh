#!/usr/bin/env bash
# Builds the image on a Debian made here, without a registry, and runs it: container.sh
#
# PUID and PGID own what is written; a kill, of a worker or of all, costs no finished segment and leaves no zombie;
# `podman stop` ends what runs in order; UMASK closes, and opens shared outputs to the group; `doctor` names the line
# that a GPU lacks. Needs root, debootstrap and podman; takes twelve minutes on two cores. MIRROR (for debootstrap)
# chooses where packages come from, TARGET what is built; IMAGE is one that podman has, instead.
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
  # Copies instead where no overlay is possible: this machine may be a container.
  mkdir "$work/lower" "$work/upper" "$work/spare" "$work/merged"
  layers=lowerdir=$work/lower,upperdir=$work/upper,workdir=$work/spare driver=vfs
  mount -t overlay -o "$layers" overlay "$work/merged" 2> /dev/null && umount "$work/merged" && driver=overlay
  printf '[storage]\ndriver = "'$driver'"\ngraphroot = "%s"\nrunroot = "%s"\n' "$work/storage" "$work/run" > "$work/storage.conf"
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
segments() { # with their inodes; fragments are joined to them
  find "$work/output/.tqstudio" -path '*/segments/*' ! -path '*/fragments/*' -name '*.m4s' -printf '%i %p\n' | sort
}
more_segments() { [ "$(segments | wc -l)" -ge $(($(wc -l < "$work/before") + 3)) ]; }
none_is_lost() { segments > "$work/now" && ! comm -23 "$work/before" "$work/now" | grep .; }
owned_by_user() { ! find "$work/output" "$work/home" ! "(" -user $user -group $group ")" -ls | grep .; }
closed_to_others() { ! find "$work/output" -mindepth 1 ! -type l -perm /027 -ls | grep .; }
open_to_the_group() { ! find "$work/output/open" ! -type l ! -perm -020 -ls | grep .; }
no_zombies() { ! inside sh -c 'cat /proc/[0-9]*/stat' | grep ') Z '; }
workers() { inside sh -c 'grep -ls "engine[.]worker" /proc/[0-9]*/cmdline'; }
kill_workers() { inside sh -c 'kill -9 $(grep -ls "engine[.]worker" /proc/[0-9]*/cmdline | cut -d / -f 3)'; }
create() { # variables
  podman create --name studio "${running[@]}" -e PUID=$user -e PGID=$group -e TQSTUDIO_WORKERS=1 "$@" \
    --device /dev/null:/dev/nvidia0 --device "$work/dev/renderD128:/dev/dri/renderD128" \
    -v "$work/home:/studio" -v "$work/output:/output" -v "$work/drop:/drop" "$image" > /dev/null 2>&1
}
begin() { # what a start shows
  podman start studio > /dev/null 2>&1
  until_true "$1" podman healthcheck run studio
}
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
    ARGS="--layers=false --isolation chroot --network host --ulimit nofile=1024:$(ulimit -Hn)" > "$work/log" 2>&1 \
    || { tail -30 "$work/log"; exit 1; }
  echo "ok: the image is built in $SECONDS s, $(podman image inspect --format '{{.Size}}' "$image") bytes"
fi

mkdir "$work/home" "$work/output" "$work/drop"
mkdir -p "$work/dev" && mknod -m 660 "$work/dev/renderD128" c 1 3 && chgrp 23456 "$work/dev/renderD128"
: > "$work/before"
create -e UMASK=027
begin "it is healthy"
is_true "commands run as the user" sh -c "[ \"\$(stat -c %u '$work/home/supervisor.sock')\" = $user ]"
is_true "the supervisor is the first process, in the group of the render node, without new privileges" \
  inside sh -c "grep -q '^Groups:.*23456' /proc/1/status && grep -q '^NoNewPrivs:.*1' /proc/1/status \
    && grep -q '^Uid:.$user' /proc/1/status && grep -q tqstudio /proc/1/cmdline"
is_true "the page has its player" inside sh -c "test -s /opt/tqstudio/lib/*/site-packages/tqstudio/wings/page/static/hls.js"
inside tqstudio doctor > "$work/doctor" || true
sed 's/^/  /' "$work/doctor"
is_true "doctor names the line that NVIDIA's libraries lack" \
  grep NVIDIA_DRIVER_CAPABILITIES=video,compute,utility "$work/doctor"
is_true "the folder is added" inside tqstudio folder add /drop --settle 1
clip short.mp4 4
until_true "a dropped clip becomes a ladder" has_job "done" short
is_true "the user owns all that was written" owned_by_user
is_true "the umask closes it to others" closed_to_others

clip long.mp4 90
until_true "a longer one has its first segments" more_segments
segments > "$work/before"
is_true "its worker is killed" kill_workers
until_true "another one adds to its segments" more_segments
is_true "none is lost by that" none_is_lost
podman kill studio > /dev/null && podman wait studio > /dev/null
segments > "$work/before"
begin "it starts again after a kill of all"
until_true "the job adds to its segments" more_segments
is_true "none is lost by that either" none_is_lost
is_true "the job runs when it is stopped" has_job running long
is_true "a stop ends it by itself" podman stop --time 75 studio
is_true "not by a kill" sh -c "[ \"\$(podman inspect --format '{{.State.ExitCode}}' studio)\" = 0 ]"
begin "it starts again after a stop"
until_true "the rest is done after that" has_job "done" long

for _ in 1 2 3 4 5; do
  until_true "a worker is there" workers
  is_true "it is killed" kill_workers
done
until_true "no killed process is left as a zombie" no_zombies

podman rm --force --time 75 studio > /dev/null 2>&1
create -e UMASK=002 -e TQSTUDIO_ALLOW_SHARED_OUTPUT=true
begin "it starts with a shared output"
clip open.mp4 2
until_true "a clip becomes a ladder there" has_job "done" open
is_true "its group may write to it" open_to_the_group
is_true "the user owns all of it" owned_by_user
