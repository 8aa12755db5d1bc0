#!/bin/sh
# Makes src/rushes/uploads/sample.mp4, the clip behind "Try it with a sample": espeak-ng says the words, ffmpeg draws
# the picture. Nothing in it is anybody else's. From the repository's root, with espeak-ng, ffmpeg and DejaVu's fonts:
#   examples/sample/make.sh
set -eu

out=src/rushes/uploads/sample.mp4
font=/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

espeak-ng -v en-us -s 145 -g 4 -w "$work/voice.wav" "Hello, and welcome. This short recording shows what happens \
to every video that you add. A moment after the upload, it can be watched. Then everything that is said is written \
down, word by word. Now search for the word lighthouse, and you will jump to this very second."

ffmpeg -hide_banner -loglevel error -y -f lavfi -i "gradients=s=640x360:r=12:d=60:c0=0x0b1f33:c1=0x14506e:c2=0x1d8a8a:n=3:speed=0.004" \
    -i "$work/voice.wav" -filter_complex "[1:a]adelay=400:all=1,apad=pad_dur=0.8,aresample=24000,asplit=2[said][drawn];
[drawn]showwaves=s=640x72:r=12:mode=cline:colors=0xbfe5e5:scale=sqrt[waves];
[0:v][waves]overlay=0:236:shortest=1,
drawtext=fontfile=$font:text=Rushes:fontsize=64:fontcolor=white:x=(w-text_w)/2:y=82,
drawtext=fontfile=$font:text=A short sample:fontsize=24:fontcolor=white@0.85:x=(w-text_w)/2:y=160[seen]" \
    -map "[seen]" -map "[said]" -c:v libx264 -preset veryslow -crf 39 -pix_fmt yuv420p -g 48 -c:a aac -ac 1 -b:a 28k \
    -map_metadata -1 -fflags +bitexact -flags:v +bitexact -flags:a +bitexact -movflags +faststart "$out"
ls -l "$out"
