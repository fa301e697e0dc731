#!/bin/bash
# Run jobs in an image of yours. This one is a directory with bash in it; what `podman save` and `docker save` write works as well.
cd "$(dirname "$0")" && . ../serve.sh
mkdir -p "$work/root/etc" "$work/root/usr/bin"
echo 'a small image' >"$work/root/etc/issue"
ldd /usr/bin/bash | grep -o '/[^ ]*' | xargs cp --parents --dereference --target-directory="$work/root"
cp /usr/bin/bash "$work/root/usr/bin/"
immure image import small "$work/root" --directory "$work/images" >"$work/imported"
sed "s|/var/lib/immure/images|$work/images|" server.textproto >"$work/server.textproto"
serve "$work/server.textproto"

curl -sS -u ":$IMMURE_KEY" "$IMMURE_URL/execute" --json \
    '{"language": "bash", "policy": "imaged", "environment": "image", "image": "small", "code": "read -r line </etc/issue; echo \"$line\""}' |
    jq -c '{status, image, stdout, stderr}'
