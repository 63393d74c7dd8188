#!/bin/sh
# wait_in_attempt.sh FOLDER ON_TERM: a worker that notes its place in FOLDER, does ON_TERM when it is asked to stop, does
# what FOLDER/deed.ATTEMPT.RANK says once that is there, and waits for FOLDER/end, or for FOLDER/end.ATTEMPT.RANK.
# Every process of it holds a lock as long as it runs, so that a worker finds what still runs of an attempt before its own.
folder=$1 on_term=$2
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
  if mv "$folder/deed.$attempt.$RANK" "$folder/done.$attempt.$RANK" 2> /dev/null; then
    . "$folder/done.$attempt.$RANK"
  fi
  sleep 0.05 9>&-
done
