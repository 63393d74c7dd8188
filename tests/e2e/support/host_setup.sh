#!/bin/sh
# host_setup.sh NAME DIRECTORY KEPT...: makes a host of fresh network, UTS and mount namespaces and stays in it.
set -eu
name=$1
directory=$2
shift 2

hostname "$name"
mkdir "$directory/machine-tmp"
mount --bind /tmp "$directory/machine-tmp"
mount -t tmpfs -o mode=1777 tmpfs /tmp
for path in "$@"; do
  source="$directory/machine-tmp/${path#/tmp/}"
  if [ -d "$source" ]; then
    mkdir -p "$path"
  else
    mkdir -p "${path%/*}"
    touch "$path"
  fi
  mount --bind "$source" "$path"
done
umount "$directory/machine-tmp"

mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount --bind "$directory/hosts" /etc/hosts
mount --bind "$directory/resolv.conf" /etc/resolv.conf
echo ready
exec sleep infinity >/dev/null
