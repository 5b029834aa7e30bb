#!/usr/bin/env bash
# Compares a folder of built wheels with what NVIDIA's cuobjdump lists, and installs them with plain pip.
set -euo pipefail
folder=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q nvidia-cuda-cuobjdump
cuobjdump=$(find "$work/venv" -path '*/bin/cuobjdump' -type f | head -n 1)
chmod +x "$cuobjdump"
found=0
for wheel in "$folder"/*.whl; do
  rm -rf "$work/tree"
  mkdir "$work/tree"
  (cd "$work/tree" && python3 -m zipfile -e "$OLDPWD/$wheel" .)
  while IFS= read -r module; do
    listed=$("$cuobjdump" -lelf "$module" 2>/dev/null | sed -n 's/.*\.\(sm_[0-9a-z]*\)\.cubin$/\1/p' | sort | uniq -c)
    [ -n "$listed" ] || continue
    printf '%s: %s\n' "$(basename "$module")" "$(tr -s ' \n' ' ' <<<"$listed")"
    found=1
    if grep -qv 'sm_121a$' <<<"$listed"; then
      echo "$wheel holds other images than sm_121a" >&2
      exit 1
    fi
  done < <(find "$work/tree" -name '*.so')
done
[ "$found" = 1 ] || { echo "no wheel in $folder holds device code" >&2; exit 1; }
mapfile -t names < <(find "$folder/simple" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort)
"$work/venv/bin/pip" download -q --no-deps --index-url "file://$PWD/$folder/simple" -d "$work/got" "${names[@]}"
for wheel in "$folder"/*.whl; do cmp "$work/got/$(basename "$wheel")" "$wheel"; done
"$work/venv/bin/pip" install -q --no-deps --index-url "file://$PWD/$folder/simple" "${names[@]}"
"$work/venv/bin/pip" show "${names[@]}" | grep -E '^(Name|Version):'
