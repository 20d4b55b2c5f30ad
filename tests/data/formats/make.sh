#!/usr/bin/env bash
# Makes the files of this folder anew from what gzip.log.gz packs, with the real tools: gzip, bzip2, zstd, pzstd, lz4, xz, brotli, lzop (Debian 12),
# and the snappy of `pip install python-snappy`.
set -euo pipefail
cd "$(dirname "$0")"
part=$(mktemp -d)
trap 'rm -r "$part"' EXIT
gzip -dc gzip.log.gz > "$part/lines.log"
head -n 50 "$part/lines.log" > "$part/a"
tail -n +51 "$part/lines.log" > "$part/b"
two() { "$@" < "$part/a"; "$@" < "$part/b"; }
gzip -9nc < "$part/lines.log" > gzip.log.gz
two gzip -nc > gzip-members.log.gz
bzip2 -c < "$part/lines.log" > bzip2.log.bz2
two bzip2 -c > bzip2-streams.log.bz2
zstd -qc < "$part/lines.log" > zstd.log.zst
two zstd -qc > zstd-frames.log.zst
zstd --long=27 -19 -qc < "$part/lines.log" > zstd-long.log.zst
pzstd -q -p 2 -c < "$part/lines.log" > zstd-pzstd.log.zst
lz4 -qc < "$part/lines.log" > lz4.log.lz4
two lz4 -qc > lz4-frames.log.lz4
lz4 -qc -BD -B4 -BX --content-size "$part/lines.log" > lz4-options.log.lz4
refused() { "${@:2}" < "$part/lines.log" > "refused-$1"; truncate -s 128 "refused-$1"; }  # the beginning decides
refused lz4-legacy.log.lz4 lz4 -lqc
refused xz.log.xz xz -c
refused brotli.log.br brotli -c
refused lzop.log.lzo lzop -c
refused compress.log.Z compress -c
python3 -m snappy -c "$part/lines.log" snappy.log.sz
for part_of in a b; do python3 -m snappy -c "$part/$part_of" "$part/$part_of.sz"; done
cat "$part/a.sz" "$part/b.sz" > snappy-streams.log.sz
