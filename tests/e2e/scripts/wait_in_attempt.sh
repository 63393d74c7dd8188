#!/bin/sh
# wait_in_attempt.sh FOLDER ON_TERM RANK DEED: a worker that notes its place in FOLDER, does ON_TERM when it is asked to
# stop, and waits for FOLDER/end, or for FOLDER/end.ATTEMPT.RANK. The one of that rank in the first attempt does DEED once
# FOLDER/go is there.
# Every process of it holds a lock as long as it runs, so that a worker finds what still runs of an attempt before its own.
folder=$1 on_term=$2 rank=$3 deed=$4
attempt=$TORCHELASTIC_RESTART_COUNT
exec 9> "$folder/lock.$attempt.$RANK"
flock 9
for before in $(seq 0 $((attempt - 1))); do
  for lock in "$folder/lock.$before".*; do
    [ ! -e "$lock" ] || flock -ns "$lock" true || touch "$folder/overlap.$attempt.$RANK.$(basename "$lock")"
  done
done
trap "$on_term" TERM
echo "$RANK/$WORLD_SIZE on $(hostname)" > "$folder/new.$attempt.$RANK"
mv "$folder/new.$attempt.$RANK" "$folder/$attempt.$RANK"
until [ -e "$folder/end" ] || [ -e "$folder/end.$attempt.$RANK" ]; do
  if [ "$attempt.$RANK" = "0.$rank" ] && [ -e "$folder/go" ]; then eval "$deed"; fi
  sleep 0.05 9>&-
done
